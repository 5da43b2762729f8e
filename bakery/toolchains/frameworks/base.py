"""What a framework is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework that extensions are built for. Requirements are written as in recipes, with ``${NAME}``.

    Attributes:
        name: what a recipe calls it, and its distribution in the package index.
        description: one line for people.
        variable: the variable, or the axis' variable, that holds its release.
        build: what the build sees: exactly this release.
        test: what the test sees beside the wheel.
        runtime: what the wheel's metadata requires of its user.
        components: CUDA's libraries whose headers the framework's own include.
        nvcc: its build system drives no other compiler for CUDA.
    """

    name: str
    description: str
    variable: str
    build: tuple[str, ...]
    test: tuple[str, ...]
    runtime: str
    components: tuple[str, ...] = ()
    nvcc: bool = False
