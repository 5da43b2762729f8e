"""Every recipe in rules/ breaks the rule it is named after, with exactly the text beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bakery.cli.tables.rules import lines, refusal
from bakery.engine.client import exports
from bakery.plan.model import Plan
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.resolve.rules import judge, rules
from bakery.resolve.rules.caching import Host
from bakery.resolve.rules.project import read_project
from bakery.resolve.rules.rule import Finding, Severity
from bakery.resolve.set_option import parse_set_options

FOLDER = Path(__file__).parent / "rules"
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
HOST = Host(memory=16 * 10**9)
"""The machine that would build them."""

HOSTS = {
    "cache-engine": Host(exports=exports("docker", "overlay2"), engine="driver docker"),
    "cache-engine-s3": Host(exports=exports("docker", "containerd"), engine="driver docker"),
    "cache-gha-token": Host(lacking=("ACTIONS_RUNTIME_TOKEN", "ACTIONS_CACHE_URL")),
    "cache-token-life-short": Host(token_s=600),
}
"""Machines that break rules by what they lack."""

PYPROJECT = {"pyproject.toml": '[project]\nname = "kernels"\nversion = "1.0"\ndependencies = ["numpy"]\n'}
SOURCES = {
    "project-file": {"README.md": ""},
    "test-files": {**PYPROJECT, "tests/run.py": "", "data/large.bin": ""},
    "test-program": {"setup.py": ""},
    "test-program-unlisted": PYPROJECT,
    "git-submodules": {**PYPROJECT, ".gitmodules": '[submodule "fmt"]\n\tpath = extern/fmt\n\turl = ../fmt\n'},
}
"""The files of the source folder, for rules about them."""

IDS = tuple(rule.id for rule in rules())


def rule_of(name: str) -> str:
    """``image-name-cuda`` is a second recipe for rule ``image-name``."""
    return max((item for item in IDS if name == item or name.startswith(item + "-")), key=len, default="")


def rendered(plan: Plan, findings: Sequence[Finding]) -> str:
    errors = [finding for finding in findings if finding.rule.severity is Severity.ERROR]
    text = []
    if errors:
        error = refusal(plan.recipe, errors, len(plan.cells) + len(plan.cibuildwheel_cells))
        text = [f"{error.title} (exit {error.exit_code}): {error.message}", *error.details, f"→ {error.hint}"]
    warnings = lines(findings[len(errors) :], len(plan.cells) + len(plan.cibuildwheel_cells))
    text += ["warnings:", *warnings] if warnings else []
    return "\n".join(text) + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_rule(name: str, tmp_path: Path, golden: Callable[[Path, str], None]) -> None:
    shutil.copy(FOLDER / f"{name}.toml", tmp_path / "bakery.toml")
    text = (FOLDER / f"{name}.toml").read_text()
    sets = [line.removeprefix("# --set ") for line in text.splitlines() if line.startswith("# --set ")]
    plan, host = resolve(load(None, tmp_path)[0], parse_set_options(sets)), HOSTS.get(name, HOST)
    for file, content in SOURCES.get(name, {}).items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(content)
    findings = judge(plan, host, read_project(tmp_path, plan) if name in SOURCES else None)
    assert rule_of(name) in {finding.rule.id for finding in findings}
    golden(FOLDER / f"{name}.txt", rendered(plan, findings))


def test_every_rule_has_its_text() -> None:
    assert set(IDS) == {rule_of(name) for name in NAMES}
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == NAMES
