"""Warnings about the files of the build context: their size, and files that look like secrets."""

from __future__ import annotations

import fnmatch
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bakery.build.context_digest import walk
from bakery.core.dockerignore import Ignore, normalised
from bakery.core.files import read_plain
from bakery.plan.model import Plan
from bakery.plan.options import SourceContext
from bakery.toolchains import facts

_HEADER = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY|^PuTTY-User-Key-File")
_WILD = frozenset("*?[")
_PEEKED = 16 * 1024
"""Bytes; a larger file is no key."""


@dataclass(slots=True)
class ContextContent:
    """The files that are sent; ``size`` in bytes.

    ``folders``: first part of the path → bytes; ``secrets``: path → the kind of secret that it looks like.
    """

    size: int = 0
    files: int = 0
    folders: Counter[str] = field(default_factory=Counter)
    secrets: dict[str, str] = field(default_factory=dict)


def scan(root: Path, sent: SourceContext, ignored: Iterable[str]) -> ContextContent:
    """Scan the files that a plan sends; unreadable files are skipped, links are not followed.

    ``root`` is the build context, ``ignored`` the patterns of its ignore file.
    """
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
        if (row or "." not in name) and 0 < size <= _PEEKED and entry.is_file(follow_symlinks=False):
            return "private key" if _holds_key(entry.path) else ""
        return ""


def _holds_key(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return _HEADER.search(file.read(_PEEKED)) is not None
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
        f'out what no build needs with source.ignore, or say source.expected-size = "{-(-content.size // 10**9)} GB"'
    ]


def _secrets(content: ContextContent) -> list[str]:
    if not content.secrets:
        return []
    paths = sorted(content.secrets)
    named = ", ".join(f"{path!r} ({content.secrets[path]})" for path in paths[:_NAMED])
    more = f" and {len(paths) - _NAMED} more" if paths[_NAMED:] else ""
    return [
        f"what looks like a secret would be sent to the engine: {named}{more}; leave it out with source.ignore, hand it "
        "to steps as [secrets], or list it in source.accept"
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
