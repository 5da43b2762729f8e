"""Compares a set of wheels with the plans: none is missing, each passes its audit, and there are no others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import listed
from bakery.audit.result_cache import audit
from bakery.audit.tags import installable_abis, parse_platform
from bakery.build.expectations import expected, promises
from bakery.build.records.buildkit import PROVENANCE, record_path
from bakery.build.records.read import read
from bakery.build.shared_wheels import by_python, families, serves
from bakery.core.errors import AuditError, OutputError, UnavailableError
from bakery.core.wheel_names import parse_wheel_name, split_label
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.release.gpu_record import gpu_fault
from bakery.release.size import LIMIT_HINT, ProjectSize, by_project, limit_of, uploaded
from bakery.release.variants import other_files
from bakery.resolve.rules.device import device_promises


@dataclass(frozen=True, slots=True)
class Release:
    """A set of wheels that is as planned: the number of its wheels, and the size of each project's wheels."""

    wheels: int
    projects: tuple[ProjectSize, ...]


def verify(plans: Sequence[Plan], wheels: Sequence[Path], cache: Path, *, gpu: bool = False) -> Release:
    """Check a set of wheels with different names; return what it has. ``cache`` is the folder of audit results.

    With ``gpu``, each wheel of a recipe with ``test.gpu`` must have a record of a passed test on a GPU.
    Raises AuditError with all missing wheels, failed audits, wheels that are in no plan, and projects whose wheels take
    more space than their index gives them.
    """
    problems: list[str] = []
    sizes: list[ProjectSize] = []
    left: list[Path] = []
    variants: list[Path] = []
    for path in wheels:
        plain, label = split_label(path.name)
        try:
            parse_wheel_name(plain)
            (variants if label else left).append(path)
        except InvalidWheelFilename as error:
            problems.append(str(error))
    problems += _wrong_variants(variants, left, cache)
    missing: list[str] = []
    for plan in plans:
        device = device_promises(plan)
        found, served, absent, left = assigned(plan, left)
        missing += absent
        for cell in (cell for cell in (*plan.cells, *plan.cibuildwheel_cells) if found.get(cell.id)):
            matched, others = found[cell.id], served.get(cell.id, ())
            expectations = promises(plan, cell, device.get(cell.id), matched, others)
            for path, expectation in zip(matched, expectations, strict=True):
                faults = [*_faults(path, expectation, cache), *_recorded_faults(path, others)]
                faults += filter(None, [gpu_fault(plan, path)] if gpu else [])
                problems += [f"{cell.id}: {path.name}: {fault}" for fault in faults]
        sizes += _size(plan, [path for matched in found.values() for path in matched], variants)
    problems = missing + problems + [f"{path.name}: in no plan" for path in left]
    projects = by_project(sizes)
    too_large = [fault for project in projects if (fault := project.fault)]
    if problems or too_large:
        raise AuditError(
            f"the {len(wheels)} wheels are not the set that is planned: {len(problems + too_large)} problems"
            if problems
            else "the release is too large",
            details=[*problems, *too_large],
            hint="all jobs must have baked the same recipe; `wheel-bakery plan` shows its cells"
            if problems
            else LIMIT_HINT,
        )
    return Release(len(wheels), projects)


def _size(plan: Plan, planned: Sequence[Path], variants: Iterable[Path]) -> Iterable[ProjectSize]:
    """Yield the size of the wheels of a plan, with their variants; nothing if it has no wheels."""
    if planned:
        names = {path.name for path in planned}
        size = _bytes(planned)
        labelled = _bytes(path for path in variants if split_label(path.name)[0] in names)
        project = str(parse_wheel_name(planned[0].name)[0])
        yield ProjectSize(project, size + labelled, uploaded(plan, size) + labelled, limit_of(plan))


def _bytes(paths: Iterable[Path]) -> int:
    # The audit reports a link to nothing.
    return sum(path.stat().st_size for path in paths if path.exists())


def _wrong_variants(variants: Sequence[Path], plain: Sequence[Path], cache: Path) -> list[str]:
    """Return what is wrong with wheel variants; each must have the files of a plain wheel, which the plan describes."""
    wheels = {path.name: path for path in plain}
    problems: list[str] = []
    for path in variants:
        name = split_label(path.name)[0]
        faults = _faults(path, ExpectedWheel(), cache)
        if not faults and name not in wheels:
            faults = [f"its plain wheel is not among the wheels: {name}"]
        elif not faults and (names := other_files(wheels[name], path)):
            faults = [f"has other files than its plain wheel: {listed(names)}"]
        problems += [f"{path.name}: {fault}" for fault in faults]
    return problems


def assigned(
    plan: Plan, wheels: Sequence[Path]
) -> tuple[dict[str, list[Path]], dict[str, list[Cell]], list[str], list[Path]]:
    """Return cell → its wheels, by their names; cell → the others that take its wheels, what is missing, and the wheels left."""
    cells = [cell for cell in (*plan.cells, *plan.cibuildwheel_cells) if cell.built_by == cell.id]
    kin, left = families(cells), list(wheels)
    found: dict[str, list[Path]] = {}
    served: dict[str, list[Cell]] = {}
    missing: list[str] = []
    for cell in by_python(cells):
        matched, absent = expected(plan, cell, [path for path in left if _fits(plan, cell, path)])
        lower = (other.id for other in kin.get(cell.id, ()) if other.id in found)
        builder = next((name for name in lower if serves([path.name for path in found[name]], cell)), "")
        if absent and builder:
            served.setdefault(builder, []).append(cell)
            continue
        left = [path for path in left if path not in matched]
        found |= {} if absent else {cell.id: matched}
        missing += [f"{plan.recipe} {cell.id}: a wheel is missing: {what}" for what in absent]
    return found, served, missing, left


def _recorded_faults(wheel: Path, served: Sequence[Cell]) -> Sequence[str]:
    """Return the faults that the provenance of a wheel tells; without one nobody knows.

    It must not be of an incremental build, and must have been tested for the cells of ``served``.
    """
    if not record_path(wheel, PROVENANCE).is_file():
        return ()
    try:
        provenance = read(wheel)
    except UnavailableError as error:
        return (error.message,)
    faults = ["was built with --incremental; build it again without the option"] if provenance.incremental else []
    if names := [cell.id for cell in served if cell.id not in provenance.also_serves]:
        faults.append(
            f"was not tested for {', '.join(names)}; set wheel.abi3, so that one job builds it and tests it for all"
        )
    return faults


def _faults(path: Path, expected: ExpectedWheel, cache: Path) -> Sequence[str]:
    """Return the faults of a wheel; if it cannot be opened, that is its fault, and the others are still checked."""
    try:
        return audit(path, expected, cache).faults
    except OutputError as error:
        return [error.message]


def _fits(plan: Plan, cell: Cell, path: Path) -> bool:
    """Whether a wheel of the cell can have this name: project, Python, ABI and machine."""
    name, version, _, tags = parse_wheel_name(path.name)
    if plan.audit.name and (name != plan.audit.name or version.public != plan.audit.version.partition("+")[0]):
        return False
    abis = installable_abis(cell.axes["python"])
    return any((tag.interpreter, tag.abi) in abis and _is_of(tag.platform, cell) for tag in tags)


def _is_of(tag: str, cell: Cell) -> bool:
    """Whether wheels with a platform tag run on the platform and the C library of a cell."""
    parsed = parse_platform(tag)
    return parsed.system == "any" or ((parsed.system == "musllinux") == cell.is_musl and parsed.is_for(cell.platform))
