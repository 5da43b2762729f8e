"""The files of the build context: their digest, and warnings about their size and about possible secrets."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bakery.core.dockerignore import Ignore, normalised
from bakery.core.errors import OutputError
from bakery.core.files import read_plain
from bakery.plan.model import Plan
from bakery.plan.options import SourceContext
from bakery.toolchains import facts


def context_digest(folder: Path, sources: Sequence[str], ignore: Sequence[str]) -> str:
    """Return a digest of names, modes, links and contents of the files that steps read.

    ``sources`` are files and folders in ``folder``, the build context; ``ignore`` has patterns of Docker's ignore
    files. Raises OutputError if a file cannot be read.
    """
    return context_state(folder, sources, ignore)[0]


def context_stamp(folder: Path, sources: Sequence[str], ignore: Sequence[str]) -> str:
    """Return the stamp of the same files, as `context_state` does, without reading them."""
    return context_state(folder, sources, ignore, reads=False)[1]


def context_state(
    folder: Path,
    sources: Sequence[str],
    ignore: Sequence[str],
    *,
    reads: bool = True,
    contents: dict[str, bytes] | None = None,
) -> tuple[str, str]:
    """Return the digest of the files that steps read (`context_digest`), and a stamp: it differs after any change of them
    since the digest was begun, even one that was undone.

    ``contents`` receives name → the begin of the digest of a file's content, and its mode.
    """
    digest, stamp = hashlib.sha256(), hashlib.sha256()
    try:
        for path, name in _read(folder, sources, Ignore(ignore)):
            status = path.lstat()
            mode = f"{stat.S_IFMT(status.st_mode):o} {stat.S_IMODE(status.st_mode):o}"
            times = f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
            digest.update(f"{name}\0{mode}\0".encode(errors="surrogateescape"))
            stamp.update(f"{name}\0{times}\0".encode(errors="surrogateescape"))
            if reads:
                digest.update(content := _content(path, status.st_mode))
                if contents is not None:
                    contents[name] = content[:8] + stat.S_IMODE(status.st_mode).to_bytes(2)
    except OSError as error:
        raise OutputError(f"cannot read {error.filename or folder}: {error.strerror or error}") from error
    return digest.hexdigest(), stamp.hexdigest()


def files(folder: Path, sources: Sequence[str], ignore: Sequence[str]) -> dict[str, str]:
    """Return name → sha256 of the content or the link target. Arguments and errors as of `context_digest`."""
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


_HEADER = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY|^PuTTY-User-Key-File")
_WILD = frozenset("*?[")
_MAX_KEY_BYTES = 16 * 1024


@dataclass(slots=True)
class ContextContent:
    """The files that are sent; sizes in bytes, ``secrets``: path → the kind of secret that it looks like."""

    size: int = 0
    files: int = 0
    folders: Counter[str] = field(default_factory=Counter)
    secrets: dict[str, str] = field(default_factory=dict)


def scan(root: Path, sent: SourceContext, ignored: Iterable[str]) -> ContextContent:
    """Scan the files that a plan sends from ``root``; unreadable files are skipped, links are not followed."""
    ignore, accept, looks, content = Ignore(ignored), Ignore(sent.accepted), _Looks(), ContextContent()
    state, prefix = ignore.below(sent.folder), "" if sent.folder == "." else f"{sent.folder}/"
    if not ignore.has_exceptions and ignore.is_ignored(state):
        return content
    for entry, path in walk(root / sent.folder, prefix, ignore, state, skip_unreadable=True):
        size = entry.stat(follow_symlinks=False).st_size
        content.size += size
        content.files += 1
        content.folders[path.removeprefix(prefix).partition("/")[0]] += size
        what = looks.of(entry, size)
        if what and not accept.ignores(path):
            content.secrets[path] = what
    return content


class _Looks:
    """Recognises secrets by file names and, if these are ambiguous, by the first bytes."""

    def __init__(self) -> None:
        rows = facts.secret_files()
        self._names = {row.name: row for row in rows if not _WILD & set(row.name)}
        self._suffixes = {row.name[2:]: row for row in rows if row.name[:2] == "*." and not _WILD & set(row.name[2:])}
        simple = (*self._names.values(), *self._suffixes.values())
        self._others = [(re.compile(fnmatch.translate(row.name)), row) for row in rows if row not in simple]
        self._heads = tuple(row.name.partition("*")[0] for _, row in self._others)

    def of(self, entry: os.DirEntry[str], size: int) -> str:
        name = entry.name.lower()
        row = self._names.get(name) or self._suffixes.get(name.rpartition(".")[2])
        if row is None and name.startswith(self._heads):
            row = next((row for pattern, row in self._others if pattern.match(name)), None)
        if row and not row.peek:
            return "" if any(fnmatch.fnmatchcase(name, item) for item in row.but) else row.what
        # Keys with other names have no suffix; certificates have the suffix of keys.
        if (row or "." not in name) and 0 < size <= _MAX_KEY_BYTES and entry.is_file(follow_symlinks=False):
            return "private key" if _holds_key(entry.path) else ""
        return ""


def _holds_key(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return _HEADER.search(file.read(_MAX_KEY_BYTES)) is not None
    except OSError:
        return False


_NAMED = 5
_LARGEST = 1 << 20


def warnings(root: Path, plan: Plan) -> list[str]:
    """Return the warnings about a plan's build context."""
    if not plan.source_context.folder:
        return []
    content = scan(root, plan.source_context, plan.ignore)
    return [*_size(plan, content), *_secrets(content), *_ignore_file(root, plan)]


def _size(plan: Plan, content: ContextContent) -> list[str]:
    if content.size <= plan.source_context.expected_mb * 10**6:
        return []
    largest = ", ".join(f"{name} {_mb(size)}" for name, size in content.folders.most_common(3))
    return [
        f"the source is {_mb(content.size)} in {content.files} files, more than {plan.source_context.expected_mb} MB: {largest}; leave "
        f'out what no build needs with source.ignore, or set source.expected-size = "{-(-content.size // 10**9)} GB"'
    ]


def _secrets(content: ContextContent) -> list[str]:
    if not content.secrets:
        return []
    paths = sorted(content.secrets)
    named = ", ".join(f"{path!r} ({content.secrets[path]})" for path in paths[:_NAMED])
    more = f" and {len(paths) - _NAMED} more" if paths[_NAMED:] else ""
    return [
        f"possible secrets would be sent to the engine: {named}{more}; exclude them with source.ignore, pass "
        "them to steps with [secrets], or list them in source.accept"
    ]


def _ignore_file(root: Path, plan: Plan) -> list[str]:
    """A Dockerfile's own ignore file replaces the project's, and every Dockerfile of bakery has one."""
    path = root / ".dockerignore"
    try:
        lines = read_plain(path, _LARGEST).decode("utf-8-sig", errors="replace").splitlines()
    except OSError:
        return []
    if plan.source_context.has_ignore or not set(filter(None, map(normalised, lines))) - set(plan.ignore):
        return []
    return [
        ".dockerignore is not read: Docker takes that of bakery's Dockerfile; repeat in source.ignore what no build "
        "needs, or write source.ignore = []"
    ]


def _mb(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
