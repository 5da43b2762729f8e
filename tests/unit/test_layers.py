"""One direction: no layer imports what comes after it. docs/architecture.md draws the picture."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "bakery"
FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

BASE = {"durations", "errors", "names", "patterns", "plainfile", "wheelname", "__version__"}
READING = {"load", "checks", "document", "plain", "positions", "problems", "wording"}
"""The loader and its helpers."""

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "names": set(),
    "patterns": set(),
    "plainfile": set(),
    "wheelname": set(),
    "durations": {"errors"},
    "plan": BASE,
    "lineage": {*BASE, "plan"},
    "ingredients": {*BASE, "plan"},
    "parcels": {*BASE, "plan", "facts", "lineage"},
    "since": {*BASE, "plan", "lineage", "checkout", "positions"},
    "images": BASE,
    "models": BASE,
    "mlir": BASE,
    "job": {*BASE, "plan"},
    "jobs": {*BASE, *READING, "facts", "job", "mlir", "models"},
    # The loader names the providers that exist; it never asks them for stages.
    **{name: {*BASE, "models", "providers", *READING} for name in READING},
    "schema": {*BASE, "models"},
    "iree/arrays": {*BASE, "mlir"},
    # Compiled modules: what is on disk, what is asked of it, and the containers that it runs in.
    "iree/modules": {*BASE, "audit", "files", "mlir", "models"},
    "iree/kitchen": {*BASE, "jobs", "models", "iree/modules"},
    "iree/calls": {*BASE, "iree/arrays", "mlir", "models", "iree/modules", "problems"},
    "iree/room": {*BASE, "drive"},
    "iree/surface": {*BASE, "audit", "drive", "models", "iree/modules"},
    "iree/references": {*BASE, "iree/arrays", "iree/calls", "drive", "plan", "providers", "iree/room"},
    "iree/comparison": {
        *BASE,
        "iree/arrays",
        "iree/calls",
        "drive",
        "mlir",
        "models",
        "plan",
        "providers",
        "iree/room",
    },
    "iree/trial": {*BASE, "iree/calls", "drive", "iree/modules", "plan", "providers", "iree/room", "iree/surface"},
    "iree/validate": {
        *(
            *BASE,
            "iree/arrays",
            "iree/calls",
            "iree/comparison",
            "drive",
            "models",
            "iree/modules",
            "iree/references",
            "iree/surface",
            "iree/trial",
        ),
    },
    "iree/benchmark": {
        *BASE,
        "iree/arrays",
        "iree/calls",
        "drive",
        "models",
        "iree/modules",
        "iree/room",
        "iree/surface",
    },
    "iree/bundle": {*BASE, "drive", "facts", "iree/modules", "plan", "providers"},
    "reference": {*BASE, "models", "plain", "resolve"},
    "facts": BASE,
    "providers": {*BASE, "facts", "plan"},
    "resolve": {*BASE, "facts", "images", "load", "models", "plan", "providers"},
    "emit": {*BASE, "job", "plan", "facts", "parcels", "providers"},
    "context": {*BASE, "plan", "facts"},
    "rules": {*BASE, "images", "parcels", "plan", "facts"},
    "files": {"plainfile", "errors"},
    "checkout": set(),
    "drive": {*BASE, "images", "plan", "providers"},
    "lock": {*BASE, "images", "models", "plan", "document", "positions", "problems", "wording"},
    "farm": {*BASE, "models", "load", "problems", "drive"},
    "aside": {*BASE, "drive"},
    "carry": {*BASE, "aside", "drive", "emit", "files", "locker", "plan"},
    "locker": {*BASE, "aside", "images", "plan", "problems", "lock", "emit", "files", "drive", "providers"},
    "audit": BASE,
    "site": {*BASE, "audit", "drive", "files"},
    "record": {*BASE, "plan", "audit", "lock", "models", "problems"},
    "report": {*BASE, "job", "plan", "audit", "facts", "models", "rules", "parcels"},
    "promises": {*BASE, "plan", "audit", "facts", "rules"},
    "verify": {*BASE, "plan", "rules", "audit", "promises"},
    "recorder": {*BASE, "plan", "checkout", "drive", "emit", "lock", "record"},
    "work": {*BASE, "plan", "lineage", "emit", "drive"},
    "finish": {*BASE, "plan", "rules", "drive", "audit", "promises", "recorder", "work"},
    "layercache": {*BASE, "plan", "emit", "drive"},
    "runner": {*BASE, "plan", "drive", "audit", "finish", "layercache", "work"},
    "options": {*BASE, "lock"},
    "again": {*BASE, "drive", "options"},
    "oven": {*BASE, "drive"},
    "summary": {*BASE, "plan", "drive", "report", "runner"},
    "conclusion": {*BASE, "plan", "drive", "options", "report"},
    "run": {
        *(*BASE, "drive", "emit", "files", "finish", "ingredients", "lineage", "locker", "options", "oven", "plan"),
        *("again", "layercache", "record", "recorder", "report", "runner", "summary", "work"),
    },
    "pipeline": {
        *(*BASE, "carry", "drive", "ingredients", "locker", "options", "oven", "plan", "report", "run", "work"),
        "again",
    },
    "iree/toolimage": {
        *(*BASE, "conclusion", "drive", "emit", "load", "lock", "options", "oven", "pipeline", "plan"),
        "resolve",
    },
    "iree/compiler": {*BASE, "drive", "emit", "files", "job", "models", "oven", "plan", "report", "iree/toolimage"},
    "reproduce": {
        *(*BASE, "audit", "checkout", "drive", "emit", "load", "lock", "locker", "models", "pipeline"),
        *("conclusion", "options", "oven", "plan", "problems", "record", "resolve"),
    },
    "wheelhouse": {
        *(*BASE, "again", "plan", "emit", "files", "drive", "audit", "options", "promises", "providers", "report"),
    },
    # The library: what the command does, without the command.
    "api": {
        *(*BASE, "farm", "checkout", "plan", "models", "load", "resolve", "emit", "drive", "pipeline", "report"),
        *("conclusion", "options", "oven"),
    },
    "__init__": {"api", "models"},
    "cli": {
        *BASE,
        *READING,
        *("audit", "checkout", "context", "drive", "emit", "facts", "files", "models", "pipeline", "plan", "providers"),
        *("record", "reference", "report", "reproduce", "resolve", "rules", "schema", "site"),
        *("farm", "parcels", "since", "verify", "wheelhouse"),
        *(
            "iree/benchmark",
            "iree/bundle",
            "iree/kitchen",
            "iree/modules",
            "iree/surface",
            "iree/toolimage",
            "iree/validate",
        ),
        *("iree/compiler", "job", "jobs"),
        *("conclusion", "options", "oven"),
    },
    "iree": set(),
    "__main__": {"cli"},
}

EXCEPTIONS = {("report/doctor.py", "bakery.drive.diagnose"), ("report/nodes.py", "bakery.drive.nodes")}
"""The doctor's findings, and how nodes are, are the driver's; the report only draws them."""

CONSOLE = {"report", "drive/live.py", "drive/display.py"}
"""Who may draw with rich; nobody there decides where it goes."""

ENVIRONMENT = {
    "checkout.py",
    "drive/bootstrap.py",
    "drive/debs.py",
    "drive/find.py",
    "drive/places.py",
    "drive/rootfs.py",
}
"""Who reads os.environ outside of the command: clients of docker, git and apt inherit it where none is passed."""

IREE = "iree"
"""The folder of what is done with IREE modules: its files are layers of their own."""

IN_IMAGES = "providers/scripts/"
"""Programs that run inside images; nothing imports them."""


def layer(name: str) -> str:
    """Return the layer of a file, or of a module with slashes for dots: a folder or a file, in `IREE` each file."""
    first, _, rest = name.partition("/")
    if first == IREE and rest not in ("", "__init__.py"):
        return f"{IREE}/{rest.partition('/')[0].removesuffix('.py')}"
    return first.removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of every module that is imported, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def checked() -> list[str]:
    return [name for name in FILES if not name.startswith(IN_IMAGES) or name == f"{IN_IMAGES}__init__.py"]


@pytest.mark.parametrize("name", checked())
def test_imports_go_in_one_direction(name: str) -> None:
    own = layer(name)
    for module in imported(ast.parse(FILES[name].read_text())):
        first, _, rest = module.partition(".")
        target = layer(rest.replace(".", "/"))
        if first != "bakery" or not target or target == own:
            continue
        if any(name == file and module.startswith(allowed) for file, allowed in EXCEPTIONS):
            continue
        assert target in ALLOWED[own], f"{name} imports {module}"


def test_every_layer_has_a_place() -> None:
    assert {layer(name) for name in FILES} == set(ALLOWED)


def test_no_exception_is_left_over() -> None:
    for name, module in EXCEPTIONS:
        assert any(item.startswith(module) for item in imported(ast.parse(FILES[name].read_text())))
    assert all("os.environ" in FILES[name].read_text() for name in ENVIRONMENT)


@pytest.mark.parametrize("name", [name for name in checked() if layer(name) != "cli"])
def test_only_the_command_prints_exits_and_reads_the_environment(name: str) -> None:
    tree = ast.parse(FILES[name].read_text())
    modules = set(imported(tree))
    assert not any(module.split(".")[0] == "typer" for module in modules)
    if layer(name) not in CONSOLE and name not in CONSOLE:
        assert not any(module.split(".")[0] == "rich" for module in modules)
    assert "rich.print" not in modules
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("print", "exit", "quit"), f"line {node.lineno}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            said = f"{node.value.id}.{node.attr}"
            assert said not in ("sys.exit", "os._exit", "os.getenv"), f"line {node.lineno}"
            assert said != "os.environ" or name in ENVIRONMENT, f"line {node.lineno}"


HEAVY = {"python_on_whales", "hcl2", "auditwheel"}


@pytest.mark.parametrize(
    "name", [name for name in FILES if layer(name) in ("cli", "report", "emit", "resolve", "plan")]
)
def test_heavy_imports_stand_where_they_are_used(name: str) -> None:
    tree = ast.parse(FILES[name].read_text())
    top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    assert not {module.split(".")[0] for module in imported(top)} & HEAVY
