"""What each reader finds, one file at a time."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from file_trees import write_files
from init_projects import BAKE_FILE, TORCH, made
from repositories import commit, git

from bakery.init.bases import BaseChoice, base_choice
from bakery.init.findings import read_toml, requirement_name
from bakery.init.project import candidates, read_project
from bakery.init.read_bake_file import BakeFile, read_bake_file
from bakery.init.read_cibuildwheel import Cibuildwheel, read_cibuildwheel
from bakery.init.read_native import read_cmake, read_sources
from bakery.init.read_setup_py import read_setup_py
from bakery.init.read_tests import NoSuchListError, listed_requirements
from bakery.init.tree import scan
from bakery.init.write import Entry
from bakery.plan.values import substitute

DEBIAN = base_choice("debian")


def cibuildwheel(tmp_path: Path, settings: str, base: BaseChoice = DEBIAN, **files: str) -> Cibuildwheel:
    root = write_files(tmp_path, {"pyproject.toml": f"[tool.cibuildwheel]\n{settings}\n", **files})
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
"""
    )
    assert setup
    assert set(setup.imports) == {"numpy", "Cython", "pybind11"}
    assert [str(fact.place) for fact in setup.libraries] == ["setup.py:8", "setup.py:13", "setup.py:13"]
    assert [fact.text for fact in setup.keywords["name"]] == ["from-dict"]
    assert setup.package_folder
    assert setup.package_folder.text == "lib"
    assert [fact.text for fact in (*setup.names, *setup.keywords["py_modules"])] == ["a.b", "c", "a"]


@pytest.mark.parametrize(
    ("text", "name", "packages"),
    [
        # A table of something else, as in lmdb.
        ("LIBRARIES = [dict(name='v09', packages=['v'])]\nsetup(name='lmdb')", ["lmdb"], None),
        ("setup(name='lmdb')\nLIBRARIES = [dict(name='v09', packages=['v'])]", ["lmdb"], None),
        ("more = dict(name='other', packages=['a'])\nsetup(name='demo', **more)", ["demo"], ["a"]),
        ("more = dict(name='other', packages=['a'])\nrun(**more)", ["other"], ["a"]),
    ],
)
def test_what_setup_is_given_counts_before_other_tables(text: str, name: list[str], packages: list[str] | None) -> None:
    setup = read_setup_py(text)
    assert setup
    found = {key: [fact.text for fact in facts] for key, facts in setup.keywords.items()}
    assert found == {"name": name, **({"packages": packages} if packages else {})}


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
    assert [python for python in DEBIAN.pythons if found.selects(python, ["manylinux_x86_64"])] == pythons


_LEFT_OUT = "build and skip of cibuildwheel (pyproject.toml:3)"


