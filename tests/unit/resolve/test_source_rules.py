"""What rules say of the files of a source, and of what git says of it."""

from __future__ import annotations

from pathlib import Path

import plans
import pytest
from file_trees import write_files
from repositories import commit, git
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.core.errors import PlanError
from bakery.resolve.rules.source import SourceFacts, read_source
from bakery.runs.source_files import source_of

PROJECT = '[project]\nname = "demo"\nversion = "1.0"\n'
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n"


def put(folder: Path, **files: str) -> None:
    write_files(folder, {name.replace("__", "/").replace("_", "."): text for name, text in files.items()})


def facts(folder: Path, recipe: str = "") -> SourceFacts:
    plan = plans.written(folder, f'name = "demo"\n{recipe}')
    return read_source(plan, source_of(folder, plan))


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("pyproject.toml", '[project]\nreadme = "../README"\n', ["py/pyproject.toml:2"]),
        ("pyproject.toml", '[tool.maturin]\nmanifest-path = "../README"\n', ["py/pyproject.toml:2"]),
        ("pyproject.toml", '[build-system]\nbackend-path = ["../README"]\n', ["py/pyproject.toml:2"]),
        ("pyproject.toml", '[tool.ruff]\nextend = "../README"\n', []),
        ("pyproject.toml", '[tool.mypy]\nmypy_path = "../README"\n', []),
        ("setup.py", 'Extension("a", ["../csrc/a.c"])\n', ["py/setup.py:1"]),
        ("setup.py", 'os.path.join(here, "..", "csrc", "a.c")\n', ["py/setup.py:1"]),
        ("setup.py", 'Path(__file__).parent.parent / "csrc"\n', ["py/setup.py:1"]),
        ("setup.py", '# as in ../csrc\nExtension("a", ["a.c"])\n', []),
        ("setup.py", 'if os.path.exists("../csrc"): pass\n', []),
        ("setup.py", 'Extension("a", ["../gone/a.c"])\n', []),
        (
            "CMakeLists.txt",
            "project(a)\nadd_subdirectory(${CMAKE_CURRENT_SOURCE_DIR}/../csrc b)\n",
            ["py/CMakeLists.txt:2"],
        ),
        ("CMakeLists.txt", "install(TARGETS a DESTINATION ../csrc)\nset(R $ORIGIN/../csrc)\n", []),
        ("CMakeLists.txt", "if(EXISTS ../csrc)\nadd_subdirectory(../csrc)\nendif()\n", []),
        ("sub/CMakeLists.txt", "include_directories(../inside ../../csrc)\n", ["py/sub/CMakeLists.txt:1"]),
        ("meson.build", "py.extension_module('a', '../csrc/a.c')\n", ["py/meson.build:1"]),
        ("Cargo.toml", '[dependencies]\ncore = { path = "../core" }\n', ["py/Cargo.toml:2"]),
    ],
)
def test_what_a_build_file_names_outside_of_the_source(tmp_path: Path, name: str, text: str, found: list[str]) -> None:
    others = ("README", "csrc/a.c", "core/Cargo.toml", "py/inside/a.h", f"py/{name}")
    write_files(tmp_path, dict.fromkeys(others, text))
    assert [place for place, _ in facts(tmp_path, 'source = "py"\n').beyond] == found
    # With the whole project as the source, nothing is outside.
    assert facts(tmp_path, 'source = "."\n').beyond == ()


def test_what_is_outside_of_the_project_is_not_sent_either(tmp_path: Path) -> None:
    root = tmp_path / "project"
    put(tmp_path, csrc__a_c="")
    put(root, setup_py='Extension("a", ["../csrc/a.c"])\n')
    assert facts(root).beyond == (("setup.py:1", "../csrc/a.c"),)


def test_links_that_lead_to_nothing_in_a_build(tmp_path: Path) -> None:
    put(tmp_path, LICENSE="", py__a_py="", py__sub__b_py="", py__wheels__c_py="", py__dist__d="", py__x_abi3_so="")
    for name, target in {
        "py/LICENSE": "../LICENSE",
        "py/absolute": str(tmp_path / "py" / "a.py"),
        "py/result": "x.abi3.so",
        "py/inside": "sub/b.py",
        "py/folder": "sub",
        "py/up": "../py/a.py",
        "py/gone": "nowhere",
        "py/twice": "LICENSE",
        "py/self": ".",
    }.items():
        (tmp_path / name).symlink_to(target)
    found = dict(facts(tmp_path, 'source = "py"\n').links)
    assert set(found) == {"py/LICENSE", "py/absolute", "py/result", "py/twice"}
    # What git does not track is no part of the project, such as bazel's links.
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, 1_600_000_000, _gitignore="py/absolute\n")
    assert set(dict(facts(tmp_path, 'source = "py"\n').links)) == {"py/LICENSE", "py/result", "py/twice"}


