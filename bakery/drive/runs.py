"""The folders of runs, ``.bakery/runs/<time>-<process>``: made, locked while in use, pruned when old."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bakery.drive.locks import lock, locked_folder
from bakery.errors import OutputError

KEPT = 5
"""Ended runs whose logs are kept."""

_LOCK = ".lock"


@contextmanager
def run_folder(root: Path, *, keep: int = KEPT) -> Iterator[Path]:
    """Make the folder of a new run in the project ``root``; prune old ones.

    The folder is locked until the context ends, or until its process dies; only what is not locked is pruned.
    Its ``stage`` is removed at the end; logs and results stay.

    Raises:
        OutputError: it cannot be made, or ``.bakery`` leads out of the project.
    """
    runs = inner_folder(root, "runs")
    path = runs / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"
    try:
        # The folder's own lock keeps another run from pruning the new one before it is locked.
        with locked_folder(runs):
            path = _fresh(path)
            handle = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            lock(handle)
            prune(runs, keep)
    except OSError as error:
        raise OutputError(f"cannot make {path}: {error}") from error
    try:
        yield path
    finally:
        remove_tree(path / "stage")
        os.close(handle)


def inner_folder(root: Path, name: str) -> Path:
    """Make a folder in ``.bakery``, which git ignores.

    Raises:
        OutputError: it cannot be made, or it leads out of the project ``root``.
    """
    home = root / ".bakery"
    folder = home / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not folder.resolve().is_relative_to(root.resolve()):
            raise OutputError(f"{folder} leads out of {root}", hint="remove the link")
        ignore = home / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error}") from error
    return folder


def _fresh(path: Path) -> Path:
    """Make ``path``, or a name beside it where one process bakes twice in a second."""
    for number in range(1, 1000):
        candidate = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            candidate.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return candidate
    raise FileExistsError(path)


def prune(runs: Path, keep: int = KEPT) -> None:
    """Remove the oldest runs beyond ``keep``, and what the dead ones left in their stage folders."""
    folders = sorted((path for path in runs.iterdir() if path.is_dir() and not path.is_symlink()), key=_age)
    ended = [path for path in folders if not _in_use(path)]
    for path in ended:
        remove_tree(path / "stage")
    for path in ended[: max(0, len(ended) - keep)]:
        remove_tree(path)


def _age(path: Path) -> tuple[float, str]:
    # Not the name alone: clocks jump. What is of a time to come is older than anything that is made now.
    changed = path.stat().st_mtime
    return changed if changed <= time.time() + 1 else 0.0, path.name


def _in_use(run: Path) -> bool:
    try:
        handle = os.open(run / _LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        lock(handle, wait=False)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def remove_tree(path: Path) -> None:
    """Remove a folder as far as that is possible; links are removed, not followed."""
    if path.is_symlink() or not path.is_dir():
        return
    # What came out of a container may have folders that its owner cannot enter.
    for folder, _, _ in os.walk(path):
        Path(folder).chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)
