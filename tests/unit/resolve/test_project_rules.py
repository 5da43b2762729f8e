"""What rules say of the source folder, and what they keep quiet about."""

from __future__ import annotations

from pathlib import Path

import plans
import pytest
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.core.errors import PlanError
from bakery.resolve.rules import judge
from bakery.resolve.rules.project import read_project
from bakery.runs.source_files import source_of

PROJECT = '[project]\nname = "demo"\nversion = "1.0"\n'


def broken(folder: Path, recipe: str, **files: str) -> set[str]:
    (folder / "pyproject.toml").write_text(PROJECT)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    plan = plans.written(folder, 'name = "demo"\n' + recipe)
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


OF_SOME_CELLS = """\
[matrix]
python = ["3.11", "3.13"]
[test]
command = "ls"
[[matrix.overrides]]
where = { python = "3.13" }
test = { command = "pytest", requirements = %s }
"""


@pytest.mark.parametrize(
    ("requirements", "found"),
    [
        ("[]", {"test-program"}),
        ('["hypothesis"]', {"test-program-unlisted"}),
        ("[\"pytest; sys_platform == 'win32'\"]", {"test-program"}),
        ("[\"pytest; python_version >= '3.13'\"]", set()),
    ],
)
def test_programs_of_the_cells_of_an_override(tmp_path: Path, requirements: str, found: set[str]) -> None:
    assert broken(tmp_path, OF_SOME_CELLS % requirements) == found


def pins(*requirements: str) -> dict[str, str]:
    listed = ", ".join(f'"{item}"' for item in ("setuptools", *requirements))
    return {"pyproject__toml": f"[build-system]\nrequires = [{listed}]\n"}


TORCH = """\
platforms = ["linux/amd64", "linux/arm64"]
[matrix]
python = ["3.12"]
[variables]
TORCH_VERSION = "2.11.0"
[[matrix.overrides]]
where = { platform = "linux/arm64" }
variables = { TORCH_VERSION = "2.10.0" }
[builder]
base = "manylinux_2_28"
framework = "torch"
"""
PROJECTS_OWN = {"pyproject__toml": PROJECT + 'dependencies = ["torch==2.9.1", "numpy"]\n'}
VARIABLE = '[variables]\nTORCH_VERSION = "2.11.0"\n'


@pytest.mark.parametrize(
    ("recipe", "files", "found"),
    [
        (TORCH, pins("torch==2.11.0; platform_machine == 'x86_64'", "torch==2.10.0; platform_machine == 'aarch64'"), 0),
        (TORCH, pins("torch==2.11.0; platform_machine == 'aarch64'"), 1),
        (TORCH, pins("torch==2.9.1; python_full_version < '3.12.0'"), 0),
        (TORCH, pins("torch==2.9.1; python_full_version >= '3.12.0'"), 1),
        # Nobody knows the last part of the Python's version.
        (TORCH, pins("torch==2.9.1; python_full_version >= '3.12.4'"), 0),
        (TORCH, pins("torch==2.9.1; sys_platform == 'linux'"), 1),
        (TORCH, pins("torch==2.9.1; platform_system != 'Linux' or os_name == 'nt' or platform_release >= '7'"), 0),
        (TORCH, pins("torch==2.9.1; implementation_name == 'cpython'"), 1),
        (VARIABLE + '[wheel]\nrequires = ["torch>=2.11"]\n', PROJECTS_OWN, 0),
        (VARIABLE + '[wheel]\nrequires = ["numpy"]\n', PROJECTS_OWN, 1),
        (TORCH, PROJECTS_OWN, 0),
        (VARIABLE + '[wheel]\nrequires = ["torch>=2.11"]\n', pins("torch==2.9.1"), 1),
    ],
)
def test_a_pin_counts_in_the_cells_that_it_is_for(
    tmp_path: Path, recipe: str, files: dict[str, str], found: bool
) -> None:
    assert broken(tmp_path, recipe, **files) == ({"framework-pins"} if found else set())


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