@pytest.mark.parametrize(
    ("settings", "pythons", "rest"),
    [
        ('build = ["cp312-*", "cp314t-*"]', ["3.12", "3.14t"], []),
        ('build = "cp314t-*"', ["3.14t"], []),
        ('build = "cp31{3,4}{,t}-manylinux*"', ["3.13", "3.14", "3.14t"], [("Python 3.13t (pyproject.toml:3)", "not in the base")]),
        ('build = "cp314*"', ["3.14"], []),
        ('build = "cp314* *t-*"\nskip = "cp315*"', ["3.14", "3.14t"], []),
        ('build = "cp312-* cp314t-*"\nskip = "cp314t-*"', ["3.12"], []),
        ('build = "cp310-* cp312-*"', ["3.12"], [("Python 3.10 (pyproject.toml:3)", "requires-python leaves it out")]),
        ('build = ["cp312-manylinux_aarch64"]\narchs = ["aarch64"]', ["3.12"], []),
        (
            'build = "cp312-*x86_64 cp313-musllinux* cp314-*aarch64"\narchs = "auto aarch64"',
            ["3.12", "3.14"],
            [("Python 3.13 (pyproject.toml:3)", "for no platform of the recipe")],
        ),
        (
            'build = "pp*"',
            ["3.11", "3.12", "3.13", "3.14", "3.15"],
            [(_LEFT_OUT, "they select none of the wheels that the base builds: manylinux_x86_64")],
        ),
        ('skip = "cp31[345]*"', ["3.11", "3.12"], []),
    ],
)  # fmt: skip
def test_pythons_of_cibuildwheel(
    tmp_path: Path, settings: str, pythons: list[str], rest: list[tuple[str, str]]
) -> None:
    text = (
        f'project = {{ name = "demo", version = "1", requires-python = ">=3.11" }}\n\n[tool.cibuildwheel]\n{settings}\n'
    )
    recipe = made(tmp_path, {"pyproject.toml": text, "demo.c": ""})
    assert recipe.draft.texts("matrix.python") == pythons
    assert [tuple(item) for item in recipe.draft.rest] == rest


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        ("environment = \"A=1 B='x y'\"", "builder.environment", {"A": "1", "B": "x y"}),
        ('config-settings = "a=b c=d"', "wheel.config-settings", {"a": "b", "c": "d"}),
        (
            'config-settings = "setup-args=-Da setup-args=-Db c=d"',
            "wheel.config-settings",
            {"setup-args": ["-Da", "-Db"], "c": "d"},
        ),
        (
            'config-settings = { compile-args = ["-v", "-j2"], a = "b" }',
            "wheel.config-settings",
            {"compile-args": ["-v", "-j2"], "a": "b"},
        ),
        ('build-frontend = "uv"', "wheel.frontend", "uv"),
        (
            'repair-wheel-command = "auditwheel -v repair --exclude a.so.1 -w {dest_dir} {wheel}"',
            "wheel.repair",
            {"exclude": ["a.so.1"]},
        ),
        (
            'repair-wheel-command = "python -m auditwheel repair --plat manylinux_2_28_x86_64 --strip -w {dest_dir} {wheel}"',
            "wheel.repair",
            {"plat": "manylinux_2_28", "strip": True},
        ),
        (
            'repair-wheel-command = "auditwheel repair --plat $AUDITWHEEL_PLAT --exclude /opt/x/lib/liba.so.* '
            '--exclude=$ROOT/libb.so {wheel}"',
            "wheel.repair",
            {"exclude": ["liba.so.*", "libb.so"]},
        ),
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
    found = cibuildwheel(tmp_path, settings, **{"tests/x.py": "", "gen.sh": "make all\n"})
    assert found.values[key][0] == value
    assert found.rest == []
    assert str(found.values[key][1]).startswith("pyproject.toml:")


_MISSING = "the project has no {}; write it as builder.before-build"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        *((start + "ci.sh", "it installs packages") for start in ("", "./", "{project}/", "{package}/", "/project/")),
        ("bash {project}/.ci/all.sh", "it installs packages"),
        ("cd .ci && sudo ./all.sh", "it installs packages"),
        ("bash -ex ./get.sh", "it downloads"),
        ("./none.sh", _MISSING.format("none.sh")),
        ("make && python {project}/tools/none.py", _MISSING.format("tools/none.py")),
        ("cd tools && ./ci.sh", _MISSING.format("tools/ci.sh")),
        ("./plain.sh", ""),
        ("../above.sh", ""),
        ("/opt/python/bin/python -m none.module", ""),
        ("bash -c 'make none.sh'", ""),
        ("CC=gcc make ./none.sh", ""),
        ("cd {project}/.ci && ./plain.sh", ""),
    ],
)
def test_scripts_that_prepare_a_build(tmp_path: Path, command: str, reason: str) -> None:
    command = f"bash {command}" if command == "ci.sh" else command
    files = {"ci.sh": "yum install x\n", ".ci/all.sh": "yum install x\n", ".ci/plain.sh": "", "get.sh": "curl x\n"}
    found = cibuildwheel(tmp_path, f'before-all = "{command}"', **{**files, "plain.sh": "make\n"})
    assert ("builder.before-build" in found.values) is not bool(reason)
    assert [line.reason[: len(reason)] for line in found.rest] == ([reason] if reason else [])


def test_a_script_that_is_a_link_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "ci.sh").symlink_to("/etc/hostname")
    (line,) = cibuildwheel(tmp_path, 'before-all = "./ci.sh"').rest
    assert line.reason.startswith(_MISSING.format("ci.sh"))


