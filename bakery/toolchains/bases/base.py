"""What a base provides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from bakery.plan.cells import Image
from bakery.plan.dockerfile import Command, Stage
from bakery.plan.values import Value, literal
from bakery.toolchains import program_mounts


@dataclass(frozen=True, slots=True)
class Request:
    """The requirements of a recipe on its base.

    Attributes:
        image: the image name, or the registry and owner of an image with a short name; it may refer to build arguments.
            Empty if the provider needs none.
        digest: the image digest; empty for any, or for that of the facts.
        pythons: the Python versions of all cells.
        platforms: the Linux platforms of all cells.
    """

    image: Value
    digest: str
    pythons: tuple[str, ...]
    platforms: tuple[str, ...] = ()


def run(program: str, *words: str | Value) -> Command:
    """Return the command that runs a program with network access."""
    return Command(
        tuple(
            literal(word) if isinstance(word, str) else word for word in (program_mounts.path("net"), program, *words)
        )
    )


class Base(ABC):
    """A provider of root file systems.

    Attributes:
        name: its name in recipes.
        build_packages: system packages that builders need and the base lacks.
        runtime_packages: system packages that all wheels need and the base lacks.
        crosses: it has cross compilers for other platforms.
        compiler_flags: what the compiler is told beside the flags of the base's Python.
    """

    name: str
    description: str
    build_packages: tuple[str, ...] = ()
    runtime_packages: tuple[str, ...] = ()
    crosses: bool = False
    compiler_flags: str = ""

    def for_building(self) -> tuple[Command, ...]:
        """Return the commands that install what builders need and the base lacks."""
        return (run("install-packages", *self.build_packages),) if self.build_packages else ()

    def for_running(self) -> tuple[Command, ...]:
        """Return the commands that install what all wheels need and the base lacks."""
        return (run("install-packages", *self.runtime_packages),) if self.runtime_packages else ()

    def for_python(self, version: Value) -> tuple[Command, ...]:
        """Return the commands that install a Python version; none if the base has it."""
        return ()

    @abstractmethod
    def stages(self, request: Request) -> tuple[Stage, ...]:
        """Return the stages of the root file systems; none if ``FROM`` names the image itself.

        Raises:
            PlanError: the base does not satisfy the request.
        """

    @abstractmethod
    def image(self, request: Request, python: str, platform: str, arguments: Mapping[str, str]) -> Image:
        """Return the base image of a cell with the build arguments ``arguments``.

        Raises:
            PlanError: their values do not result in an image name.
        """

    @abstractmethod
    def root(self, request: Request, python: Value) -> Value:
        """Return the value of ``FROM`` for a Python, given as a version or as a reference to one."""
