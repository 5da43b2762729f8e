"""The source of a build: the files, folders and links that BuildKit is sent, from one walk of the project's folder.

The same value is the key of "up to date", what a record says of the source, and what is compared after a build.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from bakery.core.dockerignore import Ignore, escaped
from bakery.core.errors import OutputError
from wheel_audit.plain_files import open_plain

RECORDS = ".provenance"
"""The folder of records in an output folder."""

_EMPTY = hashlib.sha256().digest()


MOST_BYTES = 64 << 30
"""Bytes of a source that are read, which takes a minute: a file of terabytes may be sparse, and come in a small archive."""


@dataclass(frozen=True)
class SourceManifest:
    """What steps read of a build context: files and folders that no pattern ignores, from one walk.

    BuildKit's rules apply, with two more patterns where they are needed: a folder in which everything is ignored is not
    sent, and neither are the wheels beside a folder of records. A folder that is really empty is sent.

    Attributes:
        folder: the build context.
        sources: its files and folders that steps read.
        ignore: the patterns of the ignore file that sends exactly these entries.
        entries: name → status of each file, link and folder, without following links; a folder comes after its content.
    """

    folder: Path
    sources: tuple[str, ...]
    ignore: tuple[str, ...]
    entries: Mapping[str, os.stat_result]

    @classmethod
    def read(cls, folder: Path, sources: Sequence[str], ignore: Sequence[str]) -> SourceManifest:
        """Walk ``sources`` in ``folder``; contents are read when they are asked for. Raises OutputError."""
        walk = _Walk(Ignore(ignore))
        with _reported(folder):
            for source in sorted(set(sources)):
                walk.add(folder, "/".join(piece for piece in source.split("/") if piece not in ("", ".")))
        return cls(folder, tuple(sources), (*ignore, *dict.fromkeys(walk.unsent)), walk.entries)

    @cached_property
    def sha256(self) -> Mapping[str, bytes]:
        """Name → SHA-256 of a file's content or a link's target, read once; other entries have none.

        Raises OutputError, also if the files have more than `MOST_BYTES`.
        """
        size = sum(status.st_size for status in self.entries.values() if stat.S_ISREG(status.st_mode))
        if size > MOST_BYTES:
            largest = max(self.entries, key=lambda name: self.entries[name].st_size)
            raise OutputError(
                f"the source {self.folder} has {size >> 30} GiB, more than {MOST_BYTES >> 30}; the largest file is {largest}",
                hint="leave out with source.ignore what no build needs",
            )
        with _reported(self.folder):
            return {
                name: _content(self.folder / name, status.st_mode)
                for name, status in self.entries.items()
                if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
            }

    @cached_property
    def digest(self) -> str:
        """A digest of names, kinds, modes, links and contents. Raises OutputError if a file cannot be read."""
        digest = hashlib.sha256()
        for name, status in self.entries.items():
            digest.update(f"{name}\0{status.st_mode:o}\0".encode(errors="surrogateescape"))
            digest.update(self.sha256.get(name, b""))
        return digest.hexdigest()

    @cached_property
    def files(self) -> Mapping[str, str]:
        """Name → hexadecimal SHA-256 of each file and link, and of ``folder/`` for each empty folder. Raises OutputError."""
        return {name: digest.hex() for name, digest in (*self.sha256.items(), *((n, _EMPTY) for n in self._empty))}

    @property
    def short(self) -> Mapping[str, bytes]:
        """Name → the begin of the digest in `files`, and the mode: whether an entry changed, for messages."""
        modes = {name: stat.S_IMODE(self.entries[name.rstrip("/")].st_mode).to_bytes(2) for name in self.files}
        return {name: bytes.fromhex(digest[:16]) + modes[name] for name, digest in self.files.items()}

    @property
    def _empty(self) -> list[str]:
        parents = {name.rpartition("/")[0] for name in self.entries}
        return [f"{name}/" for name, status in self.entries.items() if _is_folder(status) and name not in parents]

    def names(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield name and status of files and links."""
        return ((name, status) for name, status in self.entries.items() if not _is_folder(status))

    def would_send(self, name: str) -> bool:
        """Whether a file of that name would be one of `entries`."""
        return self._is_below(name) and not self._ignore.ignores(name)

    def left_out(self, names: Iterable[str], patterns: Sequence[str]) -> tuple[str, ...]:
        """Return the files and folders that are not sent although they are among ``names`` or hold some of them.

        Only those that one of ``patterns`` ignores, too; of a folder that is ignored, the folder.
        """
        by, found = Ignore(patterns), dict[str, None]()
        for name in names:
            if self._is_below(name) and by.ignores(name) and self._ignore.ignores(name):
                pieces = name.split("/")
                paths = ("/".join(pieces[:depth]) for depth in range(1, len(pieces) + 1))
                found[next(path for path in paths if self._ignore.ignores(path) and by.ignores(path))] = None
        return tuple(found)

    @cached_property
    def _ignore(self) -> Ignore:
        return Ignore(self.ignore)

    def _is_below(self, name: str) -> bool:
        return any(PurePosixPath(name).is_relative_to(source) for source in self.sources)

    def changed(self) -> tuple[str, ...]:
        """Return what changed since the walk, sorted: even what was changed back. Nobody knows what a build was sent of it.

        Raises OutputError if a folder cannot be read.
        """
        now = SourceManifest.read(self.folder, self.sources, self.ignore).entries
        names = {name for name in (*self.entries, *now) if _stamp(self.entries.get(name)) != _stamp(now.get(name))}
        return tuple(sorted(names, key=os.fsencode))


