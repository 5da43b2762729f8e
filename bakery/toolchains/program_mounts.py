"""Mounts of Bakery's programs: each step mounts the programs in its commands, and the programs that these call."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from bakery.plan.dockerfile import Command, Mount, Run, Script, Stage
from bakery.toolchains import programs

STAGE = "tools"
"""The stage with the programs, which steps mount."""

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

FOLDER = "/usr/local/bin"
"""The folder of the programs in steps."""

_CALLS = {
    "clang-for-cuda": ("install-packages",),
    "clang-tools": ("find-python", "fatbinary.py", "nvcc-clang", "clang-cuda.cmake"),
    "complete-image": ("find-python", "install-packages"),
    "cross-tools": ("install-packages",),
    "cuda_repository.py": ("install-packages", "packages"),
    "debian-nvcc": ("other-suite",),
    "host-compiler": ("install-packages", "other-suite"),
    "rust.py": ("install-packages", "packages"),
    "with-ccache": ("ccache-source", "ccache_text.py", "slot.py", "link_cache.py"),
}
_NO_COMMANDS = ("steps.py", "fatbinary.py", "nvcc-clang", "clang-cuda.cmake")
"""A program for cibuildwheel, and files that clang-tools copies."""

CALLS = {name: _CALLS.get(name, ()) for name in programs.names() if name not in _NO_COMMANDS}
"""Program → the programs that it calls."""

_SHELL = [name for name in CALLS if "." not in name and name != "packages"]
"""Programs on PATH. Commands contain the folder of Python programs."""

_NAME = re.compile(rf"(?<![\w./-])(?:{FOLDER}/({'|'.join(map(re.escape, CALLS))})|({'|'.join(_SHELL)}))(?![\w./-])")


def path(program: str) -> str:
    """Return the path of a Python program in steps."""
    return f"{FOLDER}/{program}"


def with_programs(stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Return stages whose steps mount the programs that they run, also those in commands of the recipe."""
    return tuple(
        replace(stage, steps=tuple(_mounted(step) if isinstance(step, Run) else step for step in stage.steps))
        for stage in stages
    )


def _mounted(run: Run) -> Run:
    matches = [match for command in run.commands for match in _NAME.finditer(_text(command))]
    named = [match[1] or match[2] for match in matches]
    mounted = dict.fromkeys(item for name in named for item in (name, *CALLS[name]))
    mounts = (Mount("bind", path(name), source=f"/{name}", from_=STAGE) for name in mounted)
    return replace(run, mounts=(*mounts, *run.mounts))


def _text(command: Command | Script) -> str:
    if isinstance(command, Script):
        return command.text
    # In a variable, only the path of a program is one: other words are the recipe's.
    values = [value for _, value in command.environment if value[:1] and str(value[0]).startswith(f"{FOLDER}/")]
    return " ".join("".join(part for part in word if isinstance(part, str)) for word in (*command.words, *values))