@pytest.mark.parametrize("empty", ['before-all = ""', "before-all = []", 'before-build = " "'])
def test_an_empty_command_prepares_nothing(tmp_path: Path, empty: str) -> None:
    found = cibuildwheel(tmp_path, f'{empty}\nenvironment = "A=1"\nconfig-settings = "b=c"')
    kept = {key: value for key, (value, _) in found.values.items() if value}
    assert kept == {"builder.environment": {"A": "1"}, "wheel.config-settings": {"b": "c"}}
    assert found.rest == []


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ('environment = { A = "$(date)" }', "the shell or pip would evaluate A"),
        ('environment = "A=\'"', "it cannot be read"),
        ("config-settings = { a = [1] }", "a recipe takes texts and lists of texts, without ${…}: a"),
        ('config-settings = { a = "${HOME}" }', "a recipe takes texts and lists of texts, without ${…}: a"),
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
        ('[[tool.cibuildwheel.overrides]]\nselect = "cp312-*"', "settings of some cells are [[matrix.overrides]]"),
        ('audit-command = "abi3audit {wheel}"', "the audit looks at every wheel"),
        ('enable = ["cpython-freethreading"]', "free-threaded Pythons are those that `build` names"),
        ('manylinux-aarch64-image = "manylinux2014"', "builder.base is for both platforms"),
        ('musllinux-x86_64-image = "musllinux_1_2"', "a recipe has one base"),
        ("[tool.cibuildwheel.windows]\narchs = []", "the recipe builds for Linux only"),
    ],
)
def test_other_settings_are_listed(tmp_path: Path, settings: str, reason: str) -> None:
    found = cibuildwheel(tmp_path, settings)
    assert found.values == {}
    (line,) = found.rest
    assert line.what.startswith("tool.cibuildwheel.")
    assert line.reason.startswith(reason)


def test_a_script_that_repairs_is_read_for_its_auditwheel(tmp_path: Path) -> None:
    script = "set -e\n# auditwheel repair --exclude no.so\nauditwheel -v repair \\\n  --exclude liba.so.1 -w $2 $1\n"
    settings = 'repair-wheel-command = "bash {project}/ci/fix.sh {wheel} {dest_dir} && abi3audit --strict {wheel}"'
    found = cibuildwheel(tmp_path, settings, **{"ci/fix.sh": script})
    assert found.values["wheel.repair"][0] == {"exclude": ["liba.so.1"]}
    (line,) = found.rest
    assert "ci/fix.sh but its calls of auditwheel; abi3audit --strict {wheel}" in line.reason


def test_parts_of_a_repair_are_named(tmp_path: Path) -> None:
    settings = (
        'repair-wheel-command = "LD_LIBRARY_PATH=/x auditwheel repair --only-plat --lib-sdir .x --exclude a.so {wheel}"'
    )
    found = cibuildwheel(tmp_path, settings)
    assert found.values["wheel.repair"][0] == {"exclude": ["a.so"]}
    assert found.rest[0].reason.endswith("LD_LIBRARY_PATH=/x; --only-plat; --lib-sdir .x")


def test_groups_that_include_others_and_extras_of_the_project_itself(tmp_path: Path) -> None:
    text = """[project]
name = "My.Demo"
[project.optional-dependencies]
test = ["pytest", "my-demo[Fast, io]"]
fast = ["numpy"]
io = ["h5py>=3"]
loop = ["my-demo[loop]"]
[dependency-groups]
tests = [{ include-group = "base" }, "hypothesis"]
base = ["attrs"]
"""
    data = read_toml(scan(write_files(tmp_path, {"pyproject.toml": text})), "pyproject.toml")
    assert data
    assert listed_requirements(data, "extra", ["Test"]) == ["pytest", "numpy", "h5py>=3"]
    assert listed_requirements(data, "group", ["tests"]) == ["attrs", "hypothesis"]
    assert listed_requirements(data, "extra", ["loop", "io", "IO"]) == ["h5py>=3"]
    with pytest.raises(NoSuchListError, match="no such"):
        listed_requirements(data, "group", ["none"])


@pytest.mark.parametrize("command", ["x|auditwheel repair", "auditwheel repair-x", "auditwheel 'a", "auditwheel -x"])
def test_what_only_looks_like_a_call_of_auditwheel(command: str, tmp_path: Path) -> None:
    found = cibuildwheel(tmp_path, f'repair-wheel-command = "{command}"')
    assert "wheel.repair" not in found.values or found.rest