def test_pointers_scripts_times_and_names(tmp_path: Path) -> None:
    put(tmp_path, data__x_bin=POINTER, data__y_bin=POINTER * 10, docs__lfs_txt=f"About {POINTER}")
    put(
        tmp_path,
        a_c="__TIMESTAMP__",
        a_py="__TIMESTAMP__",
        b_sh="#!/bin/sh\r\n",
        c_sh="#!/bin/sh\n\r\n",
        d_bat="echo\r\n",
    )
    put(tmp_path, unused_sh="#!/bin/sh\r\n")
    found = facts(
        tmp_path, '[builder]\nbefore-build = "sh ./b.sh && c.sh && ./d.bat"\n[test]\ncommand = "sh /src/b.sh"\n'
    )
    assert (found.pointers, found.timestamps, found.scripts, found.names) == (("data/x.bin",), ("a.c",), ("b.sh",), ())
    (tmp_path / "link").symlink_to(b"caf\xe9".decode(errors="surrogateescape"))
    assert facts(tmp_path).names == ("link",)


def test_results_that_git_tracks(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    commit(
        tmp_path,
        1_600_000_000,
        wheels__a_py="",
        dist__b_py="",
        pkg__x_abi3_so="",
        pyproject_toml=PROJECT,
        bakery_toml="",
    )
    put(tmp_path, wheelhouse__untracked_py="")
    assert facts(tmp_path).left_out == ("dist", "pkg/x.abi3.so", "wheels")
    assert facts(tmp_path, 'source.ignore = ["!wheels", "dist"]\n').left_out == ("pkg/x.abi3.so",)


def test_results_without_git_are_named_if_they_are_packages(tmp_path: Path) -> None:
    put(tmp_path, wheels__pkg_whl="", dist____init___py="")
    (tmp_path / "dist" / "__init__.py").write_text("")
    assert facts(tmp_path).left_out == ("dist",)


def test_check_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, 1_600_000_000, wheels__a_py="", pyproject_toml=PROJECT, bakery_toml='name = "demo"\n')
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["check"])
    assert done.exit_code == 0
    assert 'source.ignore = ["!wheels"]' in done.output
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    said = CliRunner().invoke(app, ["check"]).output
    assert f"git config --global --add safe.directory {tmp_path}" in said
    assert "SOURCE_DATE_EPOCH is 315532800" in said


@pytest.mark.parametrize(
    ("recipe", "where", "hint"),
    [
        ('source = "current"', "bakery.toml:2: source.path", 'write source.path = "v1"'),
        ('source = "lnk/pkg"', "bakery.toml:2: source.path", 'write source.path = "v1/pkg"'),
        ('[source]\npath = "v1/inner/pkg"', "bakery.toml:3: source.path", 'write source.path = "v1/pkg"'),
        ('source = "out"', "bakery.toml:2: source.path", "the link leads out of the project"),
    ],
)
def test_a_link_is_no_source(tmp_path: Path, recipe: str, where: str, hint: str) -> None:
    root = tmp_path / "project"
    put(root, v1__pkg__a_py="")
    put(tmp_path, elsewhere__a_py="")
    for link, target in {"current": "v1", "lnk": "v1", "v1/inner": ".", "out": "../elsewhere"}.items():
        (root / link).symlink_to(target)
    with pytest.raises(PlanError) as caught:
        facts(root, recipe)
    assert caught.value.message.startswith(where)
    assert hint in caught.value.hint


def test_files_of_the_test_are_no_links(tmp_path: Path) -> None:
    put(tmp_path, pyproject_toml=PROJECT, testing__a_py="")
    (tmp_path / "tests").symlink_to("testing")
    (tmp_path / "bakery.toml").write_text('name = "demo"\n[test]\nfiles = ["tests", "tests/a.py"]\ncommand = "true"\n')
    error = CliRunner().invoke(app, ["check", "-r", str(tmp_path)]).exception
    assert isinstance(error, PlanError)
    for path, target in (("tests", "testing"), ("tests/a.py", "testing/a.py")):
        said = f"test-files: bakery.toml:3: test.files: '{path}': 'tests' is a link; write '{target}'"
        assert said in error.details
