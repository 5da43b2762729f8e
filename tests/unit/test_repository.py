"""The repository's own documents and workflow: links lead somewhere, named files exist, actions are pinned."""

from __future__ import annotations

import ast
import importlib
import json
import re
import textwrap
import tomllib
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from workflow_judges import STRICT, schema_errors, zizmor

import bakery
import bakery_iree
import wheel_audit
from bakery.toolchains.facts import action

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = ROOT / ".github/workflows"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
WITH_PATHS = [ROOT / "docs/architecture.md", *sorted(ROOT.glob("docs/decisions/*.md"))]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_exist(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    paths = {link.partition("#")[0] for link in links if "://" not in link}
    assert [path for path in sorted(paths) if not (page.parent / path).exists()] == []


@pytest.mark.parametrize("page", WITH_PATHS, ids=name)
def test_named_files_exist(page: Path) -> None:
    paths = set(re.findall(r"`((?:bakery|tests|bench)/[\w./-]+)`", page.read_text(encoding="utf-8")))
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_the_architecture_stays_short() -> None:
    assert len((ROOT / "docs/architecture.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_python_examples_are_python() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    examples = [textwrap.dedent(match[2]) for match in re.finditer(r"(?ms)^( *)```python\n(.*?)^\1```", text)]
    assert len(examples) >= 4
    for example in examples:
        tree = ast.parse(example if example.startswith('"""') else f"{{\n{example}}}")
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(str(node.module))
                missing = [name.name for name in node.names if not hasattr(module, name.name)]
                assert not [name for name in missing if not find_spec(f"{node.module}.{name}")], node.module


def test_renovate_finds_every_pinned_action_and_image() -> None:
    assert schema_errors("renovate", [ROOT / "renovate.json"]) == []
    settings = json.loads((ROOT / "renovate.json").read_text())
    for manager, rows in zip(settings["customManagers"], ("actions", "images"), strict=True):
        (file,), (pattern,) = manager["managerFilePatterns"], manager["matchStrings"]
        text = (ROOT / file.strip("/^$").replace("\\", "")).read_text()
        found = re.findall(pattern.replace("(?<", "(?P<"), text)
        assert len(found) == len(tomllib.loads(text)[rows]) > 5


@pytest.mark.parametrize(
    "path", [".github/workflows/ci.yml", ".github/workflows/wheels.yml", "action.yml", "docs/ci.md"]
)
def test_the_workflow_uses_the_pinned_actions(path: str) -> None:
    uses = re.findall(r"uses: (\S+)@(\S+) # (\S+)", (ROOT / path).read_text(encoding="utf-8"))
    assert uses
    for repository, commit, version in uses:
        row = action("/".join(repository.split("/")[:2]))
        assert (commit, version) == (row.commit, row.version), repository


def test_zizmor_finds_nothing_in_the_workflows() -> None:
    assert zizmor(*STRICT, WORKFLOWS) == ""


def test_no_file_has_marks_of_a_merge() -> None:
    folders = [ROOT / name for name in ("bakery", "bench", "docs", "packages", "tests")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in {".py", ".md", ".toml", ".hcl"}]
    marks = re.compile(rf"(?m)^(?:{'<' * 7} |{'>' * 7} )")
    assert [name(path) for path in files if marks.search(path.read_text(encoding="utf-8"))] == []


def test_all_distributions_have_one_version() -> None:
    needed = {Requirement(text) for text in requires("wheel-bakery") or ()}
    pins = {str(item.specifier) for item in needed if item.name.startswith("wheel-audit")}
    assert pins == {f"=={bakery.__version__}"}
    assert requires("bakery-iree") == [f"wheel-bakery=={bakery.__version__}"]
    assert {wheel_audit.__version__, bakery_iree.__version__} == {bakery.__version__}
