"""Reads files of a commit, whose names and number somebody else chose."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Container, Iterable
from pathlib import Path

from bakery.core.errors import UsageError
from bakery.core.git_command import git
from bakery.core.inside import relative

_FILES = ("100644", "100755")
"""The modes of files in a tree; a link has another one."""


def blobs(top: Path, commit: str, names: Container[str]) -> dict[str, str | None]:
    """Return path → text of the files of a commit that are named so, in any folder; None for one that git cannot read.

    Links are left out. Raises UsageError for a path that a stranger may use to leave the folder, and for a commit whose
    files git does not list.
    """
    found: dict[str, str] = {}
    listed = git(top, "ls-tree", "-r", "-z", "--full-tree", commit)
    if listed is None:
        raise UsageError(f"git does not list the files of commit {commit[:12]}", hint="it has too many, or is damaged")
    for row in filter(None, listed.split("\0")):
        facts, _, path = row.partition("\t")
        mode, _, blob = facts.split()
        if path.rpartition("/")[2] in names and mode in _FILES:
            try:
                found[relative(path)] = blob
            except OSError as error:
                raise UsageError(f"commit {commit[:12]}: {error.strerror}", hint="git could not check it out") from None
    texts = _texts(top, set(found.values()))
    return {path: texts.get(blob) for path, blob in sorted(found.items())}


def _texts(top: Path, ids: Iterable[str]) -> dict[str, str]:
    """Return id → text of some blobs: those that git has, each once."""
    with tempfile.TemporaryFile() as asked:
        asked.write("".join(f"{item}\n" for item in ids).encode())
        asked.seek(0)
        answer = os.fsencode(git(top, "cat-file", "--batch", stdin=asked) or "")
    texts: dict[str, str] = {}
    at = 0
    while (end := answer.find(b"\n", at)) >= 0:
        # What git does not have is `ID missing`.
        name, kind, size = (*answer[at:end].decode().split(), "0")[:3]
        at = end + 1
        if kind != "missing":
            if kind == "blob":
                texts[name] = os.fsdecode(answer[at : at + int(size)])
            at += int(size) + 1
    return texts
