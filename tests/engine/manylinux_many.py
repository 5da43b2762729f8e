"""An image in manylinux layout with several Pythons, made of what pyenv has on this machine.

``python tests/engine/manylinux_many.py`` makes it and prints its name.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from command import shell

from bakery.core.file_locks import locked_file

NAME = "bakery-standin/manylinux_2_36_x86_64:many"
"""What the image is called: the policy of Debian bookworm's C library, which the Pythons must be built for."""

OLDEST = (3, 9)
"""The oldest Python of today's manylinux images."""

_VERSION = re.compile(r"(3)\.([0-9]+)\.([0-9]+)")
_LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "site-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "_tkinter.*", "*.a", "share"
)
"""Installed packages, tests, and what needs libraries of a desktop."""


def pythons() -> dict[str, Path]:
    """Return tag (``cp312-cp312``) → folder of pyenv's newest release of each Python; empty without a pyenv."""
    pyenv = shutil.which("pyenv")
    if pyenv is None or platform.machine() != "x86_64":
        return {}
    root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=True).stdout.strip()
    matches = [(_VERSION.fullmatch(path.name), path) for path in Path(root, "versions").glob("*")]
    found = sorted((tuple(map(int, match.groups())), path) for match, path in matches if match)
    # Shared ones only: what a static one was made with stands in its program.
    usable = [(number, path) for number, path in found if number[:2] >= OLDEST and _is_shared(path)]
    return {f"cp{major}{minor}-cp{major}{minor}": path for (major, minor, _), path in usable}


def _is_shared(folder: Path) -> bool:
    return any(folder.glob("lib/libpython3.*.so.1.0"))


def make(environment: Mapping[str, str]) -> str:
    """Build the image in the engine and return its name; Debian's image must be there."""
    here = Path(__file__).parent
    # Docker fails if two builds make an image of one name.
    lock = Path(tempfile.gettempdir(), f"bakery-tests-{os.getuid()}", "manylinux-many")
    with locked_file(lock), tempfile.TemporaryDirectory() as scratch:
        for tag, folder in pythons().items():
            home = Path(scratch, "python", tag)
            shutil.copytree(folder, home, symlinks=True, ignore=_LEFT_OUT)
            (home / "made-for").write_text(f"{folder}\n")
        dockerfile = f"{here}/manylinux_many.Dockerfile"
        shell(environment, "docker", "build", "--provenance=false", "--tag", NAME, "-f", dockerfile, scratch)
    return NAME


if __name__ == "__main__":
    from bakery.engine import debian_rootfs
    from bakery.engine.discover import find

    reached = {**os.environ, **find().environment}
    debian_rootfs.ensure_debian(reached, "bookworm", "amd64", "debian:bookworm-slim", print)
    print(make(reached))
