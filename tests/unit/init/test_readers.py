"""What each reader finds, one file at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from init_projects import BAKE_FILE, write_project

from bakery.init.bases import BaseChoice, base_choice
from bakery.init.findings import read_toml, requirement_name
from bakery.init.make import make_recipe
from bakery.init.project import candidates, read_project
from bakery.init.read_bake_file import read_bake_file
from bakery.init.read_cibuildwheel import Cibuildwheel, read_cibuildwheel
from bakery.init.read_native import read_cmake, read_sources
from bakery.init.read_setup_py import read_setup_py
from bakery.init.tree import scan
from bakery.init.write import find_target

DEBIAN = base_choice("debian")


def cibuildwheel(tmp_path: Path, settings: str, base: BaseChoice = DEBIAN, **files: str) -> Cibuildwheel:
    root = write_project(tmp_path, {"pyproject.toml": f"[tool.cibuildwheel]\n{settings}\n", **files})
    tree = scan(root)
    data = read_toml(tree, "pyproject.toml")
    assert data
    found = read_cibuildwheel(data, base, tree)
    assert found
    return found


def test_setup_py_is_parsed() -> None:
    setup = read_setup_py(
        """
import numpy as np
from Cython.Build import cythonize
try:
    import torch
except ImportError:
    pass
LIBRARIES = ["z", f"x{1}"]
def run():
    from pybind11.setup_helpers import Pybind11Extension
    return [Pybind11Extension("a.b", ["b.cpp"], libraries=LIBRARIES)]
if True:
    MORE = ["png"] + (["m"] if x else []) + ["tiff"]
