"""The modules of Bakery and its two packages, parsed once for all tests that read them."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAMS = ("toolchains/programs/", "bakery_iree/programs/", "release/programs/")
"""Programs that run inside images or on other machines: they print, exit and have an environment of their own."""

_TOPS = (
    (ROOT / "bakery", "."),
    (ROOT / "packages/wheel-audit", "wheel_audit"),
    (ROOT / "packages/bakery-iree", "bakery_iree"),
)
"""Folder that names are relative to, and the package in it."""

EVERY = {
    path.relative_to(top).as_posix(): path for top, package in _TOPS for path in sorted((top / package).rglob("*.py"))
}
"""Name → path: ``core/text.py`` of bakery, ``wheel_audit/wheel.py``."""

FILES = {name: path for name, path in EVERY.items() if not name.startswith(PROGRAMS)}
"""Without the programs."""


@cache
def all_trees() -> dict[str, ast.Module]:
    """Return name → module, those of programs too."""
    # They stay to the end: the garbage collector, which took two thirds of the time, need not look at them.
    gc.disable()
    try:
        return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in EVERY.items()}
    finally:
        gc.freeze()
        gc.enable()


def trees() -> dict[str, ast.Module]:
    """Return name → module, without the programs."""
    return {name: tree for name, tree in all_trees().items() if name in FILES}


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return all nodes of a tree."""
    return tuple(ast.walk(tree))
