"""Bakery's programs in steps: each role of steps has a folder with all programs that its steps run.

A changed program repeats only the steps of roles that have it. A program that several roles need is in the folder of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bakery.plan.dockerfile import Copy, Role, Run, Stage
from bakery.toolchains import programs

STAGE = "tools"
"""The stage with the folders, which steps mount."""

CONTEXT = "programs"
"""The stage that `STAGE` copies the programs from. In a run of Bakery, a build context of this name replaces it.

No step mounts it: BuildKit gives a build context a new cache key in each build, and links that key to all earlier results of
each step that mounts it. Its database would grow with each build, and builds would take longer (docs/speed.md).
"""

REPOSITORY = "repository"
"""The stage with the description of the checkout's git repository. In a run of Bakery, a context replaces it, too."""

GIT_CHECKOUT, GIT_PREFIX = "GIT_CHECKOUT", "GIT_PREFIX"
"""Build arguments: the folder with ``.git``, empty for a build without git; the project's folder in the repository."""

GIT_CONTEXTS = {"git-checkout": GIT_CHECKOUT, "git-directory": "GIT_DIRECTORY"}
"""Stage → variable. In a plain ``docker buildx bake``, the folder that the variable names replaces the empty stage."""

CONTEXT_FOLDER = "dockerfiles/bin"
"""The folder of the programs in build contexts, for all recipes of a workspace."""

FOLDER = "/programs"
"""The folder of the programs in steps."""

_NETWORK = ("net", "find-python", "install-packages")

PROGRAMS: Mapping[Role, tuple[str, ...]] = {
    Role.SYSTEM: (*_NETWORK, "complete-image", "cross-tools", "make_venv.py"),
    Role.PACKAGES: ("net", "find-python", "packages"),
    Role.SOURCE: ("cargo_project.py", "repository.py", "requires.py"),
    Role.CUDA: (
        *_NETWORK,
        *("clang-cuda.cmake", "clang-for-cuda", "clang-tools", "cuda_repository.py", "cuda_tree.py", "debian-nvcc"),
        *("fatbinary.py", "glibc_headers.py", "host-compiler", "libcuda_stub.py", "nvcc-clang", "other-suite"),
        *("own-cuda", "packages"),
    ),
    Role.RUST: (*_NETWORK, "packages", "rust.py", "vendor-crates"),
    Role.BACKEND: ("packages", "with_repository.py"),
    Role.COMPILE: (
        *(*_NETWORK, "with_repository.py", "with-cross", "with-jobs"),
        *("with-ccache", "ccache-source", "ccache_text.py", "count-ccache", "link_cache.py", "nvcc-ccache", "slot.py"),
    ),
    Role.FINISH: ("archive.py", "finish.py", "link_programs.py"),
    Role.TEST: ("smoke.py",),
    Role.RECORDS: ("net", "base-packages", "materials.py"),
    Role.CACHE: ("carry-ccache",),
}
"""Role → the programs in its folder. A command before the build may call those that install packages."""

SHELL = Copy(tuple(f"/{Role.SYSTEM}/{name}" for name in _NETWORK), "/usr/local/bin/", STAGE)
"""The step that copies the programs for interactive use into an image."""


def path(program: str) -> str:
    """Return the path of a program in steps."""
    return f"{FOLDER}/{program}"


def roles(stages: Iterable[Stage]) -> tuple[Role, ...]:
    """Return the roles whose programs the steps of stages have, in order."""
    steps = [step for stage in stages for step in stage.steps]
    used = {step.programs for step in steps if isinstance(step, Run)} | {Role.SYSTEM for step in steps if step == SHELL}
    return tuple(role for role in PROGRAMS if role in used)


def texts(role: Role) -> dict[str, str]:
    """Return path → text of the files in the folder of a role."""
    return {path: text for name in PROGRAMS[role] for path, text in programs.texts(name).items()}
