"""Base images: whether they exist, and what they contain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bakery.core.image_names import ImageName
from bakery.core.names import MACHINES
from bakery.resolve.rules.case import Case
from bakery.resolve.rules.rule import Severity, rule
from bakery.toolchains.facts import manylinux_images, missing_images, number, removed_pythons
from bakery.toolchains.facts.rows import ManylinuxImage

_PYPA = ("pypa", "")
"""Owners of pypa's manylinux images, also in mirrors; empty if the name has no owner."""

_PYPA_PLACES = ("quay.io/pypa", "pypa", "")
"""Locations where only pypa publishes images."""

_TWO_PARTS = re.compile(r"([0-9]+\.[0-9]+)-(.+)")
_POLICY = re.compile(r"manylinux_([0-9]+)_([0-9]+)\Z")
_OLD_POLICIES = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}
_DEVTOOLSET = re.compile(r"devtoolset-([0-9]+)")
_SCL = "centos-release-scl"


@rule(
    "image-name",
    "The base image exists",
    why="Guides name images that never were: platform tags such as manylinux_2_17 are no names of images, and "
    "nvidia/cuda has no tags with a release of two parts.",
    fix="write the name that is given",
    source="pypa/manylinux@ad3c4539 and cibuildwheel 4.3.5's pins; NVIDIA's repository of nvidia/cuda's Dockerfiles",
)
def _name(case: Case) -> Iterator[str]:
    image = case.image
    if image is None:
        return
    if (image.owner, image.name) == ("nvidia", "cuda") and (match := _TWO_PARTS.fullmatch(image.tag)):
        yield (
            f"{image.text}: tags of nvidia/cuda name a release of three parts, such as "
            f"{match[1]}.1-{match[2]} or {match[1]}.0-{match[2]}"
        )
    if image.family and image.owner in _PYPA:
        yield from _manylinux_name(image, case.manylinux)


def _manylinux_name(image: ImageName, row: ManylinuxImage | None) -> Iterator[str]:
    missing = next((item for item in missing_images() if item.name == image.family), None)
    if missing:
        instead = f"{missing.instead}_{image.machine}" if image.machine else missing.instead
        yield f"{image.text}: {missing.why}: {instead}"
        return
    if row is None:
        policy = _POLICY.match(image.family)
        newest = max(number(item.glibc) for item in manylinux_images())
        # A newer one may have come since the facts were read.
        if image.place in _PYPA_PLACES and policy and (int(policy[1]), int(policy[2])) < newest:
            yield f"{image.text}: there is no such image; there are {', '.join(i.name for i in manylinux_images())}"
    elif image.place in _PYPA_PLACES and image.machine and image.machine not in row.arches:
        yield f"{image.text}: {row.name} is built for {', '.join(row.arches)} and not for {image.machine}"


@rule(
    "image-end-of-life",
    "The base image is still built",
    why="An image that is no longer built has old Pythons, old pip and package lists that may be gone.",
    fix="take manylinux_2_28, or manylinux2014 for an older glibc",
    source="pypa/manylinux README",
    severity=Severity.WARNING,
)
def _ended(case: Case) -> Iterator[str]:
    row = case.manylinux
    if row and case.image and row.ended:
        yield f"{case.image.text}: {row.base}, whose images ended on {row.ended}"


@rule(
    "image-python-removed",
    "The manylinux image still holds the cell's Python",
    why="pypa removes Pythons some time after their end of life; newer tags of the image have none of them.",
    fix="pin a tag from before that day (its name begins with the day: 2025.03.09-1), or leave the Python out",
    source="pypa/manylinux, git log",
)
def _removed(case: Case) -> Iterator[str]:
    image = case.image
    if image is None or not image.family:
        return
    for row in removed_pythons():
        # A day is compared with as much of it as is known of the removal.
        gone = image.newest or (image.date and image.date[: len(row.removed)] > row.removed)
        if case.python in row.pythons and gone:
            yield f"{image.text}: Python {case.python} is in no manylinux image any more ({row.removed})"


