"""Translates a plan into what the audit expects of each wheel of a cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.utils import BuildTag, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from bakery.core.cell_ids import MACHINES
from bakery.core.errors import AuditError
from bakery.plan.cells import Cell
from bakery.plan.delivery import Naming
from bakery.plan.model import Plan
from bakery.plan.values import substitute
from bakery.resolve.device_promises import DevicePromise
from bakery.toolchains.facts import torch_release
from wheel_audit.expected_wheel import ExpectedFolder, ExpectedWheel
from wheel_audit.symbols import CxxAbi


def promises(
    plan: Plan, cell: Cell, device: DevicePromise | None, wheels: Sequence[Path], served: Sequence[Cell] = ()
) -> tuple[ExpectedWheel, ...]:
    """Return the expectations of all wheels of a cell; ``served``: all cells that take them, without a key, too.

    Raises AuditError unless each naming has one wheel.
    """
    promised: dict[Path, ExpectedWheel] = {}
    for naming, parts, wheel in _assigned(plan, cell, wheels):
        if wheel is None:
            raise AuditError(
                f"{cell.id}: no wheel is named as the recipe says: {_described(naming, *parts)}",
                details=[path.name for path in wheels if path not in promised],
            )
        promise = _promise(plan, cell, device, naming, _version(plan, parts[1]))
        pythons = (*promise.pythons, *(item.axes["python"] for item in served if item.id != cell.id))
        promised[wheel] = replace(promise, pythons=tuple(dict.fromkeys(pythons)))
    if extra := [path.name for path in wheels if path not in promised]:
        raise AuditError(f"{cell.id}: more wheels than names", details=extra)
    return tuple(promised[path] for path in wheels)


def promise_of(plan: Plan, cell: Cell, device: DevicePromise | None, wheel: Path) -> ExpectedWheel | None:
    """Return the expectation of one wheel of a cell, whatever became of its others; None if no naming fits it."""
    named = ((naming, parts[1]) for naming, parts, path in _assigned(plan, cell, [wheel]) if path)
    return next((_promise(plan, cell, device, naming, _version(plan, local)) for naming, local in named), None)


def expected(plan: Plan, cell: Cell, wheels: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Return which of ``wheels`` belong to a cell, one for each naming, and descriptions of missing ones."""
    assigned = list(_assigned(plan, cell, wheels))
    missing = [_described(naming, *parts) for naming, parts, wheel in assigned if wheel is None]
    return [wheel for *_, wheel in assigned if wheel], missing


def _assigned(
    plan: Plan, cell: Cell, wheels: Sequence[Path]
) -> Iterator[tuple[Naming, tuple[str, str, str], Path | None]]:
    """Yield each naming of the recipe with its name, its local version and its build tag, and its wheel."""
    plan, values = plan.of(cell), plan.values_of_wheel(cell)
    left = list(wheels)
    # The most specific naming comes first: the project's own name fits every wheel.
    for naming in sorted(
        plan.audit.namings, key=lambda item: (not item.name, not item.build_tag, not item.local, not item.clean)
    ):
        name, local, tag = (substitute(part, values) for part in (naming.name, naming.local, naming.build_tag))
        wheel = next((path for path in left if _is_named(path, naming, name, local, tag)), None)
        if wheel:
            left.remove(wheel)
        yield naming, (name, local, tag), wheel


def _is_named(path: Path, naming: Naming, name: str, local: str, tag: str) -> bool:
    project, version, build, _ = parse_wheel_filename(path.name)
    if name and project != canonicalize_name(name):
        return False
    if (naming.clean and version.local) or (local and version.local != Version(f"0+{local}").local):
        return False
    return not tag or build == _build(tag)


def _build(tag: str) -> BuildTag:
    """Return a build tag as parsed from file names: 01 is 1."""
    return parse_wheel_filename(f"x-0-{tag}-py3-none-any.whl")[2]


def _described(naming: Naming, name: str, local: str, tag: str) -> str:
    parts = (
        name,
        "no local version" if naming.clean else "",
        f"local version +{local}" if local else "",
        f"build tag {tag}" if tag else "",
    )
    return ", ".join(filter(None, parts)) or "as the project names it"


def _version(plan: Plan, local: str) -> str | None:
    if not plan.audit.version:
        return None
    return f"{Version(plan.audit.version).public}+{local}" if local else plan.audit.version


def _plat(plan: Plan, cell: Cell) -> str | None:
    """Return the platform tag that a cell's wheel must have; None for any."""
    if cell.platform.startswith("macos/"):
        minimum = plan.cibuildwheel.minimum_macos.replace(".", "_")
        return f"macosx_{minimum}_{MACHINES[cell.platform]}" if minimum else None
    named = cell.platform.startswith("linux/") and plan.audit.plat != "auto" and plan.audit.repaired
    return f"{plan.audit.plat}_{MACHINES[cell.platform]}" if named else None


def _cxx_abi(torch: str, platform: str) -> CxxAbi:
    """Return libstdc++'s ABI of a release of torch; empty if unknown."""
    release, _, variant = torch.partition("+")
    row = torch_release(release) if release else None
    if row is None:
        return ""
    if row.abi or variant in row.new_abi:
        return "cxx11"
    # The facts are those of PyPI's wheels, and of the variants that have a CUDA.
    has_facts = platform == "linux/amd64" and (not variant or variant in row.variants)
    return "old" if has_facts else ""


def _promise(
    plan: Plan, cell: Cell, device: DevicePromise | None, naming: Naming, version: str | None
) -> ExpectedWheel:
    plan, values = plan.of(cell), plan.values_of_wheel(cell)
    audit = plan.audit
    served = (item.axes["python"] for item in (*plan.cells, *plan.cibuildwheel_cells) if item.built_by == cell.id)
    return ExpectedWheel(
        name=substitute(naming.name, values) or audit.name or None,
        version=version,
        python=cell.axes["python"],
        pythons=tuple(dict.fromkeys(filter(None, (audit.abi3, *served)))) if cell.abi3 else (),
        abi3=True if cell.abi3 and audit.abi3 else None,
        platform=cell.platform,
        plat=_plat(plan, cell),
        excludes=audit.excludes,
        device_archs=device.archs if device else (),
        cuda=device.cuda if device else "",
        folders=tuple(
            ExpectedFolder(folder, item.archs, item.cuda) for folder, item in (device.folders if device else {}).items()
        ),
        native=substitute(audit.native, values),
        requires=tuple(substitute(item, values) for item in audit.requires),
        cxx_abi=_cxx_abi(values.get("TORCH_VERSION", ""), cell.platform),
        torch_abi=audit.torch_abi,
        max_size=audit.max_size_mb * 10**6 or None,
        stripped=audit.stripped,
        public_index=naming.index == "public",
    )
