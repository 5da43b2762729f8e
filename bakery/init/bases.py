"""The bases that a first recipe may name. The default is one constant."""

from __future__ import annotations

from typing import NamedTuple

from bakery.core.cell_ids import MACHINES
from bakery.core.image_names import parse
from bakery.toolchains import facts
from bakery.toolchains.bases.debian import SUITES

DEFAULT = "manylinux_2_28"
"""The base of a new recipe, unless the project or the command line names another."""


class BaseChoice(NamedTuple):
    """A base, as a recipe writes it.

    Attributes:
        value: the value of ``builder.base``.
        label: how texts call it.
        pythons: its Pythons, oldest first.
        manager: its package manager: ``apt`` or ``dnf``; empty if unknown.
        free_threaded: its free-threaded Pythons, for projects that ask for them.
    """

    value: str | dict[str, str]
    label: str
    pythons: tuple[str, ...]
    manager: str
    free_threaded: tuple[str, ...] = ()

    @property
    def platform(self) -> str:
        """The platform that an image has in its name; empty if it has none."""
        machine = parse(self.value["image"]).machine if isinstance(self.value, dict) else ""
        return next((platform for platform, name in MACHINES.items() if name == machine), "")


def base_choice(text: str) -> BaseChoice:
    """Return the base for ``debian``, a short name such as ``manylinux_2_28``, or the name of an image."""
    if text == "debian":
        return BaseChoice(text, "Debian", tuple(SUITES), "apt")
    manager = "dnf" if "manylinux" in text else ""
    images = facts.pinned_images()
    every = images.get(text, images[DEFAULT])[0].pythons
    pythons = tuple(python for python in every if not python.endswith("t"))
    free_threaded = tuple(python for python in every if python.endswith("t"))
    if text in images:
        return BaseChoice(text, text, pythons, manager, free_threaded)
    return BaseChoice({"image": text}, "the image", pythons, manager, free_threaded)
