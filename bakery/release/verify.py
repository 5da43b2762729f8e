"""Compares a set of wheels with the plans: none is missing, each passes its audit, and there are no others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name
from packaging.version import Version

from bakery.core.errors import AuditError, OutputError, UnavailableError
from bakery.core.text import count, size_text
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.plan.values import substitute
from bakery.release.gpu_record import gpu_fault
from bakery.release.meta import extras, meta_packages
from bakery.release.size import LIMIT_HINT, ProjectSize, by_project, limit_of, uploaded
from bakery.resolve.device_promises import device_promises
from bakery.runs.audited import audit
from bakery.runs.expectations import expected, promise_of, promises
from bakery.runs.records.read import provenance_of, read
from bakery.runs.same_name import by_python, differ_in_python_only, serves
from bakery.runs.wheel_tags import tag_faults
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.limits import OverLimit
from wheel_audit.metadata import read_metadata
from wheel_audit.plain_files import file_sha256, open_plain
from wheel_audit.tags import installable_abis, parse_platform
from wheel_audit.text import listed
from wheel_audit.variant import FILE
from wheel_audit.wheel_names import parse_wheel_name, split_label
from wheel_audit.zips import ZIP_ERRORS, open_zip

GROWTH_HINT = "`wheel-bakery audit --baseline OLD NEW` shows what changed; if it is meant, raise wheel.max-growth"


@dataclass(frozen=True, slots=True)
class Release:
    """A set of wheels that is as planned.

    Attributes:
        wheels: their number.
        projects: the size of each project's wheels.
        growth: a line for each wheel that the release before has, too: how its size changed.
    """

    wheels: int
    projects: tuple[ProjectSize, ...]
    growth: tuple[str, ...] = ()


def verify(
    plans: Sequence[Plan],
    wheels: Sequence[Path],
    cache: Path,
    *,
    gpu: bool = False,
    tag: str = "",
    baseline: Sequence[Path] = (),
    names: Mapping[str, str] | None = None,
) -> Release:
    """Check a set of wheels with different names; return what it has. ``cache`` is the folder of audit results.

    With ``gpu``, each wheel of a recipe with ``test.gpu`` must have a record of a passed test on a GPU.
    With ``tag``, each wheel must have the version that this git tag names.
    With ``baseline``, the wheels of the release before, no wheel may have grown more than its recipe allows.
    ``names``: recipe → the distribution that its source names itself, as far as it is known.
    Raises AuditError with all missing wheels, failed audits, wheels that are in no plan, wheels of another version than
    the tag's, wheels of another project or version than the others, projects whose wheels take more space than their index gives them, and wheels that grew too much.
    """
    problems: list[str] = []
    sizes: list[ProjectSize] = []
    growth: dict[str, bool] = {}
    left: list[Path] = []
    variants: list[Path] = []
    for path in wheels:
        plain, label = split_label(path.name)
        try:
            parse_wheel_name(plain)
            (variants if label else left).append(path)
        except InvalidWheelFilename as error:
            problems.append(str(error))
    named = [*left, *variants]
    problems += _wrong_variants(variants, left, cache)
    missing: list[str] = []
    planned: list[Path] = []
    for plan in plans:
        device = device_promises(plan)
        found, served, absent, left = assigned(plan, left)
        missing += absent
        left, faults_of_meta = _without_meta(plan, found, left)
        problems += faults_of_meta
        of_source: list[Path] = []
        for cell in (cell for cell in (*plan.cells, *plan.cibuildwheel_cells) if found.get(cell.id)):
            matched, others = found[cell.id], served.get(cell.id, ())
            expectations = promises(plan, cell, device.get(cell.id), matched, others)
            of_source += [path for path, item in zip(matched, expectations, strict=True) if not item.name]
            for path, expectation in zip(matched, expectations, strict=True):
                faults = [*_faults(path, expectation, cache)]
                with suppress(OSError):  # The audit says that it cannot be read.
                    faults += [*_recorded_faults(path, (cell, *others)), *filter(None, [gpu_fault(plan, path)] * gpu)]
                problems += [f"{cell.id}: {path.name}: {fault}" for fault in faults]
        planned += (matched := [path for paths in found.values() for path in paths])
        problems += _of_other_source(plan, matched, of_source, (names or {}).get(plan.recipe, ""))
        sizes += _size(plan, found, variants)
        growth |= _growth(plan, matched, baseline)
    problems = missing + problems + [f"{path.name}: in no plan{_beside(path, planned)}" for path in left]
    wrong = tag_faults(plans, named, tag) if tag else []
    if wrong and not problems:
        raise AuditError(
            f"the wheels are not the release that tag {tag} names",
            details=wrong,
            hint="set the project's version, commit, and move the tag there; or name the right tag. If the project's tags "
            "begin with another name, list them in ci.tags",
        )
    problems += wrong
    projects = by_project(sizes)
    too_large = [fault for project in projects if (fault := project.fault)]
    hints = [LIMIT_HINT] * bool(too_large) + [GROWTH_HINT] * any(growth.values())
    too_large += [text for text, is_fault in growth.items() if is_fault]
    if problems:
        problems += too_large
        raise AuditError(
            f"{count(len(wheels), 'wheel')}, not the set that is planned: {count(len(problems), 'problem')}",
            details=problems,
            hint="all jobs must have baked the same recipe; `wheel-bakery plan` shows its cells",
        )
    if too_large:
        raise AuditError("the release is too large", details=too_large, hint="; ".join(hints))
    return Release(len(wheels), projects, tuple(growth))


def _of_other_source(plan: Plan, wheels: Sequence[Path], named_by_source: Sequence[Path], name: str) -> list[str]:
    """Return the wheels that are not of the plan's source: of another project, or of another version than the newest.

    The wheels of a plan have one source, so one public version. An earlier run, or a mistake, may have left others.

    Args:
        named_by_source: those of ``wheels`` whose name the recipe does not set; ``name`` is theirs, empty if unknown.
    """
    name = name or (str(parse_wheel_name(max(named_by_source, key=_newest).name)[0]) if named_by_source else "")
    faults = [
        f"{path.name}: is no wheel of {name}; if the build renames the project, set wheel.naming.name"
        for path in named_by_source
        if parse_wheel_name(path.name)[0] != name
    ]
    if faults or not wheels or not plan.source_context.folder:
        return faults
    newest = _newest(max(wheels, key=_newest))[0].public
    old = (path for path in wheels if parse_wheel_name(path.name)[1].public != newest)
    return [f"{path.name}: other wheels have version {newest}: build it again" for path in old]


def _without_meta(
    plan: Plan, found: Mapping[str, Sequence[Path]], left: Sequence[Path]
) -> tuple[list[Path], list[str]]:
    """Return the wheels left that are no meta package of a plan, and what is wrong with its meta packages."""
    names = {name.replace("-", "_") for name in extras(plan)}
    try:
        made = meta_packages(plan, [path for paths in found.values() for path in paths]) if names else {}
    except AuditError:
        # A wheel is missing, which is said, or they have several versions.
        made = {}
    by_name = {path.name: path for path in left if path.name.partition("-")[0] in names}
    faults = [f"{plan.recipe}: {name} is missing: run `wheel-bakery meta`" for name in made if name not in by_name]
    for name in made.keys() & by_name.keys():
        if file_sha256(by_name[name]) != hashlib.sha256(made[name]).hexdigest():
            faults.append(f"{name}: is not the meta package of these wheels: run `wheel-bakery meta`")
    return [path for path in left if path.name not in made], faults


def _growth(plan: Plan, planned: Iterable[Path], baseline: Iterable[Path]) -> dict[str, bool]:
    """Return a line for each wheel that the release before has, too: how its size changed; whether that is too much."""
    before = {
        unversioned(path): path for path in sorted((path for path in baseline if is_wheel_name(path.name)), key=_newest)
    }
    lines: dict[str, bool] = {}
    for path in planned:
        old = before.get(unversioned(path))
        # The audit reports a link to nothing.
        if old and old.exists() and path.exists() and (was := old.stat().st_size):
            size = path.stat().st_size
            is_fault = plan.max_growth is not None and size * 100 > was * (100 + plan.max_growth)
            limit = f", more than the {plan.max_growth} % of wheel.max-growth" if is_fault else ""
            change = f"{size_text(size)}, {100 * (size - was) / was:+.1f} % since {old.name}"
            lines[f"{path.name}: {change}{limit}"] = is_fault
    return lines


def unversioned(wheel: Path) -> tuple[object, ...]:
    """Return what the names of a wheel have in common in two releases: all but its version and that of the C library.

    The local version is the first part.
    """
    _, version, build, tags = parse_wheel_name(wheel.name)
    systems = frozenset(parse_platform(tag.platform).system for tag in tags)
    return version.local, build, systems, _place(wheel)


def _size(plan: Plan, found: Mapping[str, Sequence[Path]], variants: Sequence[Path]) -> Iterable[ProjectSize]:
    """Yield the size of the wheels of a plan, cell → wheels, with their variants, for each name of a distribution."""
    cells = {cell.id: cell for cell in (*plan.cells, *plan.cibuildwheel_cells)}
    projects: dict[str, dict[str, list[Path]]] = {}
    for cell, paths in found.items():
        for path in paths:
            projects.setdefault(str(parse_wheel_name(path.name)[0]), {}).setdefault(cell, []).append(path)
    for project, by_cell in projects.items():
        names = {path.name for paths in by_cell.values() for path in paths}
        sizes = {cell: _bytes(paths) for cell, paths in by_cell.items()}
        labelled = _bytes(path for path in variants if split_label(path.name)[0] in names)
        public = sum(uploaded(plan, cells[cell], size) for cell, size in sizes.items())
        yield ProjectSize(project, sum(sizes.values()) + labelled, public + labelled, limit_of(plan))


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
        elif not faults and (names := _other_files(wheels[name], path)):
            faults = [f"has other files than its plain wheel: {listed(sorted(names))}"]
        problems += [f"{path.name}: {fault}" for fault in faults]
    return problems


def _other_files(plain: Path, variant: Path) -> set[str]:
    """Return the files that differ between a plain wheel and its variant, which passed the audit, by RECORD."""
    one, other = _record(plain), _record(variant)
    return {path for path, _ in one ^ other if not path.endswith((f".dist-info/{FILE}", ".dist-info/RECORD"))}


def _record(wheel: Path) -> set[tuple[str, str]]:
    try:
        with open_plain(wheel, follow=True) as stream, open_zip(stream) as archive:
            texts = {path: archive.read(path) for path in archive.namelist() if path.endswith(".dist-info/RECORD")}
        rows = read_metadata(tuple(texts), texts).record
    except (OverLimit, *ZIP_ERRORS):
        rows = ()
    return {(row.path, row.digest) for row in rows}


def assigned(
    plan: Plan, wheels: Sequence[Path]
) -> tuple[dict[str, list[Path]], dict[str, list[Cell]], list[str], list[Path]]:
    """Return cell → its wheels, by their names; cell → the others that take its wheels, what is missing, and the wheels left."""
    cells = [cell for cell in (*plan.cells, *plan.cibuildwheel_cells) if cell.built_by == cell.id]
    # Of the wheels of one cell, an earlier run may have left some: the newest is the one to compare.
    named = [path for path in wheels if is_wheel_name(path.name)]
    left = sorted(named, key=_newest, reverse=True)
    found: dict[str, list[Path]] = {}
    served: dict[str, list[Cell]] = {}
    missing: list[str] = []
    for cell in by_python(cells):
        matched, absent = expected(plan, cell, [path for path in left if _fits(plan, cell, path)])
        lower = (other.id for other in by_python(cells) if other.id in found and differ_in_python_only(other, cell))
        builder = next((name for name in lower if serves([path.name for path in found[name]], cell)), "")
        if absent and builder:
            served.setdefault(builder, []).append(cell)
            continue
        left = [path for path in left if path not in matched]
        found |= {} if absent else {cell.id: matched}
        missing += [f"{plan.recipe} {cell.id}: a wheel is missing: {what}" for what in absent]
    return found, served, missing, [*left, *(path for path in wheels if not is_wheel_name(path.name))]


def expectation(plan: Plan, wheel: Path) -> ExpectedWheel | None:
    """Return what a plan expects of a wheel; None if no cell of it has one with this name."""
    device = device_promises(plan)
    cells = [cell for cell in (*plan.cells, *plan.cibuildwheel_cells) if cell.built_by == cell.id]
    fitting = (cell for cell in by_python(cells) if is_wheel_name(wheel.name) and _fits(plan, cell, wheel))
    found = (promise_of(plan, cell, device.get(cell.id), wheel) for cell in fitting)
    return next((item for item in found if item), None)


def is_wheel_name(name: str) -> bool:
    """Whether a file with this name can be a wheel."""
    try:
        return bool(parse_wheel_name(name))
    except InvalidWheelFilename:
        return False


def _newest(wheel: Path) -> tuple[Version, float]:
    """Return the key that puts the newest of the wheels of a cell last: by version, then by the time of the file."""
    return parse_wheel_name(wheel.name)[1], wheel.stat().st_mtime if wheel.is_file() else 0.0


def _beside(wheel: Path, planned: Iterable[Path]) -> str:
    """Return which planned wheel has the place of another one, for its message; empty for none."""
    others = (path.name for path in planned if _place(path) == _place(wheel))
    return next((f"; {other} is in its place: remove it if an earlier run left it" for other in others), "")


def _place(wheel: Path) -> object:
    project, _, _, tags = parse_wheel_name(wheel.name)
    return project, frozenset((tag.interpreter, tag.abi, parse_platform(tag.platform).arch) for tag in tags)


def _recorded_faults(wheel: Path, cells: Sequence[Cell]) -> Sequence[str]:
    """Return the faults that the provenance of a wheel tells: a source that changed while it was built, untested cells.

    A wheel for several cells must be tested by each.

    Without a provenance nobody knows.
    """
    if not wheel.is_file() or not provenance_of(wheel, file_sha256(wheel)):
        return ()
    try:
        provenance = read(wheel)
    except UnavailableError as error:
        return (error.message,)
    tested, faults = (provenance.cell, *provenance.also_serves), []
    if cells[1:] and (names := [cell.id for cell in cells if cell.id not in tested]):
        key = "wheel.abi3 or wheel.py3"
        faults.append(f"was not tested for {', '.join(names)}; set {key}, so that one job builds and tests it for all")
    if names := provenance.changed_while_built:
        what = "its source changed while it was built, so nobody knows what is in it"
        faults.append(f"{what}: {listed(sorted(names))}; build it again")
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
    audit, values = plan.of(cell).audit, plan.values_of_wheel(cell)
    names = {canonicalize_name(substitute(naming.name, values)) or audit.name for naming in audit.namings}
    if audit.name and (name not in names or version.public != audit.version.partition("+")[0]):
        return False
    abis = installable_abis(cell.axes["python"])
    return any((tag.interpreter, tag.abi) in abis and _is_of(tag.platform, cell) for tag in tags)


def _is_of(tag: str, cell: Cell) -> bool:
    """Whether wheels with a platform tag run on the platform and the C library of a cell."""
    parsed = parse_platform(tag)
    return parsed.system == "any" or ((parsed.system == "musllinux") == cell.is_musl and parsed.is_for(cell.platform))
