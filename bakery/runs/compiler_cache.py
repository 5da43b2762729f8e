"""Moves compiler caches between an engine and a folder, such as one that a CI restores on its next machine, or a store.

Build steps never talk to the store: before a run, Bakery copies the objects of earlier runs into the engine, and after it
those that are new to the store. The keys of a store begin with the scope of the recipe's cache mounts, which
``BAKERY_CACHE_KEY`` and the recipe's name determine:

- ``SCOPE/PLATFORM/objects/NAME``: what a compiler made, with the name of its file in the compiler cache;
- ``SCOPE/PLATFORM/cells/CELL``: the digest of the list of objects that the cell's last compile used;
- ``SCOPE/PLATFORM/lists/DIGEST``: such a list, with a line ``SIZE NAME`` for each object.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import stat
import tarfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO, TypeVar

from bakery.core.connections import Deadline
from bakery.core.errors import BakeError, InterruptedBake, OutputError
from bakery.core.files import tar_members, write_file
from bakery.core.target_kinds import CARRIED, CARRIED_AT, Kind
from bakery.plan.cells import Cell, Target
from bakery.plan.model import Plan
from bakery.runs.bake_session import BakeSession, Pins, bake_once
from bakery.runs.buildx.failures import BakeFailure
from bakery.runs.run_folders import refuse_links
from bakery.runs.stores import MAX_OBJECT, Store, StoreError
from wheel_audit.plain_files import open_plain, read_plain

CACHE_FILE = "ccache.tar"


def compiler_cache_targets(plan: Plan, cells: Iterable[Cell]) -> tuple[Target, ...]:
    """Return one compiler-cache target for each platform: that of its first cell."""
    first: dict[str, str] = {}
    for cell in cells:
        first.setdefault(cell.platform, cell.id)
    targets = (target for target in plan.targets() if target.kind is Kind.COMPILER_CACHE)
    return tuple(target for target in targets if target.cell.id == first.get(target.cell.platform))


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
        """Restore the caches from the folder; existing entries stay. A failure is only shown."""
        attempt("restored", self.say, self._restore)

    def save(self, _cells: Collection[str]) -> None:
        """Save the caches to the folder, whatever the result of the run; a failure is only shown."""
        attempt("saved", self.say, self._save)

    def _restore(self) -> None:
        refuse_links(self.session.root, self.folder)
        saved = [target for target in self.targets if (self._of(target) / CACHE_FILE).is_file()]
        if saved:
            folders = {target.name: self._of(target) for target in saved}
            copy_caches(self.session, self.pins, saved, self.run_folder / "restored", folders)

    def _save(self) -> None:
        refuse_links(self.session.root, self.folder)
        stage = copy_caches(self.session, self.pins, self.targets, self.run_folder / "saved", {})
        try:
            for target in self.targets:
                exported = stage / target.cell.id / CACHE_FILE
                # A container may export a link or a device with this name.
                if stat.S_ISREG(exported.lstat().st_mode):
                    destination = self._of(target)
                    destination.mkdir(parents=True, exist_ok=True)
                    # Not moved: the exporter gives all files one time, and BuildKit takes a file of the same size and time for
                    # one that it received before, also from another folder.
                    with open_plain(exported) as file:
                        write_file(destination / CACHE_FILE, file, 0o644)
        except OSError as error:
            raise OutputError(f"cannot write {self.folder}: {error}") from error

    def _of(self, target: Target) -> Path:
        return self.folder / target.cell.platform.replace("/", "_")


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


def copy_caches(
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


_THREADS = 16
_MAX_LIST = 32 << 20
_MOST_OBJECTS = 500_000
"""Objects of all lists together; ccache's default of 5 GB holds fewer."""

_MOST_BYTES = 5 << 30
"""Bytes that are taken for a platform: as much as ccache keeps by default. More would push out itself."""

_IN_MEMORY = 64 << 20
"""Bytes of objects that are in memory at the same time, unless a single one is larger."""

_GROWN = 1 << 20
"""Bytes by which an object may have grown since it was listed."""

_WHOLE_S = 900.0
"""Seconds for restoring, and for saving. A cache that takes longer saves no time."""

_OBJECT = re.compile(r"^([0-9]{1,12}) ([0-9a-z](?:/[0-9A-Za-z_-][0-9A-Za-z._-]*)+)$", re.MULTILINE)
"""A line of a list. The store and the engine are not trusted; a folder of one character keeps ccache's own files out."""

