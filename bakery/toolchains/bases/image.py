"""Base ``image``: any image by name, with a digest or with build arguments in its name.

Manylinux images have interpreters in /opt/python and set AUDITWHEEL_PLAT, which auditwheel reads. In other images,
missing tools are installed with the image's own package manager.
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
    """One image for all Pythons, unless its name contains the Python version."""

    name = "image"
    description = "any image by name and digest, such as a manylinux image"

    def for_building(self) -> tuple[Command, ...]:
        """Return the command that installs compilers, git and a Python if they are missing."""
        return (run(_COMPLETE, "build"),)

    def for_running(self) -> tuple[Command, ...]:
        """Return the command that installs the C++ library if it is missing."""
        return (run(_COMPLETE, "runtime"),)

    def for_python(self, version: Value) -> tuple[Command, ...]:
        """Return the command that installs a Python if it is missing."""
        return (run(_COMPLETE, "python", version),)

    def stages(self, request: Request) -> tuple[Stage, ...]:
        """Return no stages, since ``FROM`` names the image."""
        return ()

    def root(self, request: Request, python: Value) -> Value:
        """Return the image, with ``python`` in place of PYTHON_VERSION."""
        return tuple(part for item in _reference(request) for part in (python if item == _PYTHON else (item,)))

    def image(self, request: Request, python: str, platform: str, arguments: Mapping[str, str]) -> Image:
        """Return the image with its name in the cell."""
        values = {**arguments, _PYTHON.name: python}
        name = substitute(request.image, values)
        if not _NAME.match(name):
            hint = ", ".join(f"{part.name} is {values[part.name]!r}" for part in request.image if isinstance(part, Ref))
            raise PlanError(f"the base image would be {name!r}, which is not an image name", hint=hint)
        return Image(substitute(_reference(request), values), platform)


def _reference(request: Request) -> Value:
    return (*request.image, f"@{request.digest}") if request.digest else request.image


PROVIDER = AnyImage()
