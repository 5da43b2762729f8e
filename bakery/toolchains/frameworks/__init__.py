"""Frameworks: torch and JAX. Each file has a ``PROVIDER``, a `Framework`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework that extensions are built for. Requirements are written as in recipes, with ``${NAME}``.

    Attributes:
        name: its name in recipes and in the package index.
        variable: the variable with its release.
        build: the requirements of the build: exactly this release.
        test: the requirements of the test, in addition to the wheel.
        runtime: the requirement in the wheel's metadata.
        components: the CUDA libraries whose headers its own headers include.
        nvcc: its build system supports only nvcc for CUDA.
        brings: the CUDA libraries that its distribution requires, as components.
        layer: patterns of the distributions that get a layer of their own: builders and tests of all projects share it.
    """

    name: str
    description: str
    variable: str
    build: tuple[str, ...]
    test: tuple[str, ...]
    runtime: str
    components: tuple[str, ...] = ()
    nvcc: bool = False
    brings: tuple[str, ...] = ()
    layer: tuple[str, ...] = ()