DEMO = '[project]\nname = "wavy"\n'
TEST_EXTRA = '[project.optional-dependencies]\ntest = ["pytest>=8", "numpy", "x @ https://example.org/x.zip"]\n'


@pytest.mark.parametrize(
    ("files", "command", "sent", "requirements"),
    [
        ({"tests/test_a.py": "def test_x(): pass\n"}, "pytest tests", ["tests"], ["pytest"]),
        ({"test/a_test.py": "import unittest\n"}, "python -m unittest discover -s test", ["test"], []),
        (
            {"pyproject.toml": DEMO + TEST_EXTRA, "tests/test_a.py": ""},
            "pytest tests",
            ["tests"],
            ["pytest>=8", "numpy"],
        ),
        (
            {
                "pyproject.toml": DEMO + '[dependency-groups]\ndev = ["ruff", "pytest-xdist", "pytest"]\n',
                "tests/test_a.py": "",
            },
            "pytest tests",
            ["tests"],
            ["pytest-xdist", "pytest"],
        ),
        (
            {
                "pyproject.toml": DEMO + '[tool.pytest.ini_options]\ntestpaths = ["./checks/unit", "gone"]\n',
                "checks/unit/test_a.py": "",
                "conftest.py": "",
            },
            "pytest checks/unit",
            ["checks", "pyproject.toml", "conftest.py"],
            ["pytest"],
        ),
        (
            {"pytest.ini": "[pytest]\ntestpaths = t1 t2\n", "t1/test_a.py": "", "t2/test_b.py": ""},
            "pytest t1 t2",
            ["t1", "t2", "pytest.ini"],
            ["pytest"],
        ),
        (
            {"setup.cfg": "[tool:pytest]\naddopts = -q\n", "tests/test_a.py": ""},
            "pytest tests",
            ["tests", "setup.cfg"],
            ["pytest"],
        ),
        ({"tests/helper.py": ""}, None, [], []),
        ({"src/wavy/tests/test_a.py": ""}, None, [], []),
    ],
)
def test_tests_of_the_project(
    tmp_path: Path, files: dict[str, str], command: str | None, sent: list[str], requirements: list[str]
) -> None:
    recipe = made(tmp_path, {"pyproject.toml": DEMO, "wavy/__init__.py": "", **files})
    test = recipe.plan.cibuildwheel
    assert recipe.draft.entries.get("test.command", Entry("", "", None)).value == command
    sent_files = list(recipe.plan.facts.test_files)
    assert (sent_files, [substitute(item, {}) for item in test.test_requirements]) == (sent, requirements)


def test_tests_that_are_not_taken_are_named(tmp_path: Path) -> None:
    settings = '[tool.pytest.ini_options]\ntestpaths = ["src/wavy/tests", "gone"]\n'
    files = {"pyproject.toml": DEMO + TEST_EXTRA + settings, "src/wavy/__init__.py": "", "src/wavy/tests/test_a.py": ""}
    found = read_project(scan(write_files(tmp_path, files)), "").tests
    assert found
    assert not found.command
    assert [line.what.partition(" (")[0] for line in found.rest] == [
        "testpaths: src/wavy/tests",
        "testpaths: gone",
        "x @ https://example.org/x.zip of extra test",
        "test requirements",
    ]
    assert "pytest --pyargs wavy" in found.rest[0].reason


def test_tests_that_may_need_a_gpu_are_named(tmp_path: Path) -> None:
    recipe = made(tmp_path, {**TORCH, "tests/test_a.py": "import pytest\n"})
    assert "test.command" not in recipe.draft.entries
    assert ("the tests (tests/test_a.py)", "they may need a GPU; see test.gpu") in recipe.draft.rest


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
    recipe = made(tmp_path, {"setup.py": text, "demo.c": ""})
    assert 'environment = { DEMO_FORCE_BUILD = "TRUE" }' in recipe.text


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
    project = read_project(scan(write_files(tmp_path, {"pyproject.toml": text})), "")
    assert project.base.value == "manylinux_2_34"
    assert project.cibuildwheel
    assert project.cibuildwheel.rest == []


