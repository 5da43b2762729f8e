"""What a base provides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from bakery.plan import Image, Stage


@dataclass(frozen=True, slots=True)
class Request:
    """What a recipe asks of a base.

    Attributes:
        image: the image's name, empty where the provider needs none.
        digest: its digest, empty for any.
        pythons: the Python versions of all cells.
    """

    image: str
    digest: str
    pythons: tuple[str, ...]


class Base(ABC):
    """A provider of root file systems.

    Attributes:
        name: what a recipe calls it.
        build_packages: system packages that a builder needs and the base lacks.
        runtime_packages: system packages that running any wheel needs and the base lacks.
    """

    name: str
    description: str
    build_packages: tuple[str, ...] = ()
    runtime_packages: tuple[str, ...] = ()

    @abstractmethod
    def stages(self, request: Request) -> tuple[Stage, ...]:
        """Return the stages that end in one called ``root``.

        Raises:
            PlanError: the base cannot serve the request.
        """

    @abstractmethod
    def image(self, request: Request, python: str, platform: str) -> Image:
        """Return the image that a cell needs the engine to have."""

    @property
    @abstractmethod
    def global_args(self) -> tuple[str, ...]:
        """Build arguments that the ``FROM`` lines of the stages use."""
