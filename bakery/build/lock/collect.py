"""The materials of cells on this machine: their ``materials`` targets are built and read. Nothing is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bakery.build.lock.differences import differences
from bakery.build.lock.failure import failure
from bakery.build.lock.is_current import UPDATE_HINT, shorten_lines
from bakery.build.lock.materials import Materials, read
from bakery.build.lock.pins import pins_of
from bakery.build.run_folders import run_folder
from bakery.build.session import BuildSession, Pins
from bakery.build.single_bake import bake_once
from bakery.core.errors import LockError
from bakery.core.image_names import familiar
from bakery.core.names import Kind
from bakery.engine import image_digests
from bakery.plan.cells import Cell, Target
from bakery.plan.dockerfile import Add
from bakery.plan.model import Plan


def check_materials(session: BuildSession, cells: Sequence[Cell], locked: Mapping[str, Materials]) -> None:
    """Make sure that cells use exactly the materials that are locked. Nothing is compiled.

    Raises:
        LockError: they do not; ``details`` lists the differences.
    """
    targets = materials_targets(session.plan, cells)
    materials = collect(session, targets, pins_of(session, targets, locked, strict=True))
    if lines := differences(locked, materials):
        dates = ", ".join(f"{suite} of {date}" for suite, date in next(iter(locked.values())).suites.items())
        snapshot = f"; Debian packages were locked from {dates}: use a snapshot archive of that day" if dates else ""
        raise LockError(
            f"the materials on this machine differ from {session.plan.lock}",
            details=shorten_lines(lines),
            hint=UPDATE_HINT + snapshot,
        )


def materials_targets(plan: Plan, cells: Iterable[Cell]) -> tuple[Target, ...]:
    """Return the targets that list the materials of cells."""
    ids = {cell.id for cell in cells}
    return tuple(item for item in plan.targets() if item.kind is Kind.MATERIALS and item.cell.id in ids)


def collect(session: BuildSession, targets: Sequence[Target], pins: Pins) -> dict[str, Materials]:
    """Build the materials targets of cells and return cell → materials.

    Raises:
        BakeError: a step failed.
    """
    with run_folder(session.root) as folder:
        request = session.request(targets, folder, pins)
        request = replace(
            request,
            environment={**request.environment, **image_digests.PROVENANCE},
            overrides=(*request.overrides, *pins.overrides_of(targets)),
        )
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
            exported = read(request.stage / "materials" / target.cell.id)
            materials[target.cell.id] = replace(exported, images=images, sources=_sources(session.plan, sources))
        return materials


def _sources(plan: Plan, commits: Mapping[str, str]) -> dict[str, str]:
    """Return address → commit of the sources that a plan names."""
    addresses = {
        "".join(part for part in step.source if isinstance(part, str))
        for stage in plan.stages
        for step in stage.steps
        if isinstance(step, Add)
    }
    return {address: commit for address, commit in commits.items() if address in addresses}
