"""Moves compiler caches between an engine and a folder, such as one that a CI restores on its next machine."""

from __future__ import annotations

import stat
import tarfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bakery.core.errors import BakeError, InterruptedBake, OutputError
from bakery.core.files import write_file
from bakery.core.names import CARRIED, CARRIED_AT, Kind
from bakery.plan.cells import Cell, Target
from bakery.plan.model import Plan
from bakery.runs.bake_session import BakeSession, Pins, bake_once
from bakery.runs.buildx.bake_outcome import BakeFailure
from bakery.runs.run_folders import refuse_links
from bakery.runs.stores.store import StoreError
from wheel_audit.plain_files import open_plain

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


@dataclass(frozen=True, slots=True)
class FolderCache:
    """The compiler caches of a run, kept in a folder. ``run_folder`` is that of the bakes that copy them."""

    session: BakeSession
    pins: Pins
    targets: Sequence[Target]
    run_folder: Path
    folder: Path
    say: Callable[[str], None]

    def restore(self) -> None:
        """Restore the caches from the folder; a failure is only shown."""
        attempt(
            "restored", self.say, lambda: restore(self.session, self.pins, self.targets, self.folder, self.run_folder)
        )

    def save(self, _cells: Collection[str]) -> None:
        """Save the caches to the folder, whatever the result of the run; a failure is only shown."""
        attempt("saved", self.say, lambda: save(self.session, self.pins, self.targets, self.folder, self.run_folder))


def attempt(what: str, say: Callable[[str], None], move: Callable[[], None]) -> None:
    """Move a compiler cache; show why that failed. Raises InterruptedBake."""
    try:
        move()
    except InterruptedBake:
        raise
    except (BakeError, OutputError, StoreError) as error:
        say(f"the compiler cache was not {what}: {error.message}")
    except (OSError, tarfile.TarError) as error:
        say(f"the compiler cache was not {what}: {error}")


def restore(session: BakeSession, pins: Pins, targets: Sequence[Target], folder: Path, run_folder: Path) -> None:
    """Copy the caches in the folder to the engine; existing entries stay. Raises BakeError or OutputError."""
    refuse_links(session.root, folder, below=True)
    saved = [target for target in targets if (_platform_folder(folder, target) / CACHE_FILE).is_file()]
    if saved:
        folders = {item.name: _platform_folder(folder, item) for item in saved}
        carry(session, pins, saved, run_folder / "restored", folders)


def save(session: BakeSession, pins: Pins, targets: Sequence[Target], folder: Path, run_folder: Path) -> None:
    """Write the engine's caches to the folder; files are renamed when complete. Raises BakeError or OutputError."""
    if not targets:
        return
    refuse_links(session.root, folder, below=True)
    stage = carry(session, pins, targets, run_folder / "saved", {})
    try:
        for target in targets:
            exported = stage / target.cell.id / CACHE_FILE
            # A container may export a link or a device with this name.
            if stat.S_ISREG(exported.lstat().st_mode):
                destination = _platform_folder(folder, target)
                destination.mkdir(parents=True, exist_ok=True)
                # Not moved: the exporter gives all files one time, and BuildKit takes a file of the same size and time for
                # one that it received before, also from another folder.
                with open_plain(exported) as file:
                    write_file(destination / CACHE_FILE, file, 0o644)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error}") from error


def _platform_folder(folder: Path, target: Target) -> Path:
    return folder / target.cell.platform.replace("/", "_")


def carry(
    session: BakeSession, pins: Pins, targets: Sequence[Target], run_folder: Path, packed: Mapping[str, Path]
) -> Path:
    """Run ``carry-ccache`` for targets, with a folder of files for some; return the folder of its results.

    Each target has a folder with the id of its cell there. Raises BakeError or OutputError.
    """
    request = session.request(targets, run_folder, pins)
    now = time.time_ns()
    # The value is new each time, so that BuildKit runs the step.
    stamps = [f"{target.name}.args.{CARRIED_AT}={now}" for target in targets]
    folders = {name: path.absolute() for name, path in packed.items()}
    contexts = [f"{name}.contexts.{CARRIED}={path}" for name, path in folders.items()]
    request = replace(
        request,
        overrides=(*request.overrides, *pins.overrides_of(targets), *stamps, *contexts),
        no_cache=False,
        reads=(*request.reads, *folders.values()),
    )
    outcome = bake_once(request, session.listener)
    if outcome.failures:
        raise BakeFailure(outcome)
    return request.stage / "compiler-cache"
