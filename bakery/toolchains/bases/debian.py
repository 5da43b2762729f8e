"""Base ``debian``: the Debian release whose ``python3`` is the Python of the cell.

If no image registry can be reached, `bakery.engine.debian_rootfs` makes the same file system under the same name from
the package mirror of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from bakery.core.errors import PlanError
from bakery.plan.cells import Image
from bakery.plan.dockerfile import Stage
from bakery.plan.values import Value, literal
from bakery.toolchains.bases.base import Base, Request
from bakery.toolchains.facts import pinned_images

SUITES = {"3.9": "bullseye", "3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}
"""Python → the Debian release that ships it as ``python3`` (packages.debian.org, read 2026-11-20)."""


class Debian(Base):
    """Debian's images: one for each suite and architecture."""

    name = "debian"
    description = "the Debian release whose own Python is the one asked for"
    build_packages = ("build-essential", "ccache", "git", "python3-dev", "python3-venv")
    runtime_packages = ("libstdc++6", "python3", "python3-venv")
    crosses = True
    # setuptools compiles with the flags of its Python, and Debian's has -g: most of a wheel would be debug information.
    compiler_flags = "-g0"

    def stages(self, request: Request) -> tuple[Stage, ...]:
        """Return one stage for each release."""
        missing = [python for python in request.pythons if python not in SUITES]
        if missing:
            raise PlanError(
                f"matrix.python: base 'debian' has no Python {', '.join(missing)}",
                hint=f"it has {', '.join(SUITES)}; {_other_bases(missing)}",
            )
        return tuple(
            Stage(
                f"python-{python}", literal(_reference(suite)), comment="" if index else "One release for each Python."
            )
            for index, (python, suite) in enumerate(SUITES.items())
        )

    def root(self, request: Request, python: Value) -> Value:
        """Return the stage of the release that ships ``python``."""
        return ("python-", *python)

    def image(self, request: Request, python: str, platform: str, arguments: Mapping[str, str]) -> Image:
        """Return the image of the suite that ships ``python``."""
        return Image(_reference(SUITES[python]), platform, SUITES[python])


def _other_bases(pythons: list[str]) -> str:
    """Return which short names have these Pythons, or what else to write."""
    images = pinned_images().items()
    having = [name for name, rows in images if set(pythons) <= set(rows[0].pythons) and rows[0].digest]
    if not having:
        return 'for others name an image that has them: base = { image = "…" }'
    first = "manylinux_2_28" if "manylinux_2_28" in having else having[0]
    return f'use base = "{first}" ({", ".join(name for name in having if name != first)} have them, too)'


def _reference(suite: str) -> str:
    return f"debian:{suite}-slim"


PROVIDER = Debian()
