"""A new lock, or the one that is there brought up to date."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from bakery.errors import UsageError
from bakery.lock import document, hand
from bakery.lock.differences import differences
from bakery.lock.materials import Materials, Packages
from bakery.locker.bench import Bench, Pins, file_of
from bakery.locker.fit import check_origins, locked_images
from bakery.locker.hold import images_of, other_than
from bakery.locker.tell import targets_of, tell
from bakery.plan import Cell, Plan
from bakery.problems import nearest


@dataclass(frozen=True, slots=True)
class Locked:
    """A lock that was made.

    Attributes:
        text: the file.
        changes: what differs from the one before; all of it, where there was none.
        kept: there was one before.
    """

    text: str
    changes: tuple[str, ...]
    kept: bool


def make(bench: Bench, cells: Sequence[Cell], upgrade: Collection[str]) -> Locked:
    """Look up what cells are made of, keeping what the lock that is there says as far as it fits.

    Args:
        cells: the others keep what is locked for them.
        upgrade: distributions and base images that are not kept.

    Raises:
        UsageError: what is to be upgraded is in no lock.
        LockError: the lock that is there is damaged.
        BakeError: a step failed: a requirement cannot be satisfied, for one.
    """
    plan = bench.plan
    before = document.read(file_of(bench.root, plan), plan.lock)
    locked = document.cells(before) if before else {}
    names = _upgraded(plan, locked, upgrade)
    check_origins(bench.root, plan, cells, _without(locked, names))
    none = Materials()
    # Content that no run had before: the index is asked again, whatever the engine remembers.
    stamp = f"{time.time_ns()}"
    targets = targets_of(plan, cells)
    keep = {
        (image.ref, image.platform): digest
        for cell in cells
        for image in cell.images
        if image.ref not in upgrade
        and (digest := locked_images(locked).get((image.ref, image.platform)))
        and other_than(bench, image, digest) is None
    }
    with tempfile.TemporaryDirectory(prefix="bakery-lock-") as place:
        folder = Path(place)
        for cell in cells:
            hand.preferred(folder / cell.id, plan, locked.get(cell.id, none), names, stamp)
        overrides = {
            target.name: (
                *images_of(bench, target, keep),
                f"{target.name}.contexts.{hand.CONTEXT}={folder / target.cell.id}",
            )
            for target in targets
        }
        found = tell(bench, targets, Pins(overrides, reads=(folder,)))
    others = {cell.id: locked[cell.id] for cell in plan.cells if cell.id in locked and cell.id not in found}
    made = {cell.id: {**others, **found}[cell.id] for cell in plan.cells if cell.id in {**others, **found}}
    changes = differences({cell: locked.get(cell, none) for cell in found}, found) if before else []
    return Locked(document.text(document.lock_of(plan.recipe, made)), tuple(changes), before is not None)


def _without(locked: Mapping[str, Materials], names: Collection[str]) -> dict[str, Materials]:
    """Return what is locked, without some distributions."""

    def of(packages: Packages) -> Packages:
        return replace(packages, files={key: file for key, file in packages.files.items() if file.name not in names})

    return {
        cell: replace(own, packages={place: of(packages) for place, packages in own.packages.items()})
        for cell, own in locked.items()
    }


def _upgraded(plan: Plan, locked: Mapping[str, Materials], upgrade: Collection[str]) -> set[str]:
    """Return the distributions among what is to be upgraded, their names normalised."""
    files = (file for own in locked.values() for item in own.packages.values() for file in item.files.values())
    distributions = {file.name for file in files}
    images = {ref for ref, _ in locked_images(locked)}
    names = {canonicalize_name(name): name for name in upgrade if name not in images}
    unknown = [name for key, name in names.items() if key not in distributions]
    if unknown:
        near = [close for name in unknown if (close := nearest(name, {*distributions, *images}))]
        raise UsageError(
            f"--upgrade: {plan.lock} has no {', '.join(unknown)}",
            hint=f"did you mean {' or '.join(near)}?"
            if near
            else "it names a distribution or a base image of the lock",
        )
    return set(names)