Extension("c", libraries=MORE)
setup(**dict(name="from-dict"), package_dir={str(""): str("lib")}, py_modules=["a"])
""",
    )
    assert setup
    assert set(setup.imports) == {"numpy", "Cython", "pybind11"}
    assert [str(fact.place) for fact in setup.libraries] == ["setup.py:8", "setup.py:13", "setup.py:13"]
    assert [fact.text for fact in setup.keywords["name"]] == ["from-dict"]
    assert setup.package_folder
    assert setup.package_folder.text == "lib"
    assert [fact.text for fact in (*setup.names, *setup.keywords["py_modules"])] == ["a.b", "c", "a"]


@pytest.mark.parametrize("text", ["print 'python 2'", "def f(:\n", "\0"])
def test_setup_py_of_python_2(text: str) -> None:
    assert read_setup_py(text) is None


def test_warnings_of_setup_py_are_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    assert read_setup_py('x = "\\d"\nif x is 1: pass\n')
    assert not recwarn.list


@pytest.mark.parametrize(
    ("settings", "pythons"),
    [
        ("", ["3.9", "3.11", "3.13", "3.14"]),
        ('build = "cp311-* cp313-manylinux*"', ["3.11", "3.13"]),
        ('build = "cp3{9,1{1,4}}-*"', ["3.9", "3.11", "3.14"]),
        ('skip = ["cp39-*", "*-musllinux*", "pp*"]', ["3.11", "3.13", "3.14"]),
        ('build = "cp31?-*_x86_64"\nskip = "cp314*"', ["3.11", "3.13"]),
    ],
)
def test_selectors_of_cibuildwheel(tmp_path: Path, settings: str, pythons: list[str]) -> None:
    found = cibuildwheel(tmp_path, f"{settings}\nbuild-verbosity = 1")
    assert [python for python in DEBIAN.pythons if found.selects(python)] == pythons


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        ("environment = \"A=1 B='x y'\"", "builder.environment", {"A": "1", "B": "x y"}),
        ('config-settings = "a=b c=d"', "wheel.config-settings", {"a": "b", "c": "d"}),
        ('build-frontend = "uv"', "wheel.frontend", "uv"),
        ('repair-wheel-command = ""', "wheel.repair", False),
        (
            'repair-wheel-command = "auditwheel repair --exclude=a.so -w {dest_dir} {wheel}"',
            "wheel.repair",
            {"exclude": ["a.so"]},
        ),
        ('before-all = "apt-get install -y libpng-dev"', "builder.system-packages", ["libpng-dev"]),
        ('before-all = "yum install -y libpng-devel"', "builder.system-packages", ["libpng-dev"]),
        (
            'before-all = "make deps"\nbefore-build = "sh {project}/gen.sh"',
            "builder.before-build",
            {"command": "make deps && sh /src/gen.sh", "network": True},
        ),
        (
            'before-build = ["python -m pip install -U ninja", "pip install meson"]',
            "builder.requirements",
            ["ninja", "meson"],
        ),
        ('test-sources = ["./py/tests/"]\ntest-command = "pytest py/tests"', "test.files", ["py"]),
        ('test-sources = ["./tests/"]\ntest-command = "pytest tests"', "test.files", ["tests"]),
        (
            'test-command = ["python a.py", "pytest {project}/tests/x.py"]',
            "test.command",
            "python a.py && pytest tests/x.py",
        ),
    ],
)
def test_settings_with_the_same_meaning(tmp_path: Path, settings: str, key: str, value: object) -> None:
    found = cibuildwheel(tmp_path, settings, **{"tests/x.py": ""})
    assert found.values[key][0] == value
    assert found.rest == []
    assert str(found.values[key][1]).startswith("pyproject.toml:")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ('environment = { A = "$(date)" }', "the shell or pip would evaluate A"),
        ('environment = "A=\'"', "it cannot be read"),
        ('config-settings = { a = ["b", "c"] }', "a recipe takes one text for each setting"),
        ('build-frontend = { name = "build", args = ["-v"] }', "a recipe has build and uv, without arguments"),
        ('repair-wheel-command = "my-repair {wheel}"', "a command other than auditwheel repair"),
        ('before-all = "yum install -y libown-devel"', "packages of another distribution"),
        ('before-all = "apt-get install -y a; make"', "it installs packages; write their names here"),
        ('before-build = "make {wheel}"', "a command with placeholders or variables; "),
        ('before-all = "make $(date)"', "a command with placeholders or variables; "),
        ('test-command = "pytest {project}"', "it uses the whole project"),
        ('test-command = "pytest {project}/nowhere"', "it names files that are not in the project"),
        ('test-command = "echo ${HOME}"', "a recipe takes one line without ${…}"),
        ('test-extras = "nothing"', "pyproject.toml has no such extra"),
        ('test-groups = "nothing"', "pyproject.toml has no such group"),
        ('test-sources = ["../outside"]', "a recipe takes paths inside the source"),
        ('archs = ["i686"]', "Bakery has no platform for i686"),
        ('manylinux-x86_64-image = "manylinux_2_24"', "not the base"),
        ('test-requires = "-r requirements.txt"', "a recipe requires distributions of the package index only"),
        ('test-requires = ["demo @ https://example.org/demo.zip"]', "a recipe requires distributions"),
        ('container-engine = "podman"', "a recipe has no such setting"),
        ("[tool.cibuildwheel.windows]\narchs = []", "the recipe builds for Linux only"),
    ],
)
def test_other_settings_are_listed(tmp_path: Path, settings: str, reason: str) -> None:
    found = cibuildwheel(tmp_path, settings)
    assert found.values == {}
    (line,) = found.rest
    assert line.what.startswith("tool.cibuildwheel.")
    assert line.reason.startswith(reason)


def test_what_a_lost_preparation_made_is_not_used(tmp_path: Path) -> None:
    found = cibuildwheel(tmp_path, 'before-all = "make {wheel}"\nenvironment = { PREFIX = "/deps" }')
    assert found.values == {}
    assert [line.reason for line in found.rest][-1] == "it may rely on before-all"


def test_requirements_without_a_test_command(tmp_path: Path) -> None:
    found = cibuildwheel(tmp_path, 'test-requires = ["pytest"]\ntest-command = "pytest {project}"')
    assert found.values == {}
    assert [line.reason for line in found.rest] == [
        "it uses the whole project; a test of a recipe sees test.files only",
        "it is for the test command, and there is none",
    ]


def test_a_setup_py_that_would_download_a_wheel(tmp_path: Path) -> None:
    text = (
        'from setuptools import Extension, setup\nSKIP = os.getenv("DEMO_FORCE_BUILD", "FALSE")\nsetup(name="demo")\n'
    )
    root = write_project(tmp_path, {"setup.py": text, "demo.c": ""})
    tree = scan(root)
    made = make_recipe(tree, "", find_target(tree, pyproject=False), None, lambda _question, options: options[0])
    assert 'environment = { DEMO_FORCE_BUILD = "TRUE" }' in made.text


def test_a_test_command_that_lacks_its_requirements(tmp_path: Path) -> None:
    found = cibuildwheel(tmp_path, 'test-requires = "-r requirements.txt"\ntest-command = "pytest"')
    assert found.values == {}
    assert [line.reason for line in found.rest] == [
        "a recipe requires distributions of the package index only",
        "it may rely on test-requires",
    ]


@pytest.mark.parametrize(
    ("archs", "platforms"),
    [
        ('"auto"', ()),
        ('["auto", "aarch64"]', ("linux/amd64", "linux/arm64")),
        ('"all"', ("linux/amd64", "linux/arm64")),
        ('["ppc64le"]', ()),
    ],
)
def test_platforms_of_cibuildwheel(tmp_path: Path, archs: str, platforms: tuple[str, ...]) -> None:
    assert cibuildwheel(tmp_path, f"archs = {archs}").platforms == platforms


def test_packages_of_a_manylinux_image(tmp_path: Path) -> None:
    base = base_choice("registry.example/manylinux_2_28:1")
    found = cibuildwheel(tmp_path, 'before-all = "dnf install -y libpng-devel"', base)
    assert found.values["builder.system-packages"][0] == ["libpng-devel"]


def test_a_short_name_of_cibuildwheel_is_the_base(tmp_path: Path) -> None:
    text = '[project]\nname = "demo"\n[tool.cibuildwheel]\nmanylinux-x86_64-image = "manylinux_2_34"\n'
    project = read_project(scan(write_project(tmp_path, {"pyproject.toml": text})), "")
    assert project.base.value == "manylinux_2_34"
    assert project.cibuildwheel
    assert project.cibuildwheel.rest == []


def test_settings_of_linux_come_first(tmp_path: Path) -> None:
    settings = 'environment = { A = "1" }\n[tool.cibuildwheel.linux]\nenvironment = { A = "2" }'
    assert cibuildwheel(tmp_path, settings).values["builder.environment"][0] == {"A": "2"}


def test_a_bake_file_that_the_rules_refuse_is_not_carried_over(tmp_path: Path) -> None:
    bake = BAKE_FILE["docker-bake.hcl"].replace('"80;90"', '"90;130"')
    root = write_project(tmp_path, {**BAKE_FILE, "docker-bake.hcl": bake})
    tree = scan(root)
    made = make_recipe(tree, "", find_target(tree, pyproject=False), None, lambda _question, options: options[0])
    assert [line.what for line in made.draft.rest] == ["docker-bake.hcl"]
    assert "130" not in made.text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("target {{{", "it is no HCL that can be read"),
        ("a = " + "[" * 60, "nested too deeply, so it was not read"),
        ("# x\n" * 20_000, "larger than 32 KiB, so it was not read"),
    ],
)
def test_a_bake_file_that_cannot_be_read(tmp_path: Path, text: str, reason: str) -> None:
    found = read_bake_file(scan(write_project(tmp_path, {"docker-bake.hcl": text})))
    assert found
    assert found.rest == [("docker-bake.hcl", reason)]


def test_a_bake_file_without_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hcl2", None)
    found = read_bake_file(scan(write_project(tmp_path, {"docker-bake.hcl": "a = 1\n"})))
    assert found
    assert "wheel-bakery[bake-file]" in found.rest[0].reason


def test_cmake(tmp_path: Path) -> None:
    text = """cmake_minimum_required(VERSION 3.20)