def test_settings_of_linux_come_first(tmp_path: Path) -> None:
    settings = 'environment = { A = "1" }\n[tool.cibuildwheel.linux]\nenvironment = { A = "2" }'
    assert cibuildwheel(tmp_path, settings).values["builder.environment"][0] == {"A": "2"}


def test_a_bake_file_that_the_rules_refuse_is_not_carried_over(tmp_path: Path) -> None:
    bake = BAKE_FILE["docker-bake.hcl"].replace('"80;90"', '"90;130"')
    recipe = made(tmp_path, {**BAKE_FILE, "docker-bake.hcl": bake})
    assert [line.what for line in recipe.draft.rest] == ["docker-bake.hcl"]
    assert "130" not in recipe.text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("target {{{", "it is no HCL that can be read"),
        ("a = " + "[" * 60, "nested too deeply, so it was not read"),
        ("# x\n" * 20_000, "larger than 32 KiB, so it was not read"),
    ],
)
def test_a_bake_file_that_cannot_be_read(tmp_path: Path, text: str, reason: str) -> None:
    found = read_bake_file(scan(write_files(tmp_path, {"docker-bake.hcl": text})))
    assert found
    assert found.rest == [("docker-bake.hcl", reason)]


BAKE = """\
variable CUDA_VERSION {
  default = "12.8.0"
}
PYTHONS = ["3.11", "3.12"]
target wheel {
  args = { TORCH_VERSION = "2.8.0", CUDA_VERSION = CUDA_VERSION, FLAVOUR = "a", PY_VERSION = "${PYTHONS}" }
  platforms = ["linux/amd64", "darwin/arm64", "linux/riscv64"]
}
group default { targets = ["wheel"] }
"""
AXES = {"cuda": ("12.8.0",), "torch": ("2.8.0",), "python": ("3.11", "3.12")}


def bake_file(tmp_path: Path, files: dict[str, str]) -> BakeFile:
    found = read_bake_file(scan(write_files(tmp_path, files)))
    assert found
    return found


