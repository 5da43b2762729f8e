"""The state folder of a project, in the user's own state folder: no checkout can write to it.

Everything that a later run trusts (journals, locks as builds get them) is here and nowhere else.
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
"""Sets the state folder of one project, for a CI that copies it from machine to machine."""

_OWNER = "project"
"""The file in a state folder with the path of its project."""

_HINT = f"set {STATE_DIR_VARIABLE} to another folder"


def state_folder(root: Path, environ: Mapping[str, str]) -> Path:
    """Return the state folder of the project ``root``, which is created if needed. Only this user can write to it.

    Raises:
        UsageError: the folder in the environment is inside the project.
        OutputError: it cannot be created, or other users can write to it.
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
    """Return the folder of a project. Creating one removes the folders of projects that no longer exist."""
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
