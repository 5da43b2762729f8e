"""What rules say of the source folder, and what they keep quiet about."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.core.errors import PlanError
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.resolve.rules import judge
from bakery.resolve.rules.project import read_project
from bakery.runs.source_files import source_of

PROJECT = '[project]\nname = "demo"\nversion = "1.0"\n'


def broken(folder: Path, recipe: str, **files: str) -> set[str]:
    (folder / "bakery.toml").write_text('name = "demo"\n' + recipe)
    (folder / "pyproject.toml").write_text(PROJECT)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    plan = resolve(load(None, folder)[0])
    return {finding.rule.id for finding in judge(plan, project=read_project(plan, source_of(folder, plan)))}


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("pytest tests", True),
        ("python -m pytest tests", True),
        ("/opt/venv/bin/python3.11 -m pytest", True),
        ("cd /tmp && A=b env C=d pytest", True),
        ("python -c 'import demo'; coverage run x.py", True),
        ("python -c 'import pytest'", False),
        ("echo pytest", False),
        ("pytest || true", False),
        ("pip install pytest && pytest", False),
        ("if true; then pytest; fi", False),
        ("${RUNNER} pytest", False),
        ("demo --version && ./run.sh && sh -c ls", False),
        ("pytest 'tests", False),
    ],
)
def test_programs_of_a_command(tmp_path: Path, command: str, found: bool) -> None:
    recipe = f'[variables]\nRUNNER = "x"\n[test]\ncommand = """{command}"""\n'
    assert broken(tmp_path, recipe) == ({"test-program"} if found else set())


@pytest.mark.parametrize(
    ("requirements", "files", "found"),
    [
        ('["pytest>=8"]', {}, set()),
        ('["pytest-xdist"]', {}, set()),
        ("[\"PyTest[testing] ; python_version > '3'\"]", {}, set()),
        ('["hypothesis"]', {}, {"test-program-unlisted"}),
        ("[]", {"pyproject__toml": PROJECT + 'dependencies = ["pytest"]\n'}, set()),
        ("[]", {"pyproject__toml": PROJECT + 'dependencies = ["numpy"]\n'}, {"test-program-unlisted"}),
        ("[]", {"pyproject__toml": PROJECT + 'dynamic = ["dependencies"]\n'}, {"test-program"}),
        ("[]", {"pyproject__toml": "", "setup__py": "setup(install_requires=['pytest'])"}, set()),
        ("[]", {"pyproject__toml": "[project"}, set()),
    ],
)
def test_programs_that_a_requirement_may_install(
    tmp_path: Path, requirements: str, files: dict[str, str], found: set[str]
) -> None:
    assert broken(tmp_path, f'[test]\nrequirements = {requirements}\ncommand = "pytest"\n', **files) == found


def test_a_fetched_source_is_not_known(tmp_path: Path) -> None:
    recipe = 'source = "sdist:demo==1.0"\n[test]\nfiles = ["tests"]\ncommand = "pytest tests"\n'
    assert broken(tmp_path, recipe) == {"test-program-unlisted"}


def test_files_that_are_not_sent_do_not_exist_for_the_test(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "lib" / "fmt").mkdir(parents=True)
    (tmp_path / "lib" / "fmt" / "x.h").touch()
    recipe = '[test]\nfiles = ["tests/"]\ncommand = "ls"\n'
    assert broken(tmp_path, recipe, __gitmodules="[submodule]\n  path = lib/fmt\n") == set()
    assert broken(tmp_path, '[source]\nignore = ["tests"]\n' + recipe) == {"test-files"}
    assert broken(tmp_path, '[source]\nignore = ["pyproject.toml"]\n') == {"project-file"}


def test_check_tells_all_at_once_with_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = 'name = "demo"\n[test]\ncommand = "pytest"\nfiles = ["tests"]\n[wheel.repair]\nplat = "manylinux_2_29"\n'
    (tmp_path / "bakery.toml").write_text(recipe)
    error = CliRunner().invoke(app, ["check"]).exception
    assert isinstance(error, PlanError)
    told = "\n".join(error.details)
    assert "neither pyproject.toml nor setup.py" in told
    assert "bakery.toml:3: test.command: nothing is known to install 'pytest'" in told
    assert "bakery.toml:4: test.files: 'tests'" in told
    assert "bakery.toml:6: wheel.repair.plat: there is no policy manylinux_2_29" in told