EMPTY = SourceManifest(Path(), (), (), {})


class Sources:
    """The manifests of one command, so that it reads the files of each source once."""

    def __init__(self) -> None:
        self._kept: dict[object, SourceManifest] = {}

    def read(self, folder: Path, sources: Sequence[str], ignore: Sequence[str]) -> SourceManifest:
        """Return the manifest, as `SourceManifest.read`; files that did not change are not read again. Raises OutputError."""
        key = (folder, tuple(sources), tuple(ignore))
        kept = self._kept.get(key)
        if kept is None or kept.changed():
            kept = self._kept[key] = SourceManifest.read(*key)
        return kept


def first_link(folder: Path, path: str) -> tuple[str, str]:
    """Return the first link among a path below a folder and its parents, and what the path leads to; two empty texts for none.

    What it leads to is relative to the folder, or absolute if it is outside.
    """
    pieces = [piece for piece in path.split("/") if piece not in ("", ".")]
    for depth in range(1, len(pieces) + 1):
        link = "/".join(pieces[:depth])
        try:
            is_link = (folder / link).is_symlink()
        except OSError:
            # A name that no file can have.
            return "", ""
        if is_link:
            target, top = (folder / path).resolve(), folder.resolve()
            return link, target.relative_to(top).as_posix() if target.is_relative_to(top) else str(target)
    return "", ""


def tree_hash(digests: Mapping[str, str]) -> str:
    """Return in-toto's ``dirHash`` of `SourceManifest.files`: Go's dirhash.Hash1 in hexadecimal, without modes.

    An empty folder is an entry as Go has it for zip archives (dirhash.HashZip).
    """
    lines = (f"{digests[name]}  {name}\n" for name in sorted(digests, key=os.fsencode))
    return hashlib.sha256(b"".join(map(os.fsencode, lines))).hexdigest()


class _Walk:
    """Collects the entries of sources."""

    def __init__(self, ignore: Ignore) -> None:
        self.entries: dict[str, os.stat_result] = {}
        self.unsent: list[str] = []
        self._ignore = ignore
        self._plain: Callable[[str, str], bool] | None = ignore.plain()

    def add(self, folder: Path, name: str) -> None:
        """Add the file or the folder ``name``. Raises OSError."""
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            state = self._ignore.below(name or ".")
            if self._ignore.has_exceptions or not self._ignore.is_ignored(state):
                self._folder(str(path), f"{name}/" if name else "", state)
        elif path.is_symlink() or path.exists():
            self.entries[name] = path.lstat()

    def _folder(self, path: str, prefix: str, state: tuple[bool, ...]) -> bool:
        """Add what is sent of a folder; return whether the folder itself is: it is empty, or something in it is sent."""
        with os.scandir(path) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
        before = len(self.entries)
        has_records = any(entry.name == RECORDS for entry in entries)
        if has_records:
            self.unsent.append(f"{escaped(prefix)}*.whl")
        for entry in entries:
            name, entry_state = prefix + entry.name, state
            if self._plain:
                ignored = self._plain(name, entry.name)
            else:
                entry_state = self._ignore.step(state, name, entry.name)
                ignored = self._ignore.is_ignored(entry_state)
            if entry.is_dir(follow_symlinks=False):
                if not ignored or self._ignore.has_exceptions:
                    self._below(entry, name, entry_state, ignored=ignored)
            elif not (ignored or (has_records and entry.name.endswith(".whl"))):
                self.entries[name] = entry.stat(follow_symlinks=False)
        return not entries or len(self.entries) > before

    def _below(self, entry: os.DirEntry[str], name: str, state: tuple[bool, ...], *, ignored: bool) -> None:
        count, mark = len(self.entries), len(self.unsent)
        is_sent = self._folder(entry.path, f"{name}/", state)
        if len(self.entries) > count or (is_sent and not ignored):
            self.entries[name] = entry.stat(follow_symlinks=False)
            return
        if not ignored:
            self.unsent[mark:] = [escaped(name)]


def _is_folder(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode)


def _stamp(status: os.stat_result | None) -> tuple[int, ...] | None:
    """Return what differs after any change; the times of a folder also change with what is ignored in it."""
    if status is None or _is_folder(status):
        return status and (status.st_mode,)
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _content(path: Path, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        return hashlib.sha256(os.fsencode(path.readlink())).digest()
    # Since the walk, it may have become a pipe, which nobody writes to.
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").digest()


@contextmanager
def _reported(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        hint = "a build reads every file of its source: correct the permissions, or leave it out with source.ignore"
        raise OutputError(f"cannot read {where}: {error.strerror or error}", hint=hint) from error
