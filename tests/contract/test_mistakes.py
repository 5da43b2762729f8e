"""The mistakes of a newcomer: each message names the cause, the place, and what to do. Mistakes that need a bake to be seen
(a compile error, a test that fails to import, a missing requirement) are in `tests/engine/test_compile_errors.py`."""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypedDict

import forking
import pytest
from file_trees import write_files


class Mistake(TypedDict, total=False):
    """What is run (words ``@NAME=VALUE`` set variables), beside which files; ``alone``: there is no project beside them."""

    run: str
    files: dict[str, str]
    alone: bool
    encoding: str
    names: tuple[str, str, str]


MISTAKES: Mapping[str, Mistake] = tomllib.loads(Path(__file__).with_name("mistakes.toml").read_text(encoding="utf-8"))  # type: ignore[assignment]

PROJECT = """\
[project]
name = "demo"
version = "1.0"
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
"""


def said(mistake: Mistake, folder: Path) -> str:
    files = mistake.get("files", {})
    if not mistake.get("alone"):
        files = {"pyproject.toml": PROJECT, "setup.py": "", **files}
    write_files(folder, {name: text.encode(mistake.get("encoding", "utf-8")) for name, text in files.items()})
    words = shlex.split(mistake["run"])
    variables = dict(word[1:].split("=", 1) for word in words if word.startswith("@"))
    environment = {**os.environ, "COLUMNS": "300", "XDG_STATE_HOME": str(folder / ".state"), **variables}
    _, _, out, err = forking.run([word for word in words if not word.startswith("@")], folder, environment, 120)
    return out + err


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what each command printed."""
    folders = [tmp_path_factory.mktemp("mistake") for _ in MISTAKES]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(MISTAKES, pool.map(said, MISTAKES.values(), folders), strict=True))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_without_a_traceback(texts: Mapping[str, str], name: str) -> None:
    text = texts[name]
    assert "Traceback" not in text
    assert "internal error" not in text
    assert any(part in text for part in MISTAKES[name]["names"]), text


def test_cause_place_and_fix_are_named(texts: Mapping[str, str]) -> None:
    lacking = {name: [part for part in row["names"] if part not in texts[name]] for name, row in MISTAKES.items()}
    assert len(lacking) >= 70
    assert sum(3 - len(parts) for parts in lacking.values()) / len(lacking) >= 2.7
    # Today all three are named everywhere.
    assert not {name: parts for name, parts in lacking.items() if parts}
