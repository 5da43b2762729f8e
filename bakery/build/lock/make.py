"""Make a lock, or update the one that exists."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from bakery.build.lock import build_context, lock_file
from bakery.build.lock.collect import collect, materials_targets
from bakery.build.lock.differences import differences
from bakery.build.lock.is_current import check_origins, locked_images
from bakery.build.lock.materials import Materials, Packages
from bakery.build.lock.pins import image_overrides, replacement
from bakery.build.session import BuildSession, Pins
from bakery.core.errors import UsageError
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.recipe.problems import nearest


@dataclass(frozen=True, slots=True)
class NewLock:
    """A lock that was made.

    Attributes:
        text: the file.
        changes: the differences from the previous lock; empty where there was none.
        is_update: there was a previous lock.
    """

    text: str
    changes: tuple[str, ...]
    is_update: bool


def make(session: BuildSession, cells: Sequence[Cell], upgrade: Collection[str]) -> NewLock:
    """Look up the materials of cells, and keep what the existing lock holds as far as it still fits.

    Args:
        cells: other cells keep their entries.
        upgrade: distributions and base images that are not kept.

    Raises:
        UsageError: the lock has no entry for a name in ``upgrade``.
        LockError: the existing lock is damaged.
        BakeError: a step failed, for example because a requirement cannot be satisfied.
    """
    plan = session.plan
    previous = lock_file.read(session.root / plan.lock, plan.lock)
    locked = lock_file.cells(previous) if previous else {}
    names = _distributions(plan, locked, upgrade)
    check_origins(session.root, plan, cells, _without(locked, names))
    none = Materials()
    # The contexts differ from those of every other run, so the index is asked again, whatever the engine has cached.
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
            build_context.preferred(folder / cell.id, plan, locked.get(cell.id, none), names, stamp)
        overrides = {
            target.name: (
                *image_overrides(session, target, digests),
                f"{target.name}.contexts.{build_context.CONTEXT}={folder / target.cell.id}",
            )
            for target in targets
        }
        collected = collect(session, targets, Pins(overrides, reads=(folder,)))
    entries = {**locked, **collected}
    lock = lock_file.lock_of(plan.recipe, {cell.id: entries[cell.id] for cell in plan.cells if cell.id in entries})
    changes = differences({cell: locked.get(cell, none) for cell in collected}, collected) if previous else []
    return NewLock(lock_file.text(lock), tuple(changes), previous is not None)


def _without(locked: Mapping[str, Materials], names: Collection[str]) -> dict[str, Materials]:
    """Return what is locked, without some distributions."""

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
