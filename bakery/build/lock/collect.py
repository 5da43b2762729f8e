"""What cells are made of here: their materials are built and read. Nothing is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bakery.build.buildx.bake import BakeRequest
from bakery.build.lock.differences import differences
from bakery.build.lock.failure import failure
from bakery.build.lock.is_current import AGAIN, shown
from bakery.build.lock.materials import Materials, read
from bakery.build.lock.pins import pins
from bakery.build.lock.session import Bench, Pins
from bakery.build.run_files import write_run_files
from bakery.build.run_folders import run_folder
from bakery.build.single_bake import bake_aside
from bakery.core.errors import LockError
from bakery.core.image_names import familiar
from bakery.core.names import Kind
from bakery.engine import image_digests
from bakery.engine.cache_scope import cache_scope
from bakery.plan.cells import Cell, Target
from bakery.plan.dockerfile import Add
from bakery.plan.model import Plan


def compare(bench: Bench, cells: Sequence[Cell], locked: Mapping[str, Materials]) -> None:
    """Make sure that cells are made here of exactly what is locked. Nothing is compiled.

    Raises:
        LockError: they are not; ``details`` says what differs.
    """
    targets = targets_of(bench.plan, cells)
    found = tell(bench, targets, pins(bench, targets, locked, strict=True))
    told = differences(locked, found)
    if told:
        dated = ", ".join(f"{suite} of {date}" for suite, date in next(iter(locked.values())).suites.items())
        more = (
            f"; packages of Debian were locked from {dated}: a snapshot archive of that day has them" if dated else ""
        )
        raise LockError(f"what is here is not what {bench.plan.lock} says", details=shown(told), hint=AGAIN + more)


def targets_of(plan: Plan, cells: Iterable[Cell]) -> tuple[Target, ...]:
    """Return the targets that tell what cells are made of."""
    wanted = {cell.id for cell in cells}
    return tuple(item for item in plan.targets() if item.kind is Kind.MATERIALS and item.cell.id in wanted)


def tell(bench: Bench, targets: Sequence[Target], held: Pins) -> dict[str, Materials]:
    """Build the materials of cells and return what they are: cell → materials.

    Raises:
        BakeError: a step failed.
    """
    with run_folder(bench.root) as state:
        place = state.relative_to(bench.root)
        own = replace(bench.plan, dockerfile=str(place / "Dockerfile"), bakefile=str(place / "bake.hcl"))
        programs = write_run_files(bench.root, own, state)
        request = BakeRequest(
            root=bench.root,
            bakefile=Path(own.bakefile),
            targets=tuple(targets),
            environment={**bench.environment, **held.environment, **image_digests.PROVENANCE},
            variables={**bench.plan.values(), "DEST": str(state / "stage"), **bench.variables},
            state=state,
            scope=cache_scope(bench.environment, bench.root, bench.plan.recipe),
            overrides=(
                *map(str, bench.plan.overrides),
                *(item for own in held.overrides.values() for item in own),
                programs,
            ),
            builder=bench.builder,
            no_cache=bench.no_cache,
            reads=(*bench.reads, *held.reads),
            mask=bench.mask,
        )
        outcome = bake_aside(request, bench.listener)
        if outcome.failures:
            raise failure(outcome, bench.plan.lock if held.locked else "")
        found = {}
        for target in targets:
            images, sources = image_digests.used(outcome.targets[target.name].metadata)
            own_images = {
                (image.ref, image.platform): images[name]
                for image in target.cell.images
                if (name := familiar(bench.name(image))) in images
            }
            made = read(request.stage / "materials" / target.cell.id)
            found[target.cell.id] = replace(made, images=own_images, sources=_of_plan(bench.plan, sources))
        return found


def _of_plan(plan: Plan, sources: Mapping[str, str]) -> dict[str, str]:
    """Return the commits of the sources that a plan names."""
    named = {
        "".join(part for part in step.source if isinstance(part, str))
        for stage in plan.stages
        for step in stage.steps
        if isinstance(step, Add)
    }
    return {address: commit for address, commit in sources.items() if address in named}
