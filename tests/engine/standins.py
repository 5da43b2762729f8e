"""Stand-ins for images that cannot be had everywhere: what others publish, as far as a build can tell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from command import bakery, shell
from projects import pure
from registry import Pushed, push

from bakery.engine.ca_bundle import find_ca_bundle
from bakery.toolchains.facts import pinned_images

CUDA = "13.0.3"
EPOCH = 315532800
"""SOURCE_DATE_EPOCH of recipes that set none."""


def _short(name: str) -> str:
    """Return the image of a short name on linux/amd64, without its registry."""
    row = pinned_images()[name][0]
    return f"{row.image.partition('/')[2]}:{row.tag}"


NAMES = {
    "nvidia": f"nvidia/cuda:{CUDA}-devel-ubuntu22.04",
    "manylinux-cuda": _short("manylinux_2_28_cuda13_0"),
    "redhat": _short("manylinux_2_28"),
    "debian-repository": "pypa/manylinux_2_31_x86_64:2026.10.26-1",
}
"""Target of standins.Dockerfile → the name of what it stands for, below a registry."""

_TREE = f'name = "tree"\nvariables.CUDA_VERSION = "{CUDA}"\n[builder]\ntoolkit = "cuda"\n[test]\nimports = ["demo"]\n'


def cuda_tree(environment: Mapping[str, str], folder: Path) -> str:
    """Return the name of an image with the CUDA of bakery's own toolkit; the caller removes it."""
    bakery(pure(folder, _TREE), "wheel")
    bakery(folder, "generate")
    name = f"bakery-test/cuda-tree:{os.getpid()}"
    bundle = find_ca_bundle(None, os.environ)
    shell(
        environment,
        *("docker", "build", "--provenance=false", "--tag", name, "--target", "toolkit"),
        # As the bake had it, so that its layers are found; a layer that is made anew needs the machine's certificates.
        *("--build-arg", f"SOURCE_DATE_EPOCH={EPOCH}"),
        *(("--secret", f"id=ca-bundle,src={bundle}") if bundle else ()),
        *("-f", str(folder / "dockerfiles" / "tree.Dockerfile"), str(folder)),
    )
    return name


def make(environment: Mapping[str, str], registry: str, target: str, contexts: Mapping[str, str]) -> Pushed:
    """Build a stand-in, and leave it in the registry alone.

    Args:
        contexts: name in the Dockerfile → image or folder.
    """
    here = Path(__file__).parent
    name = f"bakery-test/{target}:{os.getpid()}"
    given = [word for key, value in contexts.items() for word in ("--build-context", f"{key}={value}")]
    shell(
        environment,
        *("docker", "build", "--provenance=false", "--tag", name, "--target", target, *given),
        *("-f", str(here / "standins.Dockerfile"), str(here)),
    )
    pushed = push(environment, name, f"{registry}/{NAMES[target]}")
    shell(environment, "docker", "rmi", "--force", name)
    return pushed
