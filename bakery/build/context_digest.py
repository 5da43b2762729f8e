"""What a build context holds, as the engine is sent it: a digest that changes when anything in it does."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bakery.core.dockerignore import Ignore
from bakery.core.errors import OutputError


def context_digest(folder: Path, sources: Sequence[str], ignore: Sequence[str]) -> str:
    """Return a digest over names, modes, links and contents of the files that steps read.

    Args:
        folder: the build context.
        sources: files and folders in it that steps read; what is missing is for the build to tell.
        ignore: patterns of Docker's ignore files; later ones win, ``!`` takes back.

    Raises:
        OutputError: a file cannot be read.
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
    """Return name → sha256 of the files that steps read; of a link, of where it leads. Arguments as of `context_digest`.

    Raises:
        OutputError: a file cannot be read.
    """
    try:
        paths = _read(folder, sources, Ignore(ignore))
        return {name: _content(path, path.lstat().st_mode).hex() for path, name in paths}
    except OSError as error:
        raise OutputError(f"cannot read {error.filename or folder}: {error.strerror or error}") from error


def tree_hash(digests: Mapping[str, str]) -> str:
    """Return in-toto's ``dirHash`` of files (name → sha256): Go's dirhash.Hash1 in hexadecimal. Modes are not in it."""
    lines = (f"{digests[name]}  {name}\n" for name in sorted(digests, key=os.fsencode))
    return hashlib.sha256(b"".join(map(os.fsencode, lines))).hexdigest()


def _read(folder: Path, sources: Sequence[str], ignore: Ignore) -> Iterator[tuple[Path, str]]:
    for source in sorted(set(sources)):
        name = "/".join(piece for piece in source.split("/") if piece not in ("", "."))
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            state = ignore.below(name or ".")
            if ignore.has_exceptions or not ignore.is_ignored(state):
                yield from _files(path, f"{name}/" if name else "", ignore, state)
        elif path.is_symlink() or path.exists():
            yield path, name


def _content(path: Path, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        return hashlib.sha256(os.fsencode(path.readlink())).digest()
    if not stat.S_ISREG(mode):
        return b""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _files(folder: Path, prefix: str, ignore: Ignore, above: tuple[bool, ...]) -> Iterator[tuple[Path, str]]:
    """Yield every file that is not ignored, in the order of names; ``above`` is the state of the folder itself."""
    plain = ignore.plain()
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        name, state = prefix + entry.name, above
        if plain:
            out = plain(name, entry.name)
        else:
            state = ignore.step(above, name, entry.name)
            out = ignore.is_ignored(state)
        if entry.is_dir(follow_symlinks=False):
            if not out or ignore.has_exceptions:
                yield from _files(Path(entry.path), f"{name}/", ignore, state)
        elif not out:
            yield Path(entry.path), name
