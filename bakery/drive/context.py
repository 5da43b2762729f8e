"""What a build context holds, as the engine is sent it: a digest that changes when anything in it does."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bakery.errors import OutputError
from bakery.plan import Copy, Plan, Run

_Rules = Sequence[tuple[bool, re.Pattern[str]]]
"""Whether a pattern leaves out, and the pattern."""


def context_digest(folder: Path, sources: Sequence[str], ignore: Sequence[str]) -> str:
    """Return a digest over names, modes, links and contents of the files that steps read.

    Args:
        folder: the build context.
        sources: files and folders in it that steps read; what is missing is for the build to tell.
        ignore: patterns of Docker's ignore files; later ones win, ``!`` takes back.

    Raises:
        OutputError: a file cannot be read.
    """
    rules = [(not line.startswith("!"), _pattern(line.removeprefix("!"))) for line in ignore]
    digest = hashlib.sha256()
    try:
        for path, name in _read(folder, sources, rules):
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
    rules = [(not line.startswith("!"), _pattern(line.removeprefix("!"))) for line in ignore]
    try:
        return {name: _content(path, path.lstat().st_mode).hex() for path, name in _read(folder, sources, rules)}
    except OSError as error:
        raise OutputError(f"cannot read {error.filename or folder}: {error.strerror or error}") from error


def tree_hash(found: Mapping[str, str]) -> str:
    """Return in-toto's ``dirHash`` of files (name → sha256): Go's dirhash.Hash1 in hexadecimal. Modes are not in it."""
    lines = (f"{found[name]}  {name}\n" for name in sorted(found, key=os.fsencode))
    return hashlib.sha256(b"".join(map(os.fsencode, lines))).hexdigest()


def sources(plan: Plan) -> tuple[str, ...]:
    """Return the files and folders of the build context that steps of a plan read."""
    steps = [step for stage in plan.stages for step in stage.steps]
    copied = [step.source for step in steps if isinstance(step, Copy) and not step.from_]
    mounts = [mount for step in steps if isinstance(step, Run) for mount in step.mounts]
    found = [*copied, *(mount.source for mount in mounts if mount.type == "bind" and not mount.from_)]
    return tuple(dict.fromkeys(found))


def _read(folder: Path, sources: Sequence[str], rules: _Rules) -> Iterator[tuple[Path, str]]:
    for source in sorted(set(sources)):
        name = "/".join(piece for piece in source.split("/") if piece not in ("", "."))
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            yield from _files(path, f"{name}/" if name else "", rules)
        elif path.is_symlink() or path.exists():
            yield path, name


def _content(path: Path, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        return hashlib.sha256(os.fsencode(path.readlink())).digest()
    if not stat.S_ISREG(mode):
        return b""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _files(folder: Path, prefix: str, rules: _Rules) -> Iterator[tuple[Path, str]]:
    """Yield every file that no rule leaves out, in the order of names."""
    takes_back = any(not leaves_out for leaves_out, _ in rules)
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = prefix + entry.name
        out = _is_left_out(name, rules)
        if entry.is_dir(follow_symlinks=False):
            if not out or takes_back:
                yield from _files(Path(entry.path), f"{name}/", rules)
        elif not out:
            yield Path(entry.path), name


def _is_left_out(name: str, rules: _Rules) -> bool:
    # A rule for a folder holds for all below it.
    out = False
    for leaves_out, pattern in rules:
        if leaves_out != out and pattern.match(name):
            out = leaves_out
    return out


def _pattern(line: str) -> re.Pattern[str]:
    """Return what a line of an ignore file matches (Go's filepath.Match, and ``**`` for any folders)."""
    text, found = line.strip().strip("/"), ""
    at = 0
    while at < len(text):
        if text.startswith("**/", at):
            found, at = found + "(?:.*/)?", at + 3
        elif text.startswith("**", at):
            found, at = found + ".*", at + 2
        elif text[at] == "*":
            found, at = found + "[^/]*", at + 1
        elif text[at] == "?":
            found, at = found + "[^/]", at + 1
        elif text[at] == "\\" and at + 1 < len(text):
            found, at = found + re.escape(text[at + 1]), at + 2
        elif text[at] == "[" and "]" in text[at + 1 :]:
            end = text.index("]", at + 1)
            inner = text[at + 1 : end]
            found, at = f"{found}[{inner}]", end + 1
        else:
            found, at = found + re.escape(text[at]), at + 1
    try:
        return re.compile(rf"{found}(?:/.*)?\Z", re.DOTALL)
    except re.error:  # a class that no one can read matches nothing
        return re.compile(r"(?!)")
