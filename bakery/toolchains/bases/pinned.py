"""Bases by short name: PyPA's images, such as ``manylinux_2_28``, each by the digest in the facts.

They have interpreters in /opt/python, compilers and auditwheel's AUDITWHEEL_PLAT, so nothing has to be installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bakery.core.errors import PlanError
from bakery.core.names import BASE_REGISTRY, TARGET_ARCH
from bakery.plan.cells import Image
from bakery.plan.dockerfile import Stage
from bakery.plan.values import Ref, Value, substitute
from bakery.toolchains import facts
from bakery.toolchains.bases.base import Base, Request
from bakery.toolchains.facts.rows import PinnedImage

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


class Pinned(Base):
    """One image for each architecture; TARGETARCH selects it.

    Attributes:
        place: the registry and owner of the images.
    """

    def __init__(self, name: str, rows: tuple[PinnedImage, ...]) -> None:
        self.name = name
        self.place = rows[0].image.rpartition("/")[0]
        self.description = f"{self.place}/{name}, tag {rows[0].tag}"
        self._rows = {row.platform: row for row in rows}

    def stages(self, request: Request) -> tuple[Stage, ...]:
        """Return one stage for each architecture."""
        self._require_pythons(request)
        if request.digest and not _DIGEST.match(request.digest):
            raise PlanError(
                f"{request.digest[:80]!r} is not the digest of a base image", hint="expected sha256: and 64 digits"
            )
        if request.digest and len(request.platforms) > 1:
            raise PlanError(
                f"one digest cannot pin base {self.name!r} for {', '.join(request.platforms)}: each has its own image",
                hint="remove the digest, or build one platform at a time: --set '*.platform=linux/amd64'",
            )
        comment = f"One image for each architecture; {BASE_REGISTRY} may name a mirror that has the same."
        return tuple(
            Stage(_stage(platform), self._reference(request, platform), comment="" if index else comment)
            for index, platform in enumerate(self._rows)
        )

    def _require_pythons(self, request: Request) -> None:
        """Raise PlanError for a Python that an image lacks; an image of the user's own may have others."""
        pythons = next(iter(self._rows.values())).pythons
        missing = [] if request.digest else [python for python in request.pythons if python not in pythons]
        if not missing:
            return
        removed = [row.removed for row in facts.removed_pythons() if not set(row.pythons).isdisjoint(missing)]
        older = f'base = {{ image = "{self.place}/{self.name}_x86_64:TAG" }} with a TAG from before {min(removed, default="")}'
        raise PlanError(
            f"matrix.python: base {self.name!r} has no Python {', '.join(missing)}",
            hint=f"it has {', '.join(pythons)}" + (f"; for older ones: {older}" if removed else ""),
        )

    def _reference(self, request: Request, platform: str) -> Value:
        row = self._rows[platform]
        digest = request.digest or row.digest
        name = f"/{row.image.rpartition('/')[2]}:{row.tag}" + (f"@{digest}" if digest else "")
        return (*request.image, name)

    def root(self, request: Request, python: Value) -> Value:
        """Return the stage of the platform's image, which has all Pythons."""
        return (_stage("linux/"), Ref(TARGET_ARCH))

    def image(self, request: Request, python: str, platform: str, arguments: Mapping[str, str]) -> Image:
        """Return the image of the platform."""
        return Image(substitute(self._reference(request, platform), arguments), platform)


def _stage(platform: str) -> str:
    return platform.replace("linux/", "base-")


PROVIDERS = tuple(Pinned(name, rows) for name, rows in facts.pinned_images().items())
