"""Conventions of the code that no linter checks: who prints and exits, and which imports are postponed.

Which package may import which is a contract in pyproject.toml, checked by import-linter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "bakery"
PROGRAMS = ("toolchains/programs/", "iree/programs/")
"""Programs that run inside images: they print and exit."""

FILES = {
    name: path
    for path in sorted(PACKAGE.rglob("*.py"))
    if not (name := path.relative_to(PACKAGE).as_posix()).startswith(PROGRAMS)
}

CONSOLE = ("build/display.py", "iree/report")
"""Modules outside of the command that make tables and live displays with rich."""

ENVIRONMENT = {
    "core/git.py",
    "engine/debian_packages.py",
    "engine/debian_rootfs.py",
    "engine/discover.py",
    "engine/paths.py",
    "engine/private_engine.py",
}
"""Modules outside of the command that read os.environ: clients of docker, git and apt inherit it."""

HEAVY = {"python_on_whales", "hcl2", "auditwheel"}
"""Packages that are slow to import: only the functions that use them import them."""


@cache
def parsed(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text())


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of every imported module, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("cli/")])
def test_only_the_command_prints_exits_and_reads_the_environment(name: str) -> None:
    tree = parsed(name)
    modules = {module.split(".")[0] for module in imported(tree)}
    assert "typer" not in modules
    assert "rich" not in modules or name.startswith(CONSOLE)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("print", "exit", "quit"), f"line {node.lineno}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = f"{node.value.id}.{node.attr}"
            assert used not in ("sys.exit", "os._exit", "os.getenv"), f"line {node.lineno}"
            assert used != "os.environ" or name in ENVIRONMENT, f"line {node.lineno}"


def test_no_exception_is_left_over() -> None:
    assert all("os.environ" in FILES[name].read_text() for name in ENVIRONMENT)


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith(("cli/", "emit/", "resolve/", "plan/"))])
def test_slow_imports_are_postponed(name: str) -> None:
    tree = parsed(name)
    top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    assert not {module.split(".")[0] for module in imported(top)} & HEAVY
