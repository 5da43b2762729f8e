"""Base ``image``: any image by name, with a digest or with build arguments in its name.

Images in manylinux layout are understood: interpreters below /opt/python, and AUDITWHEEL_PLAT, which
auditwheel reads by itself. What others lack comes from their own packages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bakery.core.errors import PlanError
from bakery.plan.cells import Image
from bakery.plan.dockerfile import Command, Stage
from bakery.plan.values import Ref, Value, substitute
from bakery.toolchains.bases.base import Base, Request, run

_NAME = re.compile(r"[a-z0-9][A-Za-z0-9._/:-]*\Z")
_PYTHON = Ref("PYTHON_VERSION")
_COMPLETE = "complete-image"


class AnyImage(Base):
    """One image for all Pythons, unless its name tells them apart."""

    name = "image"
    description = "any image by name and digest, such as a manylinux image"

    def for_building(self) -> tuple[Command, ...]:
        """Return the command that adds compilers, git and a Python where they are missing."""
        return (run(_COMPLETE, "build"),)

    def for_running(self) -> tuple[Command, ...]:
        """Return the command that adds the C++ library where it is missing."""
        return (run(_COMPLETE, "runtime"),)

    def for_python(self, version: Value) -> tuple[Command, ...]:
        """Return the command that adds a Python where it is missing."""
        return (run(_COMPLETE, "python", version),)

    def stages(self, request: Request) -> tuple[Stage, ...]:
        """Return none: the image is named in full."""
        return ()

    def root(self, request: Request, python: Value) -> Value:
        """Return the image; that of ``python`` where its name tells Pythons apart."""
        return tuple(part for item in _reference(request) for part in (python if item == _PYTHON else (item,)))

    def image(self, request: Request, python: str, platform: str, arguments: Mapping[str, str]) -> Image:
        """Return the image with its name as the cell has it."""
        values = {**arguments, _PYTHON.name: python}
        name = substitute(request.image, values)
        if not _NAME.match(name):
            hint = ", ".join(f"{part.name} is {values[part.name]!r}" for part in request.image if isinstance(part, Ref))
            raise PlanError(f"the base image would be {name!r}, which is no name of an image", hint=hint)
        return Image(substitute(_reference(request), values), platform)


def _reference(request: Request) -> Value:
    return (*request.image, f"@{request.digest}") if request.digest else request.image


PROVIDER = AnyImage()