_T = TypeVar("_T")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIGEST_SIZE = 64


@dataclass
class RemoteCache:
    """The compiler caches of a run, and the store that they come from and go to.

    Attributes:
        targets: a compiler-cache target for each platform.
        folder: of the run.
        since: platform → the engine's time when the cache was restored; those that could not be restored are not saved.
        known: platform → objects that the store has: name → size.
    """

    session: BakeSession
    pins: Pins
    targets: tuple[Target, ...]
    folder: Path
    store: Store
    say: Callable[[str], None]
    since: dict[str, str] = field(default_factory=dict)
    known: dict[str, dict[str, int]] = field(default_factory=dict)

    def restore(self) -> None:
        """Copy the objects of earlier runs into the engine; a failure is only shown."""
        attempt("restored", self.say, self._restore)

    def save(self, cells: Collection[str]) -> None:
        """Copy new objects to the store, and the list of what ``cells`` used; a failure is only shown."""
        targets = [target for target in self.targets if target.cell.platform in self.since]
        if targets and cells:
            attempt("saved", self.say, lambda: self._save(targets, cells))

    def _restore(self) -> None:
        began, whole = time.monotonic(), Deadline(_WHOLE_S)
        everything = _contents(self.folder / "everything", since="0")
        listing = dict.fromkeys((target.name for target in self.targets), everything)
        stage = copy_caches(self.session, self.pins, self.targets, self.folder / "listing", listing)
        missing: dict[str, Path] = {}
        count = size = 0
        for target in self.targets:
            exported, platform, listed = stage / target.cell.id, target.cell.platform, self._listed(target, whole)
            here = _objects(read_plain(exported / "objects", _MAX_LIST))
            now = read_plain(exported / "now", 32).decode().strip()
            wanted = sorted(set(listed) - set(here))
            folder = _contents(self.folder / "missing" / target.name)
            sizes = {name: listed[name] for name in wanted if listed[name] <= MAX_OBJECT}
            taken = self._download(target, sizes, folder / CACHE_FILE, int(now) - 60, whole)
            if taken:
                missing[target.name] = folder
            # What the store has lost is stored again.
            self.known[platform] = {name: size_ for name, size_ in listed.items() if name in taken or name in here}
            self.since[platform] = now
            count, size = count + len(taken), size + sum(taken.values())
        if missing:
            targets = [target for target in self.targets if target.name in missing]
            copy_caches(self.session, self.pins, targets, self.folder / "restoring", missing)
        self._tell("restored", count, size, began)

    def _save(self, targets: Sequence[Target], cells: Collection[str]) -> None:
        began, whole, count, size = time.monotonic(), Deadline(_WHOLE_S), 0, 0
        packed = {}
        for target in targets:
            known = "".join(f"{bytes_} {name}\n" for name, bytes_ in self.known[target.cell.platform].items())
            folder = self.folder / "known" / target.name
            packed[target.name] = _contents(folder, since=self.since[target.cell.platform], known=known)
        stage = copy_caches(self.session, self.pins, targets, self.folder / "saving", packed)
        for target in targets:
            exported = stage / target.cell.id
            used = _objects(read_plain(exported / "objects", _MAX_LIST))
            with open_plain(exported / CACHE_FILE) as file:
                stored = self._upload(target, file, whole)
            self._list(target, {name: used[name] for name in sorted(used)}, cells, whole)
            count, size = count + len(stored), size + sum(stored.values())
        self._tell("saved", count, size, began)

    def _tell(self, what: str, count: int, size: int, began: float) -> None:
        objects = f"{count} object{'s' * (count != 1)}"
        self.say(f"compiler cache: {objects} ({size / 1000:.1f} kB) {what} in {time.monotonic() - began:.1f} s")

    def _key(self, target: Target, *parts: str) -> str:
        return "/".join((self.session.scope, target.cell.platform.replace("/", "_"), *parts))

    def _object(self, target: Target, name: str) -> str:
        return self._key(target, "objects", name.replace("/", "_"))

    def _listed(self, target: Target, whole: Deadline) -> dict[str, int]:
        """Return the objects that the last compile of each cell of the platform used, with the largest size of each."""
        keys = [self._key(target, "cells", c.id) for c in self.session.plan.cells if c.platform == target.cell.platform]
        with ThreadPoolExecutor(_THREADS) as pool:
            digests = list(pool.map(lambda key: self.store.get(key, _DIGEST_SIZE, whole), keys))
        texts = {(data or b"").decode("ascii", "replace") for data in digests}
        found: dict[str, int] = {}
        # One after the other: all of them are not in memory at the same time.
        for text in sorted(texts):
            if _DIGEST.fullmatch(text):
                data = self.store.get(self._key(target, "lists", text), _MAX_LIST, whole) or b""
                for name, size in islice(_objects(data).items(), _MOST_OBJECTS - len(found)):
                    found[name] = max(size, found.get(name, 0))
        return found

    def _list(self, target: Target, used: dict[str, int], cells: Collection[str], whole: Deadline) -> None:
        """Store the list of the objects that these cells used."""
        text = "".join(f"{size} {name}\n" for name, size in used.items()).encode()
        digest = hashlib.sha256(text).hexdigest()
        if not text:
            return
        self.store.put(self._key(target, "lists", digest), text, whole)
        for cell in self.session.plan.cells:
            if cell.platform == target.cell.platform and cell.id in cells:
                self.store.put(self._key(target, "cells", cell.id), digest.encode(), whole)

    def _download(
        self, target: Target, sizes: Mapping[str, int], archive: Path, changed: int, whole: Deadline
    ) -> dict[str, int]:
        """Write objects of the store into an archive; return name → size of those that the store still has.

        ``sizes`` are those of the lists. The store may have other ones, so what comes is counted.
        """
        taken: dict[str, int] = {}
        if not sizes:
            return taken
        left = min(_MOST_BYTES, shutil.disk_usage(archive.parent).free // 2)
        with ThreadPoolExecutor(_THREADS) as pool, tarfile.open(archive, "w") as tar:
            for part in _parts(sizes.items(), lambda item: _most(item[1])):
                if left < sum(_most(size) for _, size in part):
                    break
                contents = pool.map(
                    lambda item: self.store.get(self._object(target, item[0]), _most(item[1]), whole), part
                )
                for (name, _), data in zip(part, contents, strict=True):
                    if data is not None:
                        member = tarfile.TarInfo(name)
                        member.size, member.mtime, member.mode = len(data), changed, 0o644
                        tar.addfile(member, io.BytesIO(data))
                        taken[name] = len(data)
                        left -= len(data)
        return taken

    def _upload(self, target: Target, archive: IO[bytes], whole: Deadline) -> dict[str, int]:
        """Store the objects of an archive; return name → size."""
        stored: dict[str, int] = {}
        with ThreadPoolExecutor(_THREADS) as pool:
            for part in _parts(_members(archive), lambda item: len(item[1])):
                list(pool.map(lambda item: self.store.put(self._object(target, item[0]), item[1], whole), part))
                stored |= {name: len(data) for name, data in part}
        return stored


def _most(listed: int) -> int:
    """Return the bytes that are taken of an object, by its size in a list."""
    return min(MAX_OBJECT, listed + _GROWN)


def _parts(items: Iterable[_T], size: Callable[[_T], int]) -> Iterator[list[_T]]:
    """Yield the items in parts: those of one part are in memory at the same time. ``size`` is that of an item in bytes."""
    part: list[_T] = []
    total = 0
    for item in items:
        if part and (len(part) == _THREADS * 4 or total + size(item) > _IN_MEMORY):
            yield part
            part, total = [], 0
        part.append(item)
        total += size(item)
    if part:
        yield part


def _members(archive: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the objects in an archive, which the engine wrote."""
    for member, file in tar_members(archive, 2 * _MOST_OBJECTS):
        if file and member.size <= MAX_OBJECT and _OBJECT.fullmatch(f"{member.size} {member.name}"):
            yield member.name, file.read(member.size)


def _objects(text: bytes) -> dict[str, int]:
    """Return the objects in a list, which a store or an engine wrote: name → size."""
    matches = _OBJECT.finditer(text[:_MAX_LIST].decode("ascii", "replace"))
    return {match[2]: int(match[1]) for match in islice(matches, _MOST_OBJECTS)}


def _contents(folder: Path, **files: str) -> Path:
    """Make a folder with files for ``carry-ccache``; return it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder
