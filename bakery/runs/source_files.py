"""The source of a run: which files are sent, warnings about them, and what git promises about the files of its wheels."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from bakery.core.dockerignore import Ignore, escaped, normalised
from bakery.core.errors import PlanError
from bakery.core.git import listing, tracked_files
from bakery.core.source_manifest import SourceManifest, Sources, first_link
from bakery.plan.delivery import SourceContext
from bakery.plan.model import Plan, ignored_output, leaves
from bakery.resolve.source_context import METADATA
from bakery.toolchains import facts
from wheel_audit.expected_wheel import SourceFiles
from wheel_audit.plain_files import file_sha256, open_plain, read_plain
from wheel_audit.text import listed


def source_of(root: Path, plan: Plan, output: Path | None = None, sources: Sources | None = None) -> SourceManifest:
    """Return the source of a plan as it is sent: without the output folder, and without the files of secrets.

    Args:
        output: the output folder; None for the plan's.
        sources: those that this command read.

    Raises PlanError if a link leads to it, and OutputError if it cannot be read.
    """
    context, folder = root / plan.context, plan.source_context.folder
    for path in plan.context_paths():
        _refuse_link(context, path, plan)
    results = (
        item
        for output_folder in _output_folders(output or root / plan.output)
        for path in _inside(context, output_folder)
        for item in ignored_output(path, folder)
    )
    secrets = (escaped(path) for item in plan.secrets if item.file for path in _inside(context, root / item.file))
    ignore = _with_metadata(context, folder, plan.ignore)
    patterns = [item for item in dict.fromkeys((*results, *secrets)) if item not in ignore]
    return (sources or Sources()).read(context, plan.context_paths(), (*ignore, *patterns))


def _output_folders(output: Path) -> Iterator[Path]:
    """Yield the output folder, and the folder that it is or will be in if nothing else is there.

    An empty folder is sent, and one in which everything is ignored is not: without this, the first wheel would change
    the source.
    """
    yield output
    with suppress(OSError):
        parent = next(path for path in output.absolute().parents if path.exists())
        if all(item == output.absolute() for item in parent.iterdir()):
            yield parent


def _with_metadata(context: Path, folder: str, ignore: tuple[str, ...]) -> tuple[str, ...]:
    """Return patterns that send ``*.egg-info`` where it is a part of the source, and no result of an earlier build.

    setuptools reads the files of a source archive from it; without a repository, nothing else lists them.
    """
    source = context / folder
    if METADATA not in ignore or not folder:
        return ignore
    if not any((path / ".git").exists() for path in (source.resolve(), *source.resolve().parents)):
        return tuple(item for item in ignore if item != METADATA)
    inside = "" if folder == "." else f"{folder}/"
    tracked = (PurePosixPath(name) for name in tracked_files(source))
    found = {path for name in tracked for path in name.parents if path.suffix == ".egg-info"}
    place = ignore.index(METADATA) + 1
    return (*ignore[:place], *(f"!{escaped(inside + str(path))}" for path in sorted(found)), *ignore[place:])


def _refuse_link(context: Path, path: str, plan: Plan) -> None:
    """Raise PlanError if a link is on the way to a path: BuildKit, patterns, records and git each follow it differently."""
    link, target = first_link(context, path)
    if link:
        inside = posixpath.relpath(target, posixpath.dirname(plan.source_file) or ".")
        raise PlanError(
            f"{plan.place('source.path')}: {link!r} is a link; the source folder is {target!r}",
            hint="the link leads out of the project: move the recipe to the source"
            if leaves(target)
            else f"the recipe is not in a folder of its own: name {target!r} without links"
            if leaves(inside)
            else f'write source.path = "{inside}"',
        )


def _inside(folder: Path, path: Path) -> tuple[str, ...]:
    """Return a path relative to a folder, as it is named and where links lead, if that is inside."""
    named = (Path(os.path.normpath(folder.absolute())), Path(os.path.normpath(path.absolute())))
    pairs = (named, (folder.resolve(), path.resolve()))
    return tuple(item.relative_to(base).as_posix() for base, item in pairs if item.is_relative_to(base))


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


def scan(source: SourceManifest, sent: SourceContext) -> ContextContent:
    """Return what is in the folder that a plan sends; unreadable files hold no secret, links are not followed."""
    accept, looks, content = Ignore(sent.accepted), _Looks(), ContextContent()
    prefix = "" if sent.folder == "." else f"{sent.folder}/"
    for path, status in source.names():
        if not path.startswith(prefix):
            continue
        content.size += status.st_size
        content.files += 1
        content.folders[path.removeprefix(prefix).partition("/")[0]] += status.st_size
        size = status.st_size if stat.S_ISREG(status.st_mode) else 0
        if (what := looks.of(source.folder / path, PurePosixPath(path).name.lower(), size)) and not accept.ignores(
            path
        ):
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

    def of(self, path: Path, name: str, size: int) -> str:
        row = self._names.get(name) or self._suffixes.get(name.rpartition(".")[2])
        if row is None and name.startswith(self._heads):
            row = next((row for pattern, row in self._others if pattern.match(name)), None)
        if row and not row.peek:
            return "" if any(fnmatch.fnmatchcase(name, item) for item in row.but) else row.what
        # Keys with other names have no suffix; certificates have the suffix of keys.
        if (row or "." not in name) and 0 < size <= _MAX_KEY_BYTES:
            return "private key" if _begins(path, _HEADER, _MAX_KEY_BYTES) else ""
        return ""


def _begins(path: Path, pattern: re.Pattern[bytes], within: int) -> bool:
    """Return whether a pattern is in the first bytes of a file; not in one that cannot be read."""
    try:
        with open_plain(path) as file:
            return pattern.search(file.read(within)) is not None
    except OSError:
        return False


_NAMED = 5
_LARGEST = 1 << 20


def warnings(plan: Plan, source: SourceManifest) -> list[str]:
    """Return the warnings about the source of a plan."""
    if not plan.source_context.folder:
        return []
    content = scan(source, plan.source_context)
    return [*_size(plan, content), *_secrets(content), *_ignore_file(source.folder, plan)]


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
    named = listed((f"{path!r} ({kind})" for path, kind in sorted(content.secrets.items())), _NAMED)
    return [
        f"possible secrets would be sent to the engine: {named}; exclude them with source.ignore, pass "
        "them to steps with [secrets], or list them in source.accept"
    ]


def _ignore_file(root: Path, plan: Plan) -> list[str]:
    """A Dockerfile's own ignore file replaces the project's, and every Dockerfile of bakery has one."""
    path = root / ".dockerignore"
    try:
        lines = read_plain(path, _LARGEST, follow=True).decode("utf-8-sig", errors="replace").splitlines()
    except OSError:
        return []
    covered = {*plan.ignore, *(pattern.removeprefix("**/") for pattern in plan.ignore)}
    if plan.source_context.has_ignore or not set(filter(None, map(normalised, lines))) - covered:
        return []
    return [
        ".dockerignore is not read: Docker takes that of bakery's Dockerfile; repeat in source.ignore what no build "
        "needs, or write source.ignore = []"
    ]


def _mb(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


_MADE = re.compile(r"(?i)(?:\.(?:so|pyd|dll|dylib|a|o|obj|lib|exe|pyc|pyo|mo|qm)|[^/]*version[^/]*)$")
"""Names of files that a build writes: machine code, catalogues of translations, the version. A local build left them."""

_SAYS_SO = re.compile(rb"(?i)\b(?:auto(?:matically)?[ -]?)?generated\b|do not edit")
_SAID_WITHIN = 2048
"""Bytes: a program says at the top that it wrote a file (Cython, protoc, SWIG, setuptools-scm)."""


def git_files(sent: SourceManifest, accepted: tuple[str, ...], inside: str) -> SourceFiles | None:
    """Return what git says of the files that were sent; None if they are in no checkout,
    or in a folder that it ignores.

    Args:
        sent: the build context.
        accepted: patterns of files that may be packed although git ignores them, relative to the context.
        inside: the source in the context, ``.`` for all of it; its files are named relative to it.

    Raises OutputError if a file cannot be read.
    """
    seen = listing(sent.folder)
    if seen is None:
        return None
    accept = Ignore(accepted)
    prefix = "" if inside == "." else f"{inside}/"
    digests = {name: digest for name, digest in sent.files.items() if name.startswith(prefix) and name[-1:] != "/"}
    if all(map(seen.ignores, digests)):
        # A repository that ignores the whole folder says nothing of the files in it.
        return None
    ignored = [
        name for name in digests if seen.ignores(name) and not accept.ignores(name) and not _is_made(sent.folder / name)
    ]
    return SourceFiles(
        tuple((name.removeprefix(prefix), digests[name]) for name in digests if name in seen.tracked),
        tuple((name.removeprefix(prefix), digests[name]) for name in ignored),
        tuple((name.removeprefix(prefix), target, digest) for name, target, digest in _left_links(sent, digests)),
    )


def _is_made(path: Path) -> bool:
    """Whether a build wrote a file, or it is a link, by its name and its first lines."""
    return path.is_symlink() or _MADE.search(path.name) is not None or _begins(path, _SAYS_SO, _SAID_WITHIN)


def _left_links(sent: SourceManifest, names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each link that leads to something that was not sent: path, target, and the target's sha256."""
    root = os.path.realpath(sent.folder)
    for name in names:
        path = sent.folder / name
        if not stat.S_ISLNK(sent.entries[name].st_mode) or not path.exists():
            continue
        real = os.path.relpath(os.path.realpath(path), root)
        if real != "." and real not in sent.entries:
            try:
                digest = file_sha256(path) if path.is_file() else ""
            except OSError:
                digest = ""
            yield name, str(path.readlink()), digest
