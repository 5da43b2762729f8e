"""What bakery remembers of a project: in the user's state folder, where no checkout can put anything.

What a later run believes (journals, locks as builds are given them) is kept here and nowhere else.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from bakery.build.run_folders import remove_tree
from bakery.core.errors import OutputError, UsageError
from bakery.engine.paths import engine_paths

STATE_DIR_VARIABLE = "BAKERY_STATE_DIR"
"""Names the state folder of one project, for a CI that carries it from machine to machine."""

_OWNER = "project"
"""The file in a state folder that holds the path of its project."""

_HINT = f"{STATE_DIR_VARIABLE} names another folder"


def state_folder(root: Path, environ: Mapping[str, str]) -> Path:
    """Return the state folder of the project ``root``; it exists, and only this user can write to it.

    Raises:
        UsageError: the folder that the environment names is inside the project.
        OutputError: it cannot be made, or other users can write to it.
    """
    project = root.resolve()
    try:
        if named := environ.get(STATE_DIR_VARIABLE):
            folder = Path(named).resolve()
            if folder.is_relative_to(project):
                raise UsageError(
                    f"{STATE_DIR_VARIABLE}={named} is inside the project, where anyone who writes the project writes it",
                    hint="name a folder outside of it",
                )
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            folder = _of_project(project, engine_paths(environ).state / "projects")
        status = folder.stat(follow_symlinks=False)
    except OSError as error:
        place = error.filename or environ.get(STATE_DIR_VARIABLE) or root
        raise OutputError(f"cannot write the state folder {place}: {error.strerror or error}", hint=_HINT) from error
    is_own = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)
    if not stat.S_ISDIR(status.st_mode) or not is_own:
        raise OutputError(
            f"the state folder {folder} does not belong to this user alone",
            hint=f"chown it, and chmod go-w; or {_HINT}",
        )
    return folder


def _of_project(project: Path, projects: Path) -> Path:
    """Return the folder of a project; making a new one removes those of projects that are gone."""
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
