"""Where a project comes from and how a recipe says to build it: each of it in a real bake."""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from pathlib import Path

import pytest
from command import bakery, shell
from gitserver import served
from projects import SOURCE, example, extension, pure

pytestmark = pytest.mark.engine

IDENTITY = {
    **os.environ,
    **{f"GIT_{who}_{what}": "test@example.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}

NASTY = """a 'b' "c" $d ${e:-f} `g` \\h ;|&<> #i %j {k} *? ~ é"""
"""A value that must reach the build as it is."""


def told(wheel: Path) -> dict[str, dict[str, str]]:
    """Return what the backend of `projects.pure` saw."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read("demo.py").decode()
    scope: dict[str, str] = {}
    exec(text, scope)
    found: dict[str, dict[str, str]] = json.loads(scope["TOLD"])
    return found


@pytest.mark.parametrize("suffix", [".git", pytest.param("", marks=pytest.mark.proof)])
def test_git_source_is_built_at_its_ref(tmp_path: Path, repository: str, suffix: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    recipe = f'name = "tiny"\nsource = "git+{repository}{suffix}@v1.5"\n[test]\nimports = ["tiny"]\n'
    (folder / "bakery.toml").write_text(recipe)
    (wheel,) = bakery(folder, "full").wheels
    assert wheel.name.startswith("tiny-1.5-cp311-cp311-manylinux")


def test_missing_git_ref_is_told(tmp_path: Path, repository: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "bakery.toml").write_text(f'name = "tiny"\nsource = "git+{repository}.git@v9.9"\n')
    done = bakery(folder, "wheel", code=7)
    assert "v9.9" in done.err


def test_source_in_a_subfolder(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    extension(folder / "python" / "pkg", "", SOURCE)
    (folder / "python" / "pkg" / "bakery.toml").unlink()
    (folder / "bakery.toml").write_text('name = "tiny"\nsource = "python/pkg"\n[test]\nimports = ["tiny"]\n')
    assert len(bakery(folder, "full").wheels) == 1


@pytest.mark.parametrize("kind", ["path", pytest.param("git", marks=pytest.mark.proof)])
def test_a_package_whose_build_needs_the_folder_above_it(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "project"
    source = '#include "../../common/number.h"\n' + SOURCE
    (extension(folder / "pkg", "", source) / "bakery.toml").unlink()
    for name, text in {"common/number.h": "#define NUMBER 42\n", "tests/data.txt": "here\n"}.items():
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    test = '[test]\nimports = ["tiny"]\n'
    with contextlib.ExitStack() as stack:
        where = 'source = { path = ".", subdirectory = "pkg" }'
        if kind == "git":
            for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "one"]):
                shell(IDENTITY, "git", *words, cwd=folder)
            shell(IDENTITY, "git", "clone", "-q", "--bare", ".", str(tmp_path / "served" / "project.git"), cwd=folder)
            url = stack.enter_context(served(tmp_path / "served"))
            folder = tmp_path / "elsewhere"
            folder.mkdir()
            where = f'source = "git+{url}/project.git@main#subdirectory=pkg"'
        else:
            test += 'files = ["tests"]\ncommand = "test $(cat tests/data.txt) = here"\n'
        (folder / "bakery.toml").write_text(f'name = "tiny"\n{where}\n{test}')
        assert len(bakery(folder, "full").wheels) == 1


@pytest.mark.proof
def test_uv_builds_the_same_project(tmp_path: Path) -> None:
    recipe = 'name = "cpp"\n[wheel]\nfrontend = "uv"\n[test]\nimports = ["bakery_example_cpp"]\n'
    (wheel,) = bakery(example(tmp_path / "project", recipe), "full").wheels
    assert wheel.name.startswith("bakery_example_cpp-1.0.0-cp311-cp311-manylinux_2_")


@pytest.mark.parametrize("frontend", ["build", pytest.param("uv", marks=pytest.mark.proof)])
def test_settings_and_environment_reach_the_build_as_they_are(tmp_path: Path, frontend: str) -> None:
    # A recipe's own reference is the only thing with a meaning in it.
    value = NASTY.replace("${", "$ {")
    recipe = f"""\
name = "demo"
[variables]
WORD = 'it''s "fine"'
[builder]
system-packages = ["tree"]
environment = {{ NASTY = {json.dumps(value, ensure_ascii=False)}, WITH = "<${{WORD}}>", EMPTY = "" }}
[wheel]
frontend = "{frontend}"
repair = false
config-settings = {{ nasty = {json.dumps(value, ensure_ascii=False)}, "dotted.key" = "<${{WORD}}>" }}
""".replace("'it''s \"fine\"'", '"it\'s \\"fine\\""')
    (wheel,) = bakery(pure(tmp_path / "project", recipe), "wheel").wheels
    assert wheel.name == "demo-1.0-py3-none-any.whl"
    seen = told(wheel)
    assert seen["environment"]["NASTY"] == value
    assert seen["environment"]["WITH"] == '<it\'s "fine">'
    assert seen["environment"]["EMPTY"] == ""
    assert seen["settings"]["nasty"] == value
    assert seen["settings"]["dotted.key"] == '<it\'s "fine">'
    assert seen["programs"]["tree"] == "/usr/bin/tree"
    assert (seen["programs"]["uv"] is not None) == (frontend == "uv")


@pytest.mark.proof
def test_names_of_wheels(tmp_path: Path) -> None:
    naming = '[wheel.naming]\nlocal = "cu${NUMBER}"\nbuild-tag = "1x"\n'
    recipe = f'name = "cpp"\n[variables]\nNUMBER = "128"\n{naming}[test]\nimports = ["bakery_example_cpp"]\n'
    (wheel,) = bakery(example(tmp_path / "project", recipe), "full").wheels
    assert wheel.name.startswith("bakery_example_cpp-1.0.0+cu128-1x-cp311-cp311-manylinux_2_")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        info = "bakery_example_cpp-1.0.0+cu128.dist-info"
        assert "\nVersion: 1.0.0+cu128\n" in archive.read(f"{info}/METADATA").decode()
        assert "\nBuild: 1x\n" in archive.read(f"{info}/WHEEL").decode()
        assert {item.filename.split("/")[0] for item in archive.infolist()} == {"bakery_example_cpp", info}
