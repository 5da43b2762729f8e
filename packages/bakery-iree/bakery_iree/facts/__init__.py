"""Facts about IREE: TOML tables in this folder, each row with its source and date."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from bakery.toolchains.facts.rows import Row
from bakery_iree.models.module import Backend, Machine


class IreeRelease(Row):
    """A release of IREE's compiler, the default first; ``runtime`` is the oldest runtime known to load its modules."""

    version: str
    runtime: str


class IreeTarget(Row):
    """Devices that IREE's compiler compiles for with the same flags.

    Attributes:
        names: the part after ``BACKEND:``; an empty text for the backend alone. It replaces ``{}`` in flags.
        prefix: the start of each name, which flags omit.
        architecture: the architecture in records, if it is not the name.
        machine: the machine of CPU code.
        device: the argument of ``iree-run-module --device=``.
        is_local: the result depends on the machine that compiles.
    """

    backend: Backend
    names: tuple[str, ...]
    flags: tuple[str, ...]
    device: str
    prefix: str = ""
    architecture: str = ""
    machine: Machine = ""
    is_local: bool = False


class IreeRefused(Row):
    """Target names that look valid and are refused."""

    names: tuple[str, ...]
    why: str
    instead: tuple[str, ...]


@cache
def _tables() -> dict[str, list[object]]:
    return tomllib.loads((files(__package__) / "iree.toml").read_text(encoding="utf-8"))


@cache
def iree_releases() -> tuple[IreeRelease, ...]:
    """Return the releases of the compiler, the default first."""
    return tuple(map(IreeRelease.model_validate, _tables()["releases"]))


@cache
def iree_targets() -> tuple[IreeTarget, ...]:
    """Return what the compiler compiles for."""
    return tuple(map(IreeTarget.model_validate, _tables()["targets"]))


@cache
def iree_refused() -> tuple[IreeRefused, ...]:
    """Return names of targets that are refused."""
    return tuple(map(IreeRefused.model_validate, _tables()["refused"]))


def iree_requirements(runtime: str) -> str:
    """Return pip's requirements, with hashes, for a release of iree-base-runtime; empty if it is unknown."""
    file = files(__package__) / f"iree-runtime-{runtime}.txt"
    return file.read_text(encoding="utf-8") if file.is_file() else ""
