"""What git says of a source folder: its last commit, and what was changed since."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_NOT_SOURCE = ("bakery.toml", "bake", "dockerfiles")
"""Recipes and the files made of them stand beside a source and enter no build: their commits change no wheel."""

_QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
_OVERRIDES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Set while a hook runs; they would lead git to another repository than the folder's."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder in a git repository.

    Attributes:
        commit: the checked-out commit, 40 or 64 hex digits.
        committed: when the folder was last changed by a commit, in seconds since 1970.
        changed: files of the folder that are not as in the commit, relative to it; untracked ones among them.
    """

    commit: str
    committed: int
    changed: tuple[str, ...]


def committed(folder: Path) -> int | None:
    """Return when a folder was last changed by a commit, in seconds since 1970; None where git knows none.

    What is changed since does not count: work in progress would else be another moment for each build.
    A shallow clone knows only its newest commits, and gives the time of the oldest of these for what is older.
    """
    paths = [".", *(f":(exclude,glob)**/{name}{tail}" for name in _NOT_SOURCE for tail in ("", "/**"))]
    said = git(folder, "rev-list", "--max-count=1", "--timestamp", "HEAD", "--", *paths)
    return int(said.split()[0]) if said else None


def look(folder: Path) -> Checkout | None:
    """Return what git says of a folder; None where it is no checkout, or none of its files was ever committed."""
    when = committed(folder)
    if when is None:
        return None
    commit = git(folder, "rev-parse", "HEAD") or ""
    # fsmonitor is a program that the repository's configuration names.
    status = git(folder, "-c", "core.fsmonitor=false", "status", "--porcelain=v1", "-z", "--no-renames", ".") or ""
    prefix = (git(folder, "rev-parse", "--show-prefix") or "").strip("\n")
    changed = (item[3:].removeprefix(prefix) for item in status.split("\0") if item)
    return Checkout(commit.strip(), when, tuple(sorted(changed)))


def git(folder: Path, *words: str, environment: Sequence[tuple[str, str]] = ()) -> str | None:
    """Return what git prints when it runs in a folder; None when it fails or is missing."""
    inherited = {name: value for name, value in os.environ.items() if name not in _OVERRIDES}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            env={**inherited, **_QUIET, **dict(environment)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError:
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None
