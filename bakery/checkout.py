"""What git says of a source folder: its last commit, and what was changed since."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_NOT_SOURCE = ("bakery.toml", "bake", "dockerfiles")
"""Recipes and the files made of them stand beside a source and enter no build: their commits change no wheel."""

_QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
_OVERRIDES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Set while a hook runs; they would lead git to another repository than the folder's."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """Files in a git repository.

    Attributes:
        commit: the checked-out commit, 40 or 64 hex digits.
        changed: which of the files are not as in the commit: changed, unknown to git, or missing.
    """

    commit: str
    changed: tuple[str, ...]


def committed(folder: Path) -> int | None:
    """Return when a folder was last changed by a commit, in seconds since 1970; None where git knows none.

    What is changed since does not count: work in progress would else be another moment for each build.
    A shallow clone knows only its newest commits, and gives the time of the oldest of these for what is older.
    """
    paths = [".", *(f":(exclude,glob)**/{name}{tail}" for name in _NOT_SOURCE for tail in ("", "/**"))]
    said = git(folder, "rev-list", "--max-count=1", "--timestamp", "HEAD", "--", *paths)
    return int(said.split()[0]) if said else None


def look(folder: Path, names: Iterable[str]) -> Checkout | None:
    """Return what git says of files below a folder; None where it is no checkout, or knows none of the files.

    Args:
        names: the files, relative to the folder.
    """
    sent = set(names)
    commit = git(folder, "rev-parse", "HEAD")
    tracked = _listed(git(folder, "ls-files", "-z"))
    if commit is None or not sent & tracked:
        return None
    # fsmonitor is a program that the repository's configuration names.
    told = git(folder, "-c", "core.fsmonitor=false", "diff", "--no-ext-diff", "--name-only", "-z", "--relative", "HEAD")
    differ = _listed(told)
    beside = {str(Path(name).parent) for name in sent}
    gone = {name for name in differ - sent if str(Path(name).parent) in beside and not (folder / name).exists()}
    return Checkout(commit.strip(), tuple(sorted((sent - tracked) | (sent & differ) | gone)))


def _listed(text: str | None) -> set[str]:
    return {name for name in (text or "").split("\0") if name}


def clone(folder: Path, commit: str, place: Path) -> Path | None:
    """Check a commit of the folder's repository out into an empty folder; return where ``folder`` is in it.

    Nothing is fetched, no hook runs, and the repository and its checkout stay as they are. None where it lacks the
    commit.
    """
    top, prefix = git(folder, "rev-parse", "--show-toplevel"), git(folder, "rev-parse", "--show-prefix")
    if top is None or prefix is None or not re.fullmatch("[0-9a-f]{40,64}", commit):
        return None
    source = top.removesuffix("\n")
    made = git(place, "clone", "--quiet", "--shared", "--no-checkout", "--template=", "--", source, "source")
    inside = place / "source"
    if made is None or git(inside, "checkout", "--quiet", "--detach", commit) is None:
        return None
    return inside / prefix.removesuffix("\n")


def origin(folder: Path) -> str:
    """Return the address of a checkout's remote ``origin``; empty where there is none or it is on this machine."""
    found = (git(folder, "remote", "get-url", "origin") or "").strip()
    return found if re.match(r"(?:https?|ssh|git)://|[\w.-]+@[\w.-]+:", found) else ""


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
