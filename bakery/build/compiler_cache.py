"""Moves compiler caches between an engine and a folder, such as one that a CI restores on its next machine."""

from __future__ import annotations

import contextlib
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bakery.build.buildx.bake import BakeRequest
from bakery.build.buildx.outcome import BakeFailure
from bakery.build.run_folders import refuse_links
from bakery.build.session import BuildSession, Pins, bake_once
from bakery.core.errors import BakeError, InterruptedBake, OutputError
from bakery.core.names import CARRIED, CARRIED_AT, Kind
from bakery.plan.cells import Cell, Target
from bakery.plan.model import Plan

CACHE_FILE = "ccache.tar"


def compiler_cache_targets(plan: Plan, cells: Iterable[Cell]) -> tuple[Target, ...]:
    """Return one compiler-cache target for each platform: that of its first cell."""
    first: dict[str, str] = {}
    for cell in cells:
        first.setdefault(cell.platform, cell.id)
    return tuple(
        target
        for target in plan.targets()
        if target.kind is Kind.COMPILER_CACHE and target.cell.id == first.get(target.cell.platform)
    )


@contextlib.contextmanager
def restored(
    session: BuildSession,
    pins: Pins,
    targets: Sequence[Target],
    folder: Path,
    run_folder: Path,
    say: Callable[[str], None],
) -> Iterator[None]:
    """Restore compiler caches before a run and save them after it, whatever its result; failures are only shown."""
    for move in (restore, save):
        try:
            move(session, pins, targets, folder, run_folder / "compiler-cache")
        except InterruptedBake:
            raise
        except (BakeError, OutputError) as error:
            say(f"the compiler cache was not {'restored' if move is restore else 'saved'}: {error.message}")
        if move is restore:
            yield


def restore(session: BuildSession, pins: Pins, targets: Sequence[Target], folder: Path, run_folder: Path) -> None:
    """Copy the caches in the folder to the engine; existing entries stay. Raises BakeError or OutputError."""
    refuse_links(session.root, folder, below=True)
    saved = [target for target in targets if (_platform_folder(folder, target) / CACHE_FILE).is_file()]
    if saved:
        contexts = [f"{item.name}.contexts.{CARRIED}={_platform_folder(folder, item).absolute()}" for item in saved]
        _bake(session, pins, saved, run_folder / "restored", contexts, (folder.absolute(),))


def save(session: BuildSession, pins: Pins, targets: Sequence[Target], folder: Path, run_folder: Path) -> None:
    """Write the engine's caches to the folder; files are renamed when complete. Raises BakeError or OutputError."""
    if not targets:
        return
    refuse_links(session.root, folder, below=True)
    request = _bake(session, pins, targets, run_folder / "saved")
    try:
        for target in targets:
            exported = request.stage / "compiler-cache" / target.cell.id / CACHE_FILE
            # A container may export a link or a device with this name.
            if stat.S_ISREG(exported.lstat().st_mode):
                destination = _platform_folder(folder, target)
                destination.mkdir(parents=True, exist_ok=True)
                temporary = destination / f".{CACHE_FILE}.new"
                shutil.move(exported, temporary)
                temporary.chmod(0o644)
                temporary.replace(destination / CACHE_FILE)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error}") from error


def _platform_folder(folder: Path, target: Target) -> Path:
    return folder / target.cell.platform.replace("/", "_")


def _bake(
    session: BuildSession,
    pins: Pins,
    targets: Sequence[Target],
    run_folder: Path,
    overrides: Sequence[str] = (),
    reads: tuple[Path, ...] = (),
) -> BakeRequest:
    request = session.request(targets, run_folder, pins)
    now = time.time_ns()
    # The value is new each time, so that BuildKit runs the step.
    stamps = [f"{target.name}.args.{CARRIED_AT}={now}" for target in targets]
    request = replace(
        request,
        overrides=(*request.overrides, *pins.overrides_of(targets), *stamps, *overrides),
        no_cache=False,
        reads=(*request.reads, *reads),
    )
    outcome = bake_once(request, session.listener)
    if outcome.failures:
        raise BakeFailure(outcome)
    return request
