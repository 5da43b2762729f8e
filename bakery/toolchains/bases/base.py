"""What a base provides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from bakery.plan.cells import Image
from bakery.plan.dockerfile import Command, Stage
from bakery.plan.values import Value, literal


@dataclass(frozen=True, slots=True)
class Request:
    """The requirements of a recipe on its base.

    Attributes:
        image: the image's name, which may refer to build arguments; empty where the provider needs none.
        digest: its digest, empty for any.
        pythons: the Python versions of all cells.
    """

    image: Value
    digest: str
    pythons: tuple[str, ...]


def run(program: str, *words: str | Value) -> Command:
    """Return the command that runs a program which uses the network."""
    return Command(tuple(literal(word) if isinstance(word, str) else word for word in ("net", program, *words)))


class Base(ABC):
    """A provider of root file systems.

    Attributes:
        name: what a recipe calls it.
        build_packages: system packages that a builder needs and the base lacks.
        runtime_packages: system packages that running any wheel needs and the base lacks.
        crosses: it has cross compilers for other platforms.
    """

    name: str
    description: str
    build_packages: tuple[str, ...] = ()
    runtime_packages: tuple[str, ...] = ()
    crosses: bool = False

    def for_building(self) -> tuple[Command, ...]:
        """Return the commands that add what a builder needs and the base lacks."""
        return (run("install-packages", *self.build_packages),) if self.build_packages else ()

    def for_running(self) -> tuple[Command, ...]:
        """Return the commands that add what running any wheel needs and the base lacks."""
        return (run("install-packages", *self.runtime_packages),) if self.runtime_packages else ()

    def for_python(self, version: Value) -> tuple[Command, ...]:
        """Return the commands that install a Python of that version; none if the base has it."""
        return ()

    @abstractmethod
    def stages(self, request: Request) -> tuple[Stage, ...]:
        """Return the stages of the root file systems; none if ``FROM`` names the image itself.

        Raises:
            PlanError: the base cannot serve the request.
        """

    @abstractmethod
    def image(self, request: Request, python: str, platform: str, arguments: Mapping[str, str]) -> Image:
        """Return the image that a cell needs the engine to have.

        Args:
            arguments: the cell's build arguments.

        Raises:
            PlanError: their values make no name of an image.
        """

    @abstractmethod
    def root(self, request: Request, python: Value) -> Value:
        """Return what ``FROM`` takes for the root file system of a Python: a version, or a reference to one."""
