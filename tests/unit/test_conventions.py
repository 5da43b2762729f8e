"""Conventions of the code that no linter checks: who prints and exits, and which imports are postponed.

Which package may import which is a contract in pyproject.toml, checked by import-linter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from own_sources import FILES, nodes, trees

from bakery.recipe import type_names
from bakery.recipe.models import Recipe
from bakery.recipe.models.base import Model

CONSOLE = (
    "runs/display.py", "wheel_audit/command.py", "wheel_audit/terminal.py", "wheel_audit/tables.py",
    "wheel_audit/report.py", "bakery_iree/report",
)  # fmt: skip
"""Modules outside of the command that make tables and live displays with rich."""

ENVIRONMENT = {
    "api.py", "core/environment.py", "engine/debian_rootfs.py", "engine/discover.py", "engine/paths.py",
    "engine/private_engine.py", "wheel_audit/command.py", "wheel_audit/terminal.py", "wheel_audit/tools.py",
    "wheel_audit/worker.py",
}  # fmt: skip
"""Modules outside of the command that read os.environ: clients of docker, git and apt inherit it.

The library is used without the command; `environ` replaces it there."""

FORBIDDEN = {"print", "exit", "quit", "sys.exit", "os._exit", "os.getenv"}

HEAVY = {"python_on_whales", "hcl2", "auditwheel"}
"""Packages that are slow to import: only the functions that use them import them."""


LINES_OF_A_FILE = 800
"""Functions have no limit of lines: ruff limits their complexity and their parameters."""


def test_files_are_no_books() -> None:
    lengths = {name: path.read_text().count("\n") for name, path in FILES.items()}
    assert {name: lines for name, lines in lengths.items() if lines > LINES_OF_A_FILE} == {}


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of every imported module, inside functions too."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def offences(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield what only the command may do."""
    for node in nodes(tree):
        used = ""
        if isinstance(node, ast.Import | ast.ImportFrom):
            for module in {module.split(".")[0] for module in imported(node)}:
                if module == "typer" or (module == "rich" and not name.startswith(CONSOLE)):
                    yield f"{name} imports {module}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            used = node.func.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = f"{node.value.id}.{node.attr}"
        if used in FORBIDDEN or (used == "os.environ" and name not in ENVIRONMENT):
            yield f"{name}:{node.lineno} uses {used}"


def test_only_the_command_prints_exits_and_reads_the_environment() -> None:
    commands = ("cli/", "bakery_iree/commands/")
    code = {name: tree for name, tree in trees().items() if not name.startswith(commands)}
    assert [wrong for name, tree in code.items() for wrong in offences(name, tree)] == []


@pytest.mark.parametrize("text", ["import typer", "from rich import x", "print()", "sys.exit()", "os.environ['A']"])
def test_what_only_the_command_may_do_is_found(text: str) -> None:
    assert list(offences("core/x.py", ast.parse(text)))


def test_no_exception_is_left_over() -> None:
    assert all("os.environ" in FILES[name].read_text() for name in ENVIRONMENT)


def test_slow_imports_are_postponed() -> None:
    for name, tree in trees().items():
        if name.startswith(("cli/", "emit/", "resolve/", "plan/")):
            top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
            assert not {module.split(".")[0] for module in imported(top)} & HEAVY, name


def keys(model: type[Model], prefix: str = "") -> Iterator[str]:
    """Yield the dotted path of every key of a recipe."""
    for key, field in type_names.keys(model).items():
        yield prefix + key
        if inner := type_names.model_of(field.annotation):
            yield from keys(inner, f"{prefix}{key}.")


PATHS = frozenset(path for path in keys(Recipe) if "." in path)
ENDS = frozenset(f".{path.partition('.')[2]}" for path in PATHS)
DISPLAYS = ("place", "origins.get")
"""Methods that say where a recipe sets a value."""


def reads_by_path(tree: ast.AST) -> list[str]:
    """Return what reads a setting by its dotted path: ``settings.text("wheel.abi3")``, ``values["wheel.abi3"]``."""
    found = []
    for node in nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            path = node.args[0]
        elif isinstance(node, ast.Subscript):
            path = node.slice
        else:
            continue
        # f"{table}.network" is a path, too.
        text = path.values[-1] if isinstance(path, ast.JoinedStr) and path.values else path
        value = text.value if isinstance(text, ast.Constant) else None
        known = value in (PATHS if path is text else ENDS)
        if known and not ast.unparse(node).partition("(")[0].endswith(DISPLAYS):
            found.append(ast.unparse(node))
    return found


def test_no_setting_is_read_by_its_path() -> None:
    """Settings are the models of the recipe. Only `init`, which writes recipes, has keys as texts."""
    found = {name: reads_by_path(tree) for name, tree in trees().items() if not name.startswith("init/")}
    assert {name: reads for name, reads in found.items() if reads} == {}


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ('settings.text("wheel.abi3")', True),
        ('plan.settings["builder.base.image"]', True),
        ('settings.flag(f"{table}.network")', True),
        ('case.place("wheel.repair.plat")', False),
        ('plan.origins.get("source.path", ("", ""))', False),
        ('seconds_of(text, "cache.expected-build")', False),
        ("settings.recipe.wheel.abi3", False),
    ],
)
def test_a_read_by_path_is_found(text: str, is_read: bool) -> None:
    assert bool(reads_by_path(ast.parse(text))) is is_read
