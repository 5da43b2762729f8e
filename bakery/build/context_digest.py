"""The files of a build context that the engine is sent, and their digest."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bakery.core.dockerignore import Ignore
from bakery.core.errors import OutputError


def context_digest(folder: Path, sources: Sequence[str], ignore: Sequence[str]) -> str:
    """Return a digest of names, modes, links and contents of the files that steps read.

    Args:
        folder: the build context.
        sources: files and folders in it that steps read; the build reports missing ones.
        ignore: patterns of Docker's ignore files; later ones win, ``!`` is an exception.

    Raises OutputError if a file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        for path, name in _read(folder, sources, Ignore(ignore)):
            status = path.lstat()
            digest.update(
                f"{name}\0{stat.S_IFMT(status.st_mode):o} {stat.S_IMODE(status.st_mode):o}\0".encode(
                    errors="surrogateescape"
                )
            )
            digest.update(_content(path, status.st_mode))
    except OSError as error:
        raise OutputError(f"cannot read {error.filename or folder}: {error.strerror or error}") from error
    return digest.hexdigest()


def files(folder: Path, sources: Sequence[str], ignore: Sequence[str]) -> dict[str, str]:
    """Return name → sha256 of the content, or of the target of a link. Arguments as of `context_digest`.

    Raises OutputError if a file cannot be read.
    """
    try:
        paths = _read(folder, sources, Ignore(ignore))
        return {name: _content(path, path.lstat().st_mode).hex() for path, name in paths}
    except OSError as error:
        raise OutputError(f"cannot read {error.filename or folder}: {error.strerror or error}") from error


def tree_hash(digests: Mapping[str, str]) -> str:
    """Return in-toto's ``dirHash`` of files (name → sha256): Go's dirhash.Hash1 in hexadecimal, without modes."""
    lines = (f"{digests[name]}  {name}\n" for name in sorted(digests, key=os.fsencode))
    return hashlib.sha256(b"".join(map(os.fsencode, lines))).hexdigest()


def _read(folder: Path, sources: Sequence[str], ignore: Ignore) -> Iterator[tuple[Path, str]]:
    for source in sorted(set(sources)):
        name = "/".join(piece for piece in source.split("/") if piece not in ("", "."))
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            state = ignore.below(name or ".")
            if ignore.has_exceptions or not ignore.is_ignored(state):
                entries = walk(path, f"{name}/" if name else "", ignore, state)
                yield from ((Path(entry.path), entry_name) for entry, entry_name in entries)
        elif path.is_symlink() or path.exists():
            yield path, name


def _content(path: Path, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        return hashlib.sha256(os.fsencode(path.readlink())).digest()
    if not stat.S_ISREG(mode):
        return b""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def walk(
    folder: Path, prefix: str, ignore: Ignore, state: tuple[bool, ...], *, skip_unreadable: bool = False
) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Yield every file of a folder that is not ignored, with its name in the context, sorted by name.

    ``prefix`` is the folder's name in the context, with a slash; ``state`` that of the folder, from `Ignore.below`.
    Raises OSError if a folder cannot be read, unless ``skip_unreadable``.
    """
    try:
        with os.scandir(folder) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
    except OSError:
        if skip_unreadable:
            return
        raise
    plain = ignore.plain()
    for entry in entries:
        name, entry_state = prefix + entry.name, state
        if plain:
            ignored = plain(name, entry.name)
        else:
            entry_state = ignore.step(state, name, entry.name)
            ignored = ignore.is_ignored(entry_state)
        if entry.is_dir(follow_symlinks=False):
            if not ignored or ignore.has_exceptions:
                yield from walk(Path(entry.path), f"{name}/", ignore, entry_state, skip_unreadable=skip_unreadable)
        elif not ignored:
            yield entry, name
