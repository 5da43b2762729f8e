"""What is known about a base image by its name."""

from __future__ import annotations

from bakery.facts import manylinux_images
from bakery.facts.rows import ManylinuxImage
from bakery.images import ImageName


def manylinux(image: ImageName | None) -> ManylinuxImage | None:
    """Return the facts about an image's family; None where there are none."""
    return next((row for row in manylinux_images() if image and row.name == image.family), None)
