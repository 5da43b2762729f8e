"""A set of wheels against the plan that it was baked from: all there, each what it promises, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.result_cache import audit
from bakery.build.expectations import expected, promises
from bakery.core.errors import AuditError, OutputError
from bakery.core.names import MACHINES, python_tag
from bakery.core.wheel_names import parse_wheel_name
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.resolve.rules.device import device_promises


def verify(plans: Sequence[Plan], wheels: Sequence[Path], memory: Path) -> int:
    """Check a whole set of wheels; return how many there are.

    Args:
        wheels: files with different names.
        memory: the folder that remembers what was audited.

    Raises:
        AuditError: a planned wheel is missing, one is not what it promises, or one is in no plan; all of them are told.
    """
    problems: list[str] = []
    left: list[Path] = []
    for path in wheels:
        try:
            parse_wheel_name(path.name)
            left.append(path)
        except InvalidWheelFilename as error:
            problems.append(str(error))
    missing: list[str] = []
    for plan in plans:
        device = device_promises(plan)
        for cell in (cell for cell in (*plan.cells, *plan.cibuildwheel_cells) if cell.built_by == cell.id):
            mine, absent = expected(plan, cell, [path for path in left if _fits(plan, cell, path)])
            missing += [f"{plan.recipe} {cell.id}: a wheel is missing: {what}" for what in absent]
            left = [path for path in left if path not in mine]
            if not absent:
                for path, expectation in zip(mine, promises(plan, cell, device.get(cell.id), mine), strict=True):
                    problems += [f"{cell.id}: {path.name}: {fault}" for fault in _faults(path, expectation, memory)]
    problems = missing + problems + [f"{path.name}: in no plan" for path in left]
    if problems:
        raise AuditError(
            f"the {len(wheels)} wheels are not the set that is planned: {len(problems)} problems",
            details=problems,
            hint="all jobs must have baked the same recipe; `wheel-bakery plan` shows its cells",
        )
    return len(wheels)


def _faults(path: Path, expected: ExpectedWheel, memory: Path) -> Sequence[str]:
    """Return what is wrong with a wheel, one that cannot be opened included: the others are judged all the same."""
    try:
        return audit(path, expected, memory).faults
    except OutputError as error:
        return [error.message]


def _fits(plan: Plan, cell: Cell, path: Path) -> bool:
    """Whether a wheel's name is one that the cell can have: its project, Python, ABI and machine."""
    name, version, _, tags = parse_wheel_name(path.name)
    if plan.audit.name and (name != plan.audit.name or version.public != plan.audit.version.partition("+")[0]):
        return False
    return any(_is_for(tag, cell) for tag in tags)


def _is_for(tag: Tag, cell: Cell) -> bool:
    python = python_tag(cell.axes["python"])
    if tag.abi == "abi3":
        minor = tag.interpreter.removeprefix("cp3")
        serves = minor.isdigit() and not python.endswith("t") and int(minor) <= int(python.removeprefix("cp3"))
    elif tag.abi == "none":
        serves = tag.interpreter.startswith("py") or tag.interpreter == python.removesuffix("t")
    else:
        serves = (tag.interpreter, tag.abi) == (python.removesuffix("t"), python)
    return serves and (tag.platform == "any" or _is_of(tag.platform, cell.platform))


def _is_of(tag: str, platform: str) -> bool:
    """Whether a platform tag is of a platform's system and machine; macOS has one for both machines."""
    prefixes = {"macos": ("macosx_",), "windows": ("win_",)}.get(platform.partition("/")[0], ("linux_", "manylinux"))
    machines = (MACHINES[platform], *(("universal2",) if platform.startswith("macos/") else ()))
    return tag.startswith(prefixes) and tag.endswith(tuple(f"_{machine}" for machine in machines))