project(x
  LANGUAGES CXX Fortran)
# find_package(OpenSSL REQUIRED)
find_package(PNG)
pkg_check_modules(DEPS REQUIRED IMPORTED_TARGET libzstd>=1.4 liblz4)
file(GLOB SOURCES *.c)
file(DOWNLOAD https://example.org/x.tar.gz x.tar.gz)
"""
    build = read_cmake(scan(write_project(tmp_path, {"CMakeLists.txt": text})))
    assert {name: place.line for name, place in build.languages.items()} == {"cxx": 2, "fortran": 2}
    assert set(build.packages) - {"IMPORTED_TARGET"} == {"libzstd", "liblz4"}
    assert build.downloads
    assert build.downloads.place.line == 8


def test_includes_in_comments_do_not_count(tmp_path: Path) -> None:
    text = "// #include <torch/extension.h>\n  # include <zlib.h>\n#include <zlib.h>\n"
    sources = read_sources(
        scan(write_project(tmp_path, {"a.cpp": text, "b.pyx": 'cdef extern from "own.h":\n', "own.h": ""}))
    )
    assert {name: str(place) for name, place in sources.headers.items()} == {"zlib.h": "a.cpp:2", "own.h": "b.pyx:1"}
    assert set(sources.absent) == {"zlib.h"}
    assert str(sources.uncompiled) == "b.pyx"


@pytest.mark.parametrize(
    ("files", "module"),
    [
        ({"src/foo_bar/__init__.py": ""}, "foo_bar"),
        ({"foo_bar.py": ""}, "foo_bar"),
        ({"src/Foo_Bar/__init__.py": ""}, "Foo_Bar"),
        ({"other/__init__.py": ""}, "other"),
        ({"one/__init__.py": "", "two/__init__.py": ""}, None),
        ({"setup.py": 'setup(ext_modules=[Extension("foo_bar", [])])'}, "foo_bar"),
        ({"setup.py": 'setup(packages=["pkg", "pkg.sub"])'}, "pkg"),
        ({"tests/__init__.py": ""}, None),
    ],
)
def test_the_module_to_import(tmp_path: Path, files: dict[str, str], module: str | None) -> None:
    root = write_project(tmp_path, {"pyproject.toml": '[project]\nname = "Foo.Bar"\n', **files})
    found = read_project(scan(root), "").modules
    assert [fact.text for fact in found] == ([module] if module else [])


def test_empty_submodules_are_named(tmp_path: Path) -> None:
    text = '[submodule "a"]\n\tpath = extern/a\n\turl = x\n[submodule "b"]\n\tpath = extern/b\n'
    files = {"pyproject.toml": "[project]\n", ".gitmodules": text, "extern/b/x.c": ""}
    (note,) = read_project(scan(write_project(tmp_path, files)), "").notes
    assert note.startswith("the submodule extern/a is empty")


def test_the_name_in_a_source_distribution(tmp_path: Path) -> None:
    root = write_project(
        tmp_path, {"setup.py": "setup(name=NAME)\n", "PKG-INFO": "Metadata-Version: 2.1\nName: Demo\n"}
    )
    assert read_project(scan(root), "").metadata.name == ("Demo", ("PKG-INFO", 0))


def test_folders_of_tests_and_examples_are_no_projects(tmp_path: Path) -> None:
    files = {f"{name}/setup.py": "" for name in ("tests", "examples", "docs", "vendor", "python")}
    assert candidates(scan(write_project(tmp_path, files))) == ("python",)


def test_the_newest_release_is_read_from_tags(tmp_path: Path) -> None:
    text = '[build-system]\nrequires = ["setuptools-scm"]\n[project]\nname = "demo"\n'
    root = write_project(tmp_path, {"pyproject.toml": text, "demo.c": ""})
    assert read_project(scan(root), "").release == ""
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "x"), ("tag", "nightly"), ("tag", "demo-1.10.2")):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, "-C", str(root), *words], check=True)
    assert read_project(scan(root), "").release == "1.10.2"


def test_requirement_names() -> None:
    assert requirement_name("Scikit_Build.Core[x]>=0.10; python_version > '3'") == "scikit-build-core"
    assert requirement_name("@") == ""
