"""The bases that a first recipe may name. The default is one constant."""

from __future__ import annotations

from dataclasses import dataclass

from bakery.toolchains.bases.debian import SUITES


@dataclass(frozen=True, slots=True)
class BaseChoice:
    """A base, as a recipe writes it.

    Attributes:
        value: the value of ``builder.base``.
        label: how texts call it.
        pythons: its Pythons, oldest first.
        manager: its package manager: ``apt`` or ``dnf``; empty if unknown.
        rust: Python → the Rust in the packages of the release with that Python; empty if unknown.
    """

    value: str | dict[str, str]
    label: str
    pythons: tuple[str, ...]
    manager: str
    rust: tuple[tuple[str, str], ...] = ()


DEBIAN = BaseChoice(
    "debian",
    "Debian",
    tuple(SUITES),
    "apt",
    # packages.debian.org/rustc and rustc-web, read 2026-11-23; forky changes.
    (("3.9", "1.48"), ("3.11", "1.85"), ("3.13", "1.96")),
)

DEFAULT = DEBIAN
"""The base of a new recipe, unless the project or the command line names another."""

_MANYLINUX = tuple(f"3.{minor}" for minor in range(9, 15))


def base_choice(text: str) -> BaseChoice:
    """Return the base for ``debian``, or for the name of an image."""
    if text == DEBIAN.value:
        return DEBIAN
    is_manylinux = "manylinux" in text
    return BaseChoice({"image": text}, "the image", _MANYLINUX, "dnf" if is_manylinux else "")
