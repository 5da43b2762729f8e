"""Warnings about the source of a build: its size, possible secrets, and an ignore file that is not read."""

from __future__ import annotations

import fnmatch
import re
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from bakery.core.dockerignore import Ignore, normalised
from bakery.core.source_manifest import SourceManifest
from bakery.plan.model import Plan
from bakery.plan.options import SourceContext
from bakery.toolchains import facts
from wheel_audit.plain_files import open_plain, read_plain

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
            return "private key" if _holds_key(path) else ""
        return ""


def _holds_key(path: Path) -> bool:
    try:
        with open_plain(path) as file:
            return _HEADER.search(file.read(_MAX_KEY_BYTES)) is not None
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