@rule(
    "platform-base",
    "The base image is for the cell's platform",
    why="An image with a machine in its name holds this machine's programs; for another it cannot be pulled or "
    "does not start.",
    fix="name the image without machine (manylinux_2_28, since May 2026), or make a recipe for each platform",
    source="pypa/manylinux@ad3c4539",
)
def _platform(case: Case) -> Iterator[str]:
    machine = MACHINES[case.platform]
    if case.image and case.image.family and case.image.machine not in ("", machine):
        other = case.image.text.replace(case.image.machine, machine)
        yield f"{case.platform} is {machine}, and the base is {case.image.text}; its image would be {other}"


def _lacks_tools(image: ImageName) -> bool:
    """Whether an image is known to lack build tools; other images may have them."""
    return image.name == "centos" or (image.owner, image.name) == ("nvidia", "cuda")


@rule(
    "centos7-repositories",
    "Nothing is installed from CentOS 7's package lists",
    why="CentOS 7 ended on 2024-06-30, and mirrorlist.centos.org with it: every yum install fails, that of a "
    "devtoolset from centos-release-scl as well. GCC 11 and newer never existed there for aarch64.",
    fix="take manylinux_2_28, whose compiler is newer, or manylinux2014 as it is (GCC 10)",
    source="pypa/manylinux#1647, #1266",
)
def _centos(case: Case) -> Iterator[str]:
    image = case.image
    is_manylinux = case.manylinux is not None and case.manylinux.base == "CentOS 7"
    is_plain = image is not None and ((image.name, image.tag[:1]) == ("centos", "7") or image.tag.endswith("centos7"))
    if image is None or not (is_manylinux or is_plain):
        return
    if is_plain and (case.packages or _lacks_tools(image)):
        what = "packages are to be installed" if case.packages else "what it lacks, such as git, is to be installed"
        yield f"{image.text}: {what}, and CentOS 7's package lists are gone since 2024-06-30"
    if is_manylinux and _SCL in case.packages:
        yield f"{image.text}: package {_SCL} brings package lists that are gone since 2024-06-30"
    versions = {int(match[1]) for item in case.packages if (match := _DEVTOOLSET.match(item))}
    if MACHINES[case.platform] == "aarch64" and max(versions, default=0) > 10:
        yield f"{image.text}: there never was a devtoolset-{max(versions)} for aarch64"


@rule(
    "glibc-above-tag",
    "The base's glibc is not newer than the platform tag promises",
    why="Which glibc a wheel needs is decided by the image that links it, not by its compiler: a newer glibc gives "
    "newer symbol versions, and auditwheel refuses the tag at the very end. Code that uses none of them passes. "
    "libstdc++ has a limit of its own: GLIBCXX 3.4.19 for 2_17, 3.4.24 for 2_28, 3.4.29 for 2_34.",
    fix='take the manylinux image of that tag as base, or plat = "auto"',
    source="auditwheel 6.8.2's policies; apt-cache policy of Debian's suites",
    severity=Severity.WARNING,
)
def _glibc(case: Case) -> Iterator[str]:
    match = _POLICY.match(case.plat)
    promised = f"{match[1]}.{match[2]}" if match else _OLD_POLICIES.get(case.plat, "")
    if promised and case.glibc and number(case.glibc) > number(promised):
        base = case.image.text if case.image else "the base"
        yield f"{base} has glibc {case.glibc}, and the wheel is to promise {case.plat} (glibc {promised})"


@rule(
    "image-cuda-release",
    "The base image's CUDA is the release asked for",
    why="An image that brings CUDA has one release of it below /usr/local/cuda; another beside it is one too many, "
    "and what the wheel is named after would not be what compiled it.",
    fix="name the image with ${CUDA_VERSION} in it, or set CUDA_VERSION to the image's release",
    source="layout of nvidia/cuda and manylinux_cuda images",
)
def _release(case: Case) -> Iterator[str]:
    image_cuda, cuda_version = case.image.cuda if case.image else "", case.arguments.get("CUDA_VERSION", "")
    if case.image and image_cuda and cuda_version and image_cuda.split(".")[:2] != cuda_version.split(".")[:2]:
        yield f"{case.image.text} has CUDA {image_cuda}, and CUDA_VERSION is {cuda_version}"
