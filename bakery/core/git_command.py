"""Runs git on repositories that are not trusted: it runs no program that their configuration names, and it ends.

Commands that read objects fetch nothing; commands that read files use another configuration than the repository's (`bakery.core.git`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bakery.core import child
from bakery.core.environment import for_tool

_FIXED = ("--no-pager", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # A missing object would be fetched by a program that the repository's configuration names.
    "GIT_NO_LAZY_FETCH": "1",
    # A commit is what its id says, not what refs/replace puts in its place.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
_OVERRIDES = (
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
"""Set while a hook runs; with them, git would use another repository than the folder's."""

_FILES_S = 600.0
"""Seconds for commands that read or write files of a checkout."""

_ANSWER_S = 20.0
"""Seconds for all other commands, and for every one if a file that it reads is a pipe: they read what git knows."""

_READ = (".gitattributes", ".gitignore")
"""Files that git reads in every folder of a checkout."""

_TIMES_S = {"rev-list": 30.0, "checkout": _FILES_S, "rev-parse": 5.0, "read-tree": _ANSWER_S}

_BUSY_S = 3
"""Seconds of a processor for commands that walk trees: a few small ones may name each other 10,000,000,000 times."""

LARGEST = 128 << 20
"""Bytes that git may print."""

_LONGEST_LIST = 24 << 20
"""Bytes of a list of files, which takes ten times as much memory: about 250,000 files. Those of recipes are fewer."""

_SILENT: set[Path] = set()
"""Folders whose repository gave no answer: it has a pipe in place of a file, or history without end. It is asked once."""


def git(
    folder: Path,
    *words: str,
    environment: Mapping[str, str] | None = None,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
) -> str | None:
    """Run git in a folder and return its output; None if it fails or is not installed.

    For commands that only read objects and references. Commands that read files need the environment of `_compared`.
    """
    answer = run(folder, *words, environment=environment, stdin=stdin)
    return None if answer.problem else answer.output


@dataclass(frozen=True, slots=True)
class Answer:
    """What git printed, and why it failed: empty if it did not."""

    output: str = ""
    problem: str = ""


def repository_folder(folder: Path) -> Path:
    """Return the nearest folder with a ``.git``; the folder itself if there is none."""
    return next((path for path in (folder, *folder.absolute().parents) if (path / ".git").exists()), folder)


def _pipe(top: Path) -> str:
    """Return a file that git reads, and that is a pipe or a device: it waits for a writer, or has no end. Empty for none."""
    for folder, _, names in os.walk(top):
        is_own = ".git" in Path(folder).parts
        for path in (Path(folder, name) for name in names if is_own or name in _READ):
            if path.is_fifo() or path.is_char_device():
                return str(path)
    return ""


def run(
    folder: Path,
    *words: str,
    environment: Mapping[str, str] | None = None,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
) -> Answer:
    """Run git in a folder, as `git`, and return why it failed, too."""
    if _SILENT and repository_folder(folder) in _SILENT:
        return Answer(problem="git does not answer")
    inherited = {name: value for name, value in for_tool().items() if name not in _OVERRIDES}
    limit = _TIMES_S.get(words[0], _FILES_S if environment else _ANSWER_S)
    most = _LONGEST_LIST if words[0] in ("ls-tree", "ls-files", "diff", "cat-file") else LARGEST
    busy = _BUSY_S if words[0] in ("ls-tree", "read-tree") else 0
    argv = ["git", *_FIXED, "-C", str(folder), *words]
    env = for_tool(inherited, {**_QUIET, **(environment or {})})
    top = repository_folder(folder)
    try:
        ended = child.run(
            argv,
            env=env,
            seconds=limit,
            most=most,
            patience=_ANSWER_S,
            is_stuck=lambda: bool(_pipe(top)),
            busy=busy,
            stdin=stdin,
        )
    except OSError:
        return Answer(problem="git is not installed")
    if ended.is_long:
        return Answer(problem=f"`git {words[0]}` printed more than {most >> 20} MB")
    if ended.is_late:
        _SILENT.add(top)
        why = (
            f"{pipe} is not a regular file" if (pipe := _pipe(top)) else f"`git {words[0]}` took more than {limit:g} s"
        )
        return Answer(problem=f"git does not answer: {why}")
    if ended.code == 0:
        return Answer(os.fsdecode(ended.output))
    lines = ended.errors.decode(errors="replace").strip().splitlines()
    return Answer(problem=next((line for line in lines if line.startswith("fatal:")), "git failed"))
