"""Projects as one input each: their files, one after the other, each behind a line with its name."""

from __future__ import annotations

import random
import re
import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path

from init_projects import PROJECTS

from bakery.core.errors import BakeryError
from bakery.init.make import make_recipe
from bakery.init.project import candidates
from bakery.init.tree import scan
from bakery.init.write import MOST_LINES, find_target
from fuzz.mutate import any_bytes, any_text

_FILE = re.compile(rb"(?m)^=== ([\w./-]{1,80})$\n?")


def seeds() -> Sequence[bytes]:
    """Return the small projects of the tests."""
    return ["".join(f"=== {name}\n{text}\n" for name, text in files.items()).encode() for files in PROJECTS.values()]


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Change a project as text, or any of its bytes."""
    return rng.choice((any_text, any_text, any_bytes))(rng, data)


def init(folder: Path, data: bytes) -> str:
    """Make the first recipe of a project."""
    return make(unpacked(folder, data))


def make(root: Path) -> str:
    """Make the first recipe of a project in a folder."""
    try:
        tree = scan(root)
        found = candidates(tree)
        if not found:
            return "refused"
        made = make_recipe(
            tree, found[0], find_target(tree, pyproject=False), None, lambda _question, options: options[0]
        )
    except BakeryError:
        return "refused"
    assert tomllib.loads(made.text)
    assert made.text.count("\n") <= MOST_LINES
    assert not list(root.rglob("RAN"))
    return "plan"


def unpacked(folder: Path, data: bytes) -> Path:
    """Write the files of a project into a new folder, and return it."""
    root = folder / "project"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    parts = _FILE.split(data)
    for name, content in dict(zip(parts[1::2], parts[2::2], strict=True)).items():
        path = root / name.decode()
        if ".." in path.parts or path.is_dir() or not path.resolve().is_relative_to(root.resolve()):
            continue
        if any(parent.is_file() for parent in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root
