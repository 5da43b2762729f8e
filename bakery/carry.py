"""The compiler cache, carried between an engine and a folder that a later machine is given."""

from __future__ import annotations

import shutil
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from bakery.aside import bake_aside
from bakery.drive.bake import BakeRequest
from bakery.drive.outcome import BakeFailure
from bakery.drive.runs import refuse_links
from bakery.drive.scope import cache_scope
from bakery.emit.files import generate
from bakery.errors import OutputError
from bakery.files import write
from bakery.locker.bench import Bench, Pins
from bakery.names import CARRIED, CARRIED_AT, Kind
from bakery.plan import Cell, Plan, Target

FILE = "ccache.tar"
"""What a folder holds for each platform."""


def carriers(plan: Plan, cells: Iterable[Cell]) -> tuple[Target, ...]:
    """Return the targets that carry the cache of each platform: the first cell's of those that are baked."""
    first: dict[str, str] = {}
    for cell in cells:
        first.setdefault(cell.platform, cell.id)
    return tuple(
        target
        for target in plan.targets()
        if target.kind is Kind.COMPILER_CACHE and target.cell.id == first.get(target.cell.platform)
    )


def take_in(bench: Bench, held: Pins, targets: Sequence[Target], folder: Path, state: Path) -> None:
    """Give the engine what the folder has; what the engine has already stays.

    Raises:
        BakeFailure: a step failed.
        InterruptedBake: a signal ended it.
        OutputError: a link of the checkout takes the folder's place.
    """
    refuse_links(bench.root, folder, below=True)
    known = [target for target in targets if (_place(folder, target) / FILE).is_file()]
    if known:
        given = [f"{target.name}.contexts.{CARRIED}={_place(folder, target).absolute()}" for target in known]
        _bake(bench, held, known, state / "taken-in", given, (folder.absolute(),))


def pack(bench: Bench, held: Pins, targets: Sequence[Target], folder: Path, state: Path) -> None:
    """Write what the engine has into the folder; a file is whole before it has its name.

    Raises:
        BakeFailure: a step failed.
        InterruptedBake: a signal ended it.
        OutputError: the folder cannot be written.
    """
    if not targets:
        return
    refuse_links(bench.root, folder, below=True)
    request = _bake(bench, held, targets, state / "packed")
    try:
        for target in targets:
            made = request.stage / "compiler-cache" / target.cell.id / FILE
            # What comes out of a container is data.
            if stat.S_ISREG(made.lstat().st_mode):
                place = _place(folder, target)
                place.mkdir(parents=True, exist_ok=True)
                new = place / f".{FILE}.new"
                shutil.move(made, new)
                new.chmod(0o644)
                new.replace(place / FILE)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error}") from error


def _place(folder: Path, target: Target) -> Path:
    return folder / target.cell.platform.replace("/", "_")


def _bake(
    bench: Bench,
    held: Pins,
    targets: Sequence[Target],
    state: Path,
    overrides: Sequence[str] = (),
    reads: tuple[Path, ...] = (),
) -> BakeRequest:
    place = state.relative_to(bench.root)
    own = replace(bench.plan, dockerfile=str(place / "Dockerfile"), bakefile=str(place / "bake.hcl"))
    write(bench.root, generate(own))
    now = time.time_ns()
    again = [f"{target.name}.args.{CARRIED_AT}={now}" for target in targets]
    pinned = [item for target in targets for item in held.overrides.get(target.name, ())]
    request = BakeRequest(
        root=bench.root,
        bakefile=Path(own.bakefile),
        targets=tuple(targets),
        environment={**bench.environment, **held.environment},
        variables={**bench.plan.values(), "DEST": str(state / "stage"), **bench.variables},
        state=state,
        scope=cache_scope(bench.environment, bench.root, bench.plan.recipe),
        overrides=(*map(str, bench.plan.overrides), *pinned, *again, *overrides),
        builder=bench.builder,
        reads=(*bench.reads, *held.reads, *reads),
        mask=bench.mask,
    )
    outcome = bake_aside(request, bench.listener)
    if outcome.failures:
        raise BakeFailure(outcome)
    return request
