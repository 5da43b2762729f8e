"""Folders of a project: its state folder, which no checkout can write to, and ``runs/<time>-<process>`` of each run in it.

Everything that a later run or command reads again is there: journals, locks as builds get them, reports, logs, times.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from bakery.core.errors import OutputError, UsageError
from bakery.core.file_locks import locked_folder, try_lock
from bakery.core.files import write
from bakery.core.inside import remove_tree
from bakery.engine.paths import engine_paths

MAX_RUNS = 5
_LOCK = ".lock"
_RUNS = "runs"


@contextmanager
def run_folder(state: Path, *, keep: int = MAX_RUNS) -> Iterator[Path]:
    """Create the folder of a new run in the state folder of its project; prune old ones.

    The folder is locked until the context or its process ends; only unlocked ones are pruned. Its ``stage`` is removed
    at the end; logs and results stay. Raises OutputError if it cannot be created.
    """
    runs = state / _RUNS
    path = runs / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"
    try:
        runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The folder's own lock keeps another run from pruning the new one before it is locked.
        with locked_folder(runs):
            path = _fresh(path)
            handle = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            try_lock(handle)
            prune(runs, keep)
    except OSError as error:
        raise OutputError(f"cannot make {path}: {error}") from error
    try:
        yield path
    finally:
        remove_tree(path / "stage")
        os.close(handle)


def kept_runs(state: Path) -> list[Path]:
    """Return the folders of the runs that are kept in a state folder, the newest first."""
    folder = state / _RUNS
    if not folder.is_dir():
        return []
    runs = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    return sorted(runs, key=lambda path: (path.stat().st_mtime, path.name), reverse=True)


def make_own_folder(root: Path) -> None:
    """Make ``.bakery``, which git ignores, in a project: what a build needs there. Raises OutputError."""
    write(root, {".bakery/.gitignore": "*\n"})


def refuse_links(root: Path, folder: Path) -> None:
    """Refuse links on the way to a folder of the project ``root``, and in it: a checkout may contain links to anywhere.

    A folder outside of the project comes from the user and is not checked. Raises OutputError for a link, or if the
    folder cannot be read.
    """
    project, normal = (Path(os.path.normpath(item.absolute())) for item in (root, folder))
    if not normal.is_relative_to(project):
        return
    way = [normal, *normal.parents][: len(normal.relative_to(project).parts)]
    inside = (Path(parent, name) for parent, folders, files in os.walk(normal) for name in (*folders, *files))
    link = next((path for path in chain(reversed(way), inside) if path.is_symlink()), None)
    if link is not None:
        raise OutputError(f"{link} is a link, and bakery would write through it", hint="remove the link")


def _fresh(path: Path) -> Path:
    """Create ``path``, or with a number if one process bakes twice in a second."""
    for number in range(1, 1000):
        candidate = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            candidate.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return candidate
    raise FileExistsError(path)


def prune(runs: Path, keep: int = MAX_RUNS) -> None:
    """Remove the oldest runs beyond ``keep``, and the stage folders of dead ones.

    Runs that baked nothing are counted apart: they push out no logs.
    """
    folders = sorted((path for path in runs.iterdir() if path.is_dir() and not path.is_symlink()), key=_age)
    ended = [path for path in folders if not _in_use(path)]
    for path in ended:
        remove_tree(path / "stage")
    baked = [path for path in ended if (path / "logs").is_dir()]
    for group in (baked, [path for path in ended if path not in baked]):
        for path in group[: max(0, len(group) - keep)]:
            remove_tree(path)


def _age(path: Path) -> tuple[float, str]:
    # Not the name alone: clocks jump. A time in the future counts as the oldest.
    changed = path.stat().st_mtime
    return changed if changed <= time.time() + 1 else 0.0, path.name


def _in_use(run: Path) -> bool:
    try:
        handle = os.open(run / _LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        return not try_lock(handle)
    finally:
        os.close(handle)


STATE_DIR_VARIABLE = "BAKERY_STATE_DIR"
"""Sets the state folder of one project, for a CI that copies it from machine to machine."""

_OWNER = "project"
"""The file in a state folder with the path of its project."""

_HINT = f"set {STATE_DIR_VARIABLE} to another folder"


def state_folder(root: Path, environ: Mapping[str, str]) -> Path:
    """Return the state folder of a project, created if needed; only this user can write to it.

    Raises UsageError if the folder in the environment is inside the project, and OutputError if it cannot be created or
    other users can write to it.
    """
    project = root.resolve()
    try:
        if named := environ.get(STATE_DIR_VARIABLE):
            folder = Path(named).resolve()
            if folder.is_relative_to(project):
                raise UsageError(
                    f"{STATE_DIR_VARIABLE}={named} is inside the project, where everyone who can change the project can write",
                    hint="choose a folder outside of the project",
                )
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            folder = _of_project(project, engine_paths(environ).state / "projects")
        status = folder.stat(follow_symlinks=False)
    except OSError as error:
        path = error.filename or environ.get(STATE_DIR_VARIABLE) or root
        raise OutputError(f"cannot write the state folder {path}: {error.strerror or error}", hint=_HINT) from error
    is_private = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)
    if not stat.S_ISDIR(status.st_mode) or not is_private:
        raise OutputError(
            f"the state folder {folder} does not belong to this user alone",
            hint=f"fix it with chown and chmod go-w, or {_HINT}",
        )
    return folder


def _of_project(project: Path, projects: Path) -> Path:
    """Return the folder of a project. Creating one removes those of deleted projects."""
    name = os.fsencode(project)
    folder = projects / hashlib.sha256(name).hexdigest()[:32]
    if not folder.is_dir():
        projects.mkdir(mode=0o700, parents=True, exist_ok=True)
        for other in projects.iterdir():
            if _is_gone(other):
                remove_tree(other)
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / _OWNER).write_bytes(name)
    return folder


def _is_gone(folder: Path) -> bool:
    try:
        return not os.path.lexists((folder / _OWNER).read_bytes())
    except (OSError, ValueError):
        return False
