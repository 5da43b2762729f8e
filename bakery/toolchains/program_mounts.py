"""Mounts of bakery's programs: each step mounts the programs that its commands name, and what these call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from bakery.plan.dockerfile import Command, Mount, Run, Script, Stage

STAGE = "tools"
"""The stage, or the build context of that name in its place, that holds the programs."""

CONTEXT_FOLDER = "dockerfiles/bin"
"""Where a build context has them, for all recipes of a workspace."""

FOLDER = "/usr/local/bin"
"""Where a step has them."""

_PYTHON = {
    "archive.py": (),
    "cuda_repository.py": ("install-packages",),
    "cuda_tree.py": (),
    "finish.py": (),
    "glibc_headers.py": (),
    "libcuda_stub.py": (),
    "link_programs.py": (),
    "materials.py": (),
    "packages": (),
    "requires.py": (),
    "smoke.py": (),
}
"""Python program → the shell programs that it calls. Commands name it with its folder."""

_SHELL = {
    "carry-ccache": (),
    "clang-for-cuda": ("install-packages",),
    "clang-tools": ("find-python", "fatbinary.py", "nvcc-clang", "clang-cuda.cmake"),
    "complete-image": ("find-python", "install-packages"),
    "count-ccache": (),
    "cross-tools": ("install-packages",),
    "debian-nvcc": ("other-suite",),
    "find-python": (),
    "host-compiler": ("install-packages", "other-suite"),
    "install-packages": (),
    "net": (),
    "other-suite": (),
    "own-cuda": (),
    "with-ccache": (),
    "with-cross": (),
    "with-jobs": (),
}
"""Shell program → the programs that it calls. Commands find it on PATH."""

CALLS: Mapping[str, tuple[str, ...]] = {**_PYTHON, **_SHELL}
_NAME = re.compile(rf"(?<![\w./-])(?:{FOLDER}/({'|'.join(map(re.escape, CALLS))})|({'|'.join(_SHELL)}))(?![\w./-])")


def path(program: str) -> str:
    """Return where a step has a Python program."""
    return f"{FOLDER}/{program}"


def with_programs(stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Return stages whose steps mount the programs that they run. A recipe's own commands may name them, too."""
    return tuple(
        replace(stage, steps=tuple(_mounted(step) if isinstance(step, Run) else step for step in stage.steps))
        for stage in stages
    )


def _mounted(run: Run) -> Run:
    matches = [match for command in run.commands for match in _NAME.finditer(_text(command))]
    named = [match[1] or match[2] for match in matches]
    programs = dict.fromkeys(item for name in named for item in (name, *CALLS[name]))
    mounts = (Mount("bind", path(name), source=f"/{name}", from_=STAGE) for name in programs)
    return replace(run, mounts=(*mounts, *run.mounts))


def _text(command: Command | Script) -> str:
    if isinstance(command, Script):
        return command.text
    return " ".join("".join(part for part in word if isinstance(part, str)) for word in command.words)
