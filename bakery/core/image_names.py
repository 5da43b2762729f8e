"""Names of images, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_OWN, _LIBRARY = "docker.io/", "library/"
"""What Docker puts in front of names that have no registry, and of those that have no owner."""

_MANYLINUX = re.compile(r"(?P<family>manylinux(?:_2_[0-9]+|1|2010|2014))(?:_(?P<rest>.+))?")
_CUDA = re.compile(r"(?:(?P<machine>.+)_)?cuda(?P<major>[0-9]+)_(?P<minor>[0-9]+)")
_DATED = re.compile(r"(20[0-9]{2})\.([0-9]{2})\.([0-9]{2})-[0-9]+")
_RELEASE = re.compile(r"([0-9]+\.[0-9]+(?:\.[0-9]+)?)-")


@dataclass(frozen=True, slots=True)
class ImageName:
    """An image as ``docker pull`` takes it.

    Attributes:
        place: what stands before the name: ``quay.io/pypa``; empty for none.
        name: the last part: ``manylinux_2_28_x86_64``.
        family: ``manylinux_2_28``; empty where the image is none of these.
        machine: ``x86_64``; empty where the name has none.
        cuda: the CUDA release that the name says is inside; empty for none.
        pinned: a digest stands behind it.
    """

    text: str
    place: str
    name: str
    tag: str
    pinned: bool
    family: str
    machine: str
    cuda: str

    @property
    def owner(self) -> str:
        """The last part of its place, the same in every mirror: ``pypa``, ``nvidia``; empty for none."""
        return self.place.rpartition("/")[2]

    @property
    def date(self) -> str:
        """The day of a manylinux tag, as ``2026-06-28``; empty where the tag tells none."""
        match = _DATED.fullmatch(self.tag)
        return "-".join(match.groups()) if match else ""

    @property
    def newest(self) -> bool:
        """Whether the name stands for the newest image there is."""
        return self.tag in ("", "latest") and not self.pinned


def familiar(ref: str) -> str:
    """Return an image's name the way people write it: without Docker's own registry and a digest, with a tag."""
    name = ref.partition("@")[0].removeprefix(_OWN).removeprefix(_LIBRARY)
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def full(ref: str) -> str:
    """Return an image's name as BuildKit writes it: with its registry and a tag, without a digest."""
    name = familiar(ref)
    first, slash, _ = name.partition("/")
    if not slash:
        return f"{_OWN}{_LIBRARY}{name}"
    return name if "." in first or ":" in first or first == "localhost" else f"{_OWN}{name}"


@cache
def parse(ref: str) -> ImageName:
    """Take an image's name apart."""
    text, _, digest = ref.partition("@")
    path, _, last = text.rpartition("/")
    name, _, tag = last.partition(":")
    match = _MANYLINUX.fullmatch(name)
    family, machine, cuda = (match["family"], match["rest"] or "", "") if match else ("", "", "")
    if inside := _CUDA.fullmatch(machine):
        machine, cuda = inside["machine"] or "", f"{inside['major']}.{inside['minor']}"
    if f"/{path}/{name}".endswith("/nvidia/cuda") and (release := _RELEASE.match(tag)):
        cuda = release[1]
    return ImageName(text, path, name, tag, bool(digest), family, machine, cuda)
