"""Parses names of images."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_OWN, _LIBRARY = "docker.io/", "library/"
"""What Docker puts in front of names that have no registry, and of those that have no owner."""

_MANYLINUX = re.compile(
    r"(?P<family>manylinux(?:_2_[0-9]+|1|2010|2014)|musllinux_1_[0-9]+)"
    r"(?:_(?P<machine>x86_64|i686|aarch64|ppc64le|s390x|armv7l|riscv64|loongarch64))?"
    r"(?:_cuda(?P<major>[0-9]+)_(?P<minor>[0-9]+))?"
    r"(?P<variant>[._-].+)?"
)
_DATED = re.compile(r"(20[0-9]{2})\.([0-9]{2})\.([0-9]{2})-[0-9]+")
_RELEASE = re.compile(r"([0-9]+\.[0-9]+(?:\.[0-9]+)?)-")


@dataclass(frozen=True, slots=True)
class ImageName:
    """An image as ``docker pull`` takes it. A part that the name does not have is empty."""

    text: str
    place: str  # registry and owner: ``quay.io/pypa``
    name: str  # the last part: ``manylinux_2_28_x86_64``
    tag: str
    pinned: bool  # a digest follows the name
    family: str  # ``manylinux_2_28``, ``musllinux_1_2``
    machine: str  # ``x86_64``
    variant: str  # what follows in an image that was made from one of the family: ``-hdf5``
    cuda: str  # the CUDA release that the image has, according to its name

    @property
    def owner(self) -> str:
        """The owner, the same in every mirror: ``pypa``, ``nvidia``; empty for none."""
        return self.place.rpartition("/")[2]

    @property
    def date(self) -> str:
        """The date in a manylinux tag, such as ``2026-06-28``; empty for other tags."""
        match = _DATED.fullmatch(self.tag)
        return "-".join(match.groups()) if match else ""

    @property
    def newest(self) -> bool:
        """Whether the name refers to the newest image."""
        return self.tag in ("", "latest") and not self.pinned


def familiar(ref: str) -> str:
    """Return an image's name as people write it: without Docker's registry and a digest, with a tag."""
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
    """Parse an image's name."""
    text, _, digest = ref.partition("@")
    path, _, last = text.rpartition("/")
    name, _, tag = last.partition(":")
    match = _MANYLINUX.fullmatch(name)
    family, machine, variant = ((match[key] or "") for key in ("family", "machine", "variant")) if match else ("",) * 3
    cuda = f"{match['major']}.{match['minor']}" if match and match["major"] else ""
    if f"/{path}/{name}".endswith("/nvidia/cuda") and (release := _RELEASE.match(tag)):
        cuda = release[1]
    return ImageName(text, path, name, tag, bool(digest), family, machine, variant, cuda)
