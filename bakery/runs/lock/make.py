"""Collect the materials of cells, and make or update a lock. Nothing is compiled."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from bakery.core.errors import LockError, UsageError
from bakery.core.image_names import familiar
from bakery.core.target_kinds import Kind
from bakery.engine import image_digests
from bakery.plan.cells import Cell, Target
from bakery.plan.dockerfile import Add
from bakery.plan.model import Plan
from bakery.recipe.problems import nearest
from bakery.runs.bake_session import BakeSession, Pins, bake_once
from bakery.runs.lock import lock_file
from bakery.runs.lock.differences import differences
from bakery.runs.lock.failure import failure
from bakery.runs.lock.is_current import SHOWN, UPDATE_HINT, check_origins, locked_images
from bakery.runs.lock.model import Materials, Packages, read_materials
from bakery.runs.lock.pins import image_overrides, lock_contexts, pins_of, replacement, write_preferred
from bakery.runs.run_folders import run_folder
from wheel_audit.text import first_lines


def check_materials(session: BakeSession, cells: Sequence[Cell], locked: Mapping[str, Materials]) -> None:
    """Check that cells use exactly the locked materials. Raises LockError with the differences as ``details``."""
    targets = materials_targets(session.plan, cells)
    materials = collect(session, targets, pins_of(session, targets, locked, strict=True))
    if lines := differences(locked, materials):
        dates = ", ".join(f"{suite} of {date}" for suite, date in next(iter(locked.values())).suites.items())
        snapshot = f"; Debian packages were locked from {dates}: use a snapshot archive of that day" if dates else ""
        raise LockError(
            f"the materials on this machine differ from {session.plan.lock}",
            details=first_lines(lines, SHOWN),
            hint=UPDATE_HINT + snapshot,
        )


def materials_targets(plan: Plan, cells: Iterable[Cell]) -> tuple[Target, ...]:
    """Return the targets that list the materials of cells."""
    ids = {cell.id for cell in cells}
    return tuple(item for item in plan.targets() if item.kind is Kind.MATERIALS and item.cell.id in ids)


def collect(session: BakeSession, targets: Sequence[Target], pins: Pins) -> dict[str, Materials]:
    """Build the materials targets of cells and return cell → materials. Raises BakeError if a step failed."""
    with run_folder(session.state_folder) as folder:
        request = session.request(targets, folder, pins)
        request = replace(request, overrides=(*request.overrides, *pins.overrides_of(targets)))
        outcome = bake_once(request, session.listener)
        if outcome.failures:
            raise failure(outcome, session.plan.lock if pins.locked else "")
        materials = {}
        for target in targets:
            digests, sources = image_digests.used(outcome.targets[target.name].metadata)
            images = {
                (image.ref, image.platform): digests[name]
                for image in target.cell.images
                if (name := familiar(session.image_name(image))) in digests
            }
            exported = read_materials(request.stage / "materials" / target.cell.id)
            materials[target.cell.id] = replace(exported, images=images, sources=_sources(session.plan, sources))
        return materials


def _sources(plan: Plan, commits: Mapping[str, str]) -> dict[str, str]:
    """Return address → commit of the sources in a plan."""
    addresses = {
        "".join(part for part in step.source if isinstance(part, str))
        for stage in plan.stages
        for step in stage.steps
        if isinstance(step, Add)
    }
    return {address: commit for address, commit in commits.items() if address in addresses}


@dataclass(frozen=True, slots=True)
class NewLock:
    """A new lock file, and its differences from the previous one."""

    text: str
    changes: tuple[str, ...]


def make(session: BakeSession, cells: Sequence[Cell], upgrade: Collection[str]) -> NewLock:
    """Look up the materials of cells, and keep fitting entries of the existing lock; other cells keep their entries.

    ``upgrade``: distributions and base images that are not kept. Raises UsageError if the lock has no such name,
    LockError if it is damaged, and BakeError if a step failed, for example because a requirement cannot be satisfied.
    """
    plan = session.plan
    previous = lock_file.read(session.root / plan.lock, plan.lock)
    locked = lock_file.cells(previous) if previous else {}
    names = _distributions(plan, locked, upgrade)
    check_origins(session.root, plan, cells, _without(locked, names))
    none = Materials()
    # A new context each time, so that the index is asked again, whatever the engine has cached.
    stamp = f"{time.time_ns()}"
    targets = materials_targets(plan, cells)
    digests = {
        (image.ref, image.platform): digest
        for cell in cells
        for image in cell.images
        if image.ref not in upgrade
        and (digest := locked_images(locked).get((image.ref, image.platform)))
        and replacement(session, image, digest) is None
    }
    with tempfile.TemporaryDirectory(prefix="bakery-lock-") as temporary:
        folder = Path(temporary)
        for cell in cells:
            write_preferred(folder / cell.id, plan, locked.get(cell.id, none), names, stamp)
        overrides = {
            target.name: (
                *image_overrides(session, target, digests),
                *lock_contexts(plan, target, folder),
            )
            for target in targets
        }
        collected = collect(session, targets, Pins(overrides, reads=(folder,)))
    kept = {cell.id: locked[cell.id] for cell in plan.cells if cell.id in locked and cell.id not in collected}
    _check_shared(plan, kept, collected)
    entries = {**{cell: _with_shared(item, collected.values()) for cell, item in kept.items()}, **collected}
    lock = lock_file.lock_of(plan.recipe, {cell.id: entries[cell.id] for cell in plan.cells if cell.id in entries})
    changes = differences({cell: locked.get(cell, none) for cell in collected}, collected) if previous else []
    return NewLock(lock_file.text(lock), tuple(changes))


def _check_shared(plan: Plan, kept: Mapping[str, Materials], collected: Mapping[str, Materials]) -> None:
    """Check that cells which keep their entries use no image and no source that changed. Raises LockError.

    Their packages are those of the image and of the source as they were locked.
    """
    used = {(image.ref, image.platform) for cell in plan.cells if cell.id in kept for image in cell.images}
    lines = set()
    for before in kept.values():
        for item in collected.values():
            lines |= {
                f"base image {ref} ({platform}): {digest} is locked, and here it is {item.images[ref, platform]}"
                for (ref, platform), digest in before.images.items()
                if (ref, platform) in used and item.images.get((ref, platform), digest) != digest
            }
            lines |= {
                f"source {address}: {commit} is locked, and here it is {item.sources[address]}"
                for address, commit in before.sources.items()
                if item.sources.get(address, commit) != commit
            }
    if lines:
        raise LockError(
            f"other cells of {plan.lock} use what changed: {', '.join(kept)}",
            details=first_lines(sorted(lines), SHOWN),
            hint="lock all cells: leave out --only and --skip",
        )


def _with_shared(item: Materials, collected: Iterable[Materials]) -> Materials:
    """Return the locked materials of a cell with what others have now of all that cells share."""
    for other in collected:
        item = replace(
            item,
            images={**item.images, **other.images},
            sources={**item.sources, **other.sources},
            suites={**item.suites, **other.suites},
        )
    return item


def _without(locked: Mapping[str, Materials], names: Collection[str]) -> dict[str, Materials]:
    """Return locked materials without some distributions."""

    def of(packages: Packages) -> Packages:
        return replace(packages, files={key: file for key, file in packages.files.items() if file.name not in names})

    return {
        cell: replace(item, packages={place: of(packages) for place, packages in item.packages.items()})
        for cell, item in locked.items()
    }


def _distributions(plan: Plan, locked: Mapping[str, Materials], upgrade: Collection[str]) -> set[str]:
    """Return the normalised names of the distributions in ``upgrade``; the other names are base images."""
    files = (
        file for item in locked.values() for packages in item.packages.values() for file in packages.files.values()
    )
    distributions = {file.name for file in files}
    images = {ref for ref, _ in locked_images(locked)}
    names = {canonicalize_name(name): name for name in upgrade if name not in images}
    unknown = [name for key, name in names.items() if key not in distributions]
    if unknown:
        near = [close for name in unknown if (close := nearest(name, {*distributions, *images}))]
        hint = f"did you mean {' or '.join(near)}?" if near else "name a distribution or a base image of the lock"
        raise UsageError(f"--upgrade: {plan.lock} has no {', '.join(unknown)}", hint=hint)
    return set(names)