@pytest.mark.parametrize("name", ["docker-bake.hcl", "docker/docker-bake.hcl", "ci/docker-bake.override.hcl"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_labels_without_quotes_and_args(tmp_path: Path, name: str, start: str) -> None:
    found = bake_file(tmp_path, {name: start + BAKE})
    assert {axis: values for axis, (values, _) in found.axes.items()} == AXES
    assert {axis: str(place) for axis, (_, place) in found.axes.items()} == {
        "cuda": f"{name}:1",
        "torch": f"{name}:5",
        "python": f"{name}:4",
    }
    assert found.platforms == (("linux/amd64",), (name, 5))
    assert [(line.what, line.reason) for line in found.rest] == [
        (f"target wheel, args FLAVOUR ({name})",
         "no step of the recipe uses it; add what needs it to builder.environment"),
        (f"target wheel, platforms darwin/arm64, linux/riscv64 ({name})", "the recipe builds for Linux on amd64 and arm64"),
        (f"group default ({name})", "Bakery generates its own"),
    ]  # fmt: skip


def test_a_bake_file_in_json(tmp_path: Path) -> None:
    document = {
        "variable": {"CUDA_VERSION": {"default": "12.8.0"}, "PYTHONS": {"default": ["3.11", "3.12"]}},
        "target": {"wheel": {"args": {"TORCH_VERSION": "2.8.0", "PYTHON_VERSION": "${PYTHONS}"}}},
    }
    found = bake_file(tmp_path, {"docker-bake.json": json.dumps(document)})
    assert {axis: values for axis, (values, _) in found.axes.items()} == AXES
    assert str(found.axes["cuda"][1]) == "docker-bake.json:1"
    found = bake_file(tmp_path, {"docker-bake.json": "{"})
    assert found.rest == [("docker-bake.json", "it is no JSON that can be read")]


def test_an_override_replaces_what_the_bake_file_says(tmp_path: Path) -> None:
    override = 'variable "CUDA_VERSION" { default = "13.0.3" }\ntarget "wheel" { platforms = ["linux/arm64"] }\n'
    found = bake_file(tmp_path, {"docker-bake.hcl": BAKE, "docker-bake.override.hcl": override})
    assert {axis: values for axis, (values, _) in found.axes.items()} == AXES | {"cuda": ("13.0.3",)}
    assert found.platforms == (("linux/arm64",), ("docker-bake.override.hcl", 2))


def test_files_that_are_not_read_are_named(tmp_path: Path) -> None:
    write_files(tmp_path, {".github/workflows/docker-compose.yml": ""})
    names = ("compose.yaml", "docker-compose.dev.yml", "images/docker-bake.hcl", "tools/bake.hcl", "app.bake.json")
    left_out = ("bake/own.hcl", "third_party/docker-bake.hcl", "main.hcl", "a/b/c/docker-bake.hcl", "bakery.json")
    found = bake_file(tmp_path, {"docker-bake.hcl": "", **dict.fromkeys((*names, *left_out), "")})
    said = {line.what: line.reason for line in found.rest}
    assert sorted(said) == sorted(names)
    assert all(reason.startswith("not read: ") for reason in said.values())
    assert "compose files" in said["compose.yaml"]
    # Without a bake file, too.
    assert bake_file(tmp_path / "other", {"compose.yml": ""}).rest[0].what == "compose.yml"
    assert read_bake_file(scan(write_files(tmp_path / "none", {"x.py": ""}))) is None


def test_many_parts_are_counted(tmp_path: Path) -> None:
    text = "".join(f'variable "V{number}" {{ default = "" }}\n' for number in range(90))
    rest = bake_file(tmp_path, {"docker-bake.hcl": text}).rest
    assert (len(rest), rest[-1].what) == (41, "50 more parts of the bake files")


def test_a_bake_file_without_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hcl2", None)
    found = read_bake_file(scan(write_files(tmp_path, {"docker-bake.hcl": "a = 1\n"})))
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
    build = read_cmake(scan(write_files(tmp_path, {"CMakeLists.txt": text})))
    assert {name: place.line for name, place in build.languages.items()} == {"cxx": 2, "fortran": 2}
    assert set(build.packages) - {"IMPORTED_TARGET"} == {"libzstd", "liblz4"}
    assert build.downloads
    assert build.downloads.place.line == 8


def test_includes_in_comments_do_not_count(tmp_path: Path) -> None:
    text = "// #include <torch/extension.h>\n  # include <zlib.h>\n#include <zlib.h>\n"
    sources = read_sources(
        scan(write_files(tmp_path, {"a.cpp": text, "b.pyx": 'cdef extern from "own.h":\n', "own.h": ""}))
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
        # Namespace packages: their own import would prove nothing.
        ({"src/foo/bar/__init__.py": "", "src/foo/bar/sub/__init__.py": ""}, "foo.bar"),
        ({"acme/widgets/__init__.py": "", "acme/widgets/x/__init__.py": ""}, "acme.widgets"),
        ({"src/acme/core/widgets/__init__.py": ""}, "acme.core.widgets"),
        ({"src/foo/bar/tool.py": ""}, "foo.bar.tool"),
        ({"lib/acme/w/__init__.py": "", "setup.py": 'setup(package_dir={"": "lib"}, packages=["acme.w"])'}, "acme.w"),
        ({"acme/data.txt": "", "setup.py": 'setup(ext_modules=[Extension("acme._c", [])])'}, "acme._c"),
        (
            {"acme/one/__init__.py": "", "acme/two/__init__.py": "", "setup.py": 'setup(packages=["acme.one"])'},
            "acme.one",
        ),
        ({"src/a/x/__init__.py": "", "src/b/y/__init__.py": ""}, None),
        ({"foo_bar/__init__.py": "", "foo_bar/sub/__init__.py": ""}, "foo_bar"),
        # What a source distribution lists, if the packages of setup.py are not there, as in pycryptodomex.
        (
            {
                "setup.py": 'setup(packages=["pkg"], package_dir={"": "lib"})',
                "lib/pkgx/a/__init__.py": "",
                "lib/foo_bar.egg-info/top_level.txt": "pkgx\n",
                "lib/pkgx/__init__.py": "",
                "lib/other/__init__.py": "",
            },
            "pkgx",
        ),
        (
            {
                "setup.py": 'setup(packages=["pkg"], package_dir={"": "lib"})',
                "lib/pkg/__init__.py": "",
                "lib/pkgx/__init__.py": "",
                "lib/foo_bar.egg-info/top_level.txt": "pkgx\n",
            },
            "pkg",
        ),
        # Meson installs it under another name, as in scs.
        (
            {
                "foo_bar/py/__init__.py": "",
                "meson.build": "py.install_sources('foo_bar/py/__init__.py', subdir: 'foo_bar')\n",
            },
            "foo_bar",
        ),
    ],
)
def test_the_module_to_import(tmp_path: Path, files: dict[str, str], module: str | None) -> None:
    root = write_files(tmp_path, {"pyproject.toml": '[project]\nname = "Foo.Bar"\n', **files})
    found = read_project(scan(root), "").modules
    assert [fact.text for fact in found] == ([module] if module else [])


def test_empty_submodules_are_named(tmp_path: Path) -> None:
    text = '[submodule "a"]\n\tpath = extern/a\n\turl = x\n[submodule "b"]\n\tpath = extern/b\n'
    files = {"pyproject.toml": "[project]\n", ".gitmodules": text, "extern/b/x.c": ""}
    (note,) = read_project(scan(write_files(tmp_path, files)), "").notes
    assert note.startswith("the submodule extern/a is empty")


def test_the_name_in_a_source_distribution(tmp_path: Path) -> None:
    root = write_files(tmp_path, {"setup.py": "setup(name=NAME)\n", "PKG-INFO": "Metadata-Version: 2.1\nName: Demo\n"})
    assert read_project(scan(root), "").metadata.name == ("Demo", ("PKG-INFO", 0))
    # One setup.py for several distributions.
    (root / "setup.py").write_text('setup(name="other")\n')
    assert read_project(scan(root), "").metadata.name == ("Demo", ("PKG-INFO", 0))
    (root / "setup.cfg").write_text("[metadata]\nname = own\n")
    assert read_project(scan(root), "").metadata.name == ("own", ("setup.cfg", 2))


def test_folders_of_tests_and_examples_are_no_projects(tmp_path: Path) -> None:
    files = {f"{name}/setup.py": "" for name in ("tests", "examples", "docs", "vendor", "python")}
    assert candidates(scan(write_files(tmp_path, files))) == ("python",)


@pytest.mark.parametrize(
    ("tags", "release"),
    [
        ((), ""),
        (("nightly",), ""),
        (("demo-1.10.2",), "1.10.2"),
        (("v2.0.0rc1",), "2.0.0rc1"),
        (("v7",), "7"),
        (("v2026.11.3.post2",), "2026.11.3.post2"),
        (("v1.0", "otherpkg-v9.9.0"), "1.0"),
        (("v1.9", "v1.10"), "1.10"),
    ],
)
def test_the_version_is_that_of_git(tmp_path: Path, tags: tuple[str, ...], release: str) -> None:
    text = '[build-system]\nrequires = ["setuptools-scm"]\n[project]\nname = "demo"\n'
    root = write_files(tmp_path, {"pyproject.toml": text, "demo.c": ""})
    git(root, "init", "--quiet")
    for number, tag in enumerate(tags):
        commit(root, 1_700_000_000 + number, x=tag)
        git(root, "tag", tag)
    recipe = made(root)
    newest = f"the newest is {release}" if release else "no tag names a release yet"
    said = "setuptools-scm (pyproject.toml:2) reads the version from git's tags, in the build as in the checkout"
    assert f"{said}; {newest}" in recipe.draft.notes
    # A constant would not follow the next tag.
    assert "VERSION" not in recipe.text


def test_a_version_of_git_without_git(tmp_path: Path) -> None:
    text = '[build-system]\nrequires = ["{tool}"]\n[project]\nname = "demo"\n'
    for tool, told in (("hatch-vcs", "SETUPTOOLS_SCM_PRETEND_VERSION"), ("versioneer", "")):
        recipe = made(tmp_path / tool, {"pyproject.toml": text.format(tool=tool), "demo.c": ""})
        (note,) = (note for note in recipe.draft.notes if tool in note)
        assert "no git checkout: build in one" in note
        assert told in note
        assert "VERSION" not in recipe.text
    # A source distribution knows its version.
    root = write_files(
        tmp_path / "sdist", {"pyproject.toml": text.format(tool="hatch-vcs"), "PKG-INFO": "Name: demo\n"}
    )
    assert read_project(scan(root), "").metadata.version_tool is None


def test_requirement_names() -> None:
    assert requirement_name("Scikit_Build.Core[x]>=0.10; python_version > '3'") == "scikit-build-core"
    assert requirement_name("@") == ""


@pytest.mark.parametrize(("requires", "expected"), [("", "3.9"), ('requires-python = ">=3.11"\n', "3.11")])
def test_a_stable_abi_that_meson_python_tags(requires: str, expected: str, tmp_path: Path) -> None:
    """The tag has the Python that builds, whatever lower version ``limited_api`` says."""
    backend = '[build-system]\nrequires = ["meson-python"]\nbuild-backend = "mesonpy"\n'
    named = f'[project]\nname = "demo"\nversion = "1"\n{requires}[tool.meson-python]\nlimited-api = true\n'
    meson = "project('demo', 'c')\npy.extension_module('demo', 'demo.c', limited_api: '3.7')\n"
    recipe = made(tmp_path, {"pyproject.toml": backend + named, "meson.build": meson, "demo.c": ""}, DEBIAN)
    assert f'abi3 = "{expected}"' in recipe.text


@pytest.mark.parametrize(
    ("maturin", "cargo", "expected"),
    [
        ("", '[dependencies]\npyo3 = { version = "1", features = ["abi3-py310"] }\n', '"3.10"'),
        # Features that enable others, as tokenizers has them.
        (
            'features = ["stable"]',
            '[dependencies]\npyo3 = "1"\n[features]\nstable = ["pyo3/abi3", "pyo3/abi3-py310"]\n',
            '"3.10"',
        ),
        ("", '[dependencies]\npyo3 = "1"\n[features]\nstable = ["pyo3/abi3-py310"]\n', None),
        ("", '[dependencies]\npyo3 = "1"\n[features]\na = ["b", "a"]\nb = ["a"]\ndefault = ["a"]\n', None),
        # pyo3 names no Python, as in cryptography: the wheel has that which builds, the lowest.
        ("", '[lib]\n[workspace.dependencies]\npyo3 = { version = "1", features = ["abi3", "abi3t"] }\n', '"3.11"'),
    ],
)
def test_a_stable_abi_that_pyo3_is_told(maturin: str, cargo: str, expected: str | None, tmp_path: Path) -> None:
    backend = '[build-system]\nrequires = ["maturin"]\nbuild-backend = "maturin"\n'
    named = f'[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.11"\n[tool.maturin]\n{maturin}\n'
    files = {
        "pyproject.toml": backend + named,
        "Cargo.toml": f'[package]\nname = "demo-core"\n{cargo}',
        "Cargo.lock": "",
    }
    recipe = made(tmp_path, files, DEBIAN)
    assert ('imports = ["demo_core"]' in recipe.text) == ("[lib]" in cargo)
    found = re.search("abi3 = (.*?) ", recipe.text)
    assert (found[1] if found else None) == expected


@pytest.mark.parametrize(
    ("backend", "setup", "is_required"),
    [
        (
            'requires = ["setuptools"]',
            "try:\n    from Cython.Build import cythonize\nexcept ImportError:\n    cythonize = None",
            False,
        ),
        ('requires = ["setuptools"]', "from Cython.Build import cythonize", True),
        ("", "try:\n    from Cython.Build import cythonize\nexcept ImportError:\n    cythonize = None", True),
    ],
)
def test_cython_that_pip_builds_without(backend: str, setup: str, is_required: bool, tmp_path: Path) -> None:
    """What is stated as required decides, unless the build fails without Cython."""
    files = {"setup.py": f"from setuptools import setup\n{setup}\nsetup(name='demo')\n", "fast/a.pyx": "x = 1\n"}
    recipe = made(
        tmp_path, {**files, **({"pyproject.toml": f"[build-system]\n{backend}\n"} if backend else {})}, DEBIAN
    )
    assert ("cython" in recipe.text.lower().partition("requirements = ")[2].partition("]")[0]) == is_required
