"""Shares compiler caches between machines through a store.

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
import tarfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

from bakery.build.compiler_cache import CACHE_FILE, attempt, carry
from bakery.build.session import BuildSession, Pins
from bakery.build.stores.store import MAX_OBJECT, Store
from bakery.core.files import open_plain, read_plain
from bakery.engine.cache_scope import cache_scope
from bakery.plan.cells import Target

_THREADS = 16
_MAX_LIST = 32 << 20
"""Bytes of a list of objects: about 500,000."""

_OBJECT = re.compile(r"([0-9]{1,12}) ([0-9a-z](?:/[0-9A-Za-z_-][0-9A-Za-z._-]*)+)")
"""A line of a list. The store and the engine are not trusted; a folder of one character keeps ccache's own files out."""

_T = TypeVar("_T")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass
class RemoteCache:
    """The compiler caches of a run, and the store that they come from and go to.

    Attributes:
        targets: a compiler-cache target for each platform.
        folder: of the run.
        since: platform → the engine's time when the cache was restored; those that could not be restored are not saved.
        known: platform → objects that the store has: name → size.
    """

    session: BuildSession
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
        began = time.monotonic()
        everything = _contents(self.folder / "everything", since="0")
        listing = dict.fromkeys((target.name for target in self.targets), everything)
        stage = carry(self.session, self.pins, self.targets, self.folder / "listing", listing)
        missing: dict[str, Path] = {}
        count = size = 0
        for target in self.targets:
            exported, platform, listed = stage / target.cell.id, target.cell.platform, self._listed(target)
            here = _objects(read_plain(exported / "objects", _MAX_LIST, follow=False))
            now = read_plain(exported / "now", 32, follow=False).decode().strip()
            wanted = sorted(set(listed) - set(here))
            folder = _contents(self.folder / "missing" / target.name)
            taken = self._download(target, wanted, folder / CACHE_FILE, int(now) - 60)
            if taken:
                missing[target.name] = folder
            # What the store has lost is stored again.
            self.known[platform] = {name: size_ for name, size_ in listed.items() if name in taken or name in here}
            self.since[platform] = now
            count, size = count + len(taken), size + sum(taken.values())
        if missing:
            targets = [target for target in self.targets if target.name in missing]
            carry(self.session, self.pins, targets, self.folder / "restoring", missing)
        self._tell("restored", count, size, began)

    def _save(self, targets: Sequence[Target], cells: Collection[str]) -> None:
        began, count, size = time.monotonic(), 0, 0
        packed = {}
        for target in targets:
            known = "".join(f"{bytes_} {name}\n" for name, bytes_ in self.known[target.cell.platform].items())
            folder = self.folder / "known" / target.name
            packed[target.name] = _contents(folder, since=self.since[target.cell.platform], known=known)
        stage = carry(self.session, self.pins, targets, self.folder / "saving", packed)
        for target in targets:
            exported = stage / target.cell.id
            used = _objects(read_plain(exported / "objects", _MAX_LIST, follow=False))
            with open_plain(exported / CACHE_FILE, follow=False) as file:
                stored = self._upload(target, file)
            self._list(target, {name: used[name] for name in sorted(used)}, cells)
            count, size = count + len(stored), size + sum(stored.values())
        self._tell("saved", count, size, began)

    def _tell(self, what: str, count: int, size: int, began: float) -> None:
        self.say(f"compiler cache: {count} objects ({size / 1000:.1f} kB) {what} in {time.monotonic() - began:.1f} s")

    def _key(self, target: Target, *parts: str) -> str:
        scope = cache_scope(self.session.environment, self.session.root, self.session.plan.recipe)
        return "/".join((scope, target.cell.platform.replace("/", "_"), *parts))

    def _object(self, target: Target, name: str) -> str:
        return self._key(target, "objects", name.replace("/", "_"))

    def _listed(self, target: Target) -> dict[str, int]:
        """Return the objects that the last compile of each cell of the platform used."""
        cells = [cell.id for cell in self.session.plan.cells if cell.platform == target.cell.platform]
        with ThreadPoolExecutor(_THREADS) as pool:
            digests = pool.map(self.store.get, [self._key(target, "cells", name) for name in cells])
            texts = {(data or b"").decode("ascii", "replace") for data in digests}
            wanted = [self._key(target, "lists", text) for text in sorted(texts) if _DIGEST.fullmatch(text)]
            lists = [_objects(data or b"") for data in pool.map(self.store.get, wanted)]
        return {name: size for objects in lists for name, size in objects.items()}

    def _list(self, target: Target, used: dict[str, int], cells: Collection[str]) -> None:
        """Store the list of the objects that these cells used."""
        text = "".join(f"{size} {name}\n" for name, size in used.items()).encode()
        digest = hashlib.sha256(text).hexdigest()
        if not text:
            return
        self.store.put(self._key(target, "lists", digest), text)
        for cell in self.session.plan.cells:
            if cell.platform == target.cell.platform and cell.id in cells:
                self.store.put(self._key(target, "cells", cell.id), digest.encode())

    def _download(self, target: Target, names: Collection[str], archive: Path, changed: int) -> dict[str, int]:
        """Write objects of the store into an archive; return name → size of those that the store still has."""
        taken: dict[str, int] = {}
        if not names:
            return taken
        with ThreadPoolExecutor(_THREADS) as pool, tarfile.open(archive, "w") as tar:
            for part in _parts(names):
                contents = pool.map(self.store.get, [self._object(target, name) for name in part])
                for name, data in zip(part, contents, strict=True):
                    if data is not None:
                        member = tarfile.TarInfo(name)
                        member.size, member.mtime, member.mode = len(data), changed, 0o644
                        tar.addfile(member, io.BytesIO(data))
                        taken[name] = len(data)
        return taken

    def _upload(self, target: Target, archive: io.BufferedReader) -> dict[str, int]:
        """Store the objects of an archive; return name → size."""
        stored: dict[str, int] = {}
        with ThreadPoolExecutor(_THREADS) as pool, tarfile.open(fileobj=archive, mode="r|") as tar:
            for part in _parts(_members(tar)):
                keys = [self._object(target, name) for name, _ in part]
                for _ in pool.map(self.store.put, keys, [data for _, data in part]):
                    pass
                stored |= {name: len(data) for name, data in part}
        return stored


def _parts(items: Iterable[_T]) -> Iterator[list[_T]]:
    """Yield the items in parts: those of one part are in memory at the same time."""
    rest = iter(items)
    while part := list(islice(rest, _THREADS * 4)):
        yield part


def _members(tar: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the objects in an archive, which the engine wrote."""
    for member in tar:
        if member.isreg() and member.size <= MAX_OBJECT and _OBJECT.fullmatch(f"{member.size} {member.name}"):
            file = tar.extractfile(member)
            yield member.name, file.read() if file else b""


def _objects(text: bytes) -> dict[str, int]:
    """Return the objects in a list, which a store or an engine wrote: name → size."""
    lines = text[:_MAX_LIST].decode("ascii", "replace").splitlines()
    return {match[2]: int(match[1]) for line in lines if (match := _OBJECT.fullmatch(line))}


def _contents(folder: Path, **files: str) -> Path:
    """Make a folder with files for ``carry-ccache``; return it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder
