"""Base images: whether they exist, and what they contain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bakery.core.cell_ids import MACHINES
from bakery.core.image_names import ImageName
from bakery.resolve.rules.rule import Severity, rule
from bakery.resolve.rules.subject import RuleSubject
from bakery.toolchains.facts import manylinux_images, missing_images, number, policies, removed_pythons
from bakery.toolchains.facts.rows import ManylinuxImage

_PYPA = ("pypa", "")
"""Owners of pypa's manylinux images, also in mirrors; empty for a name without an owner."""

_PYPA_PLACES = ("quay.io/pypa", "pypa", "")
"""Locations where only pypa publishes images."""

_TWO_PARTS = re.compile(r"([0-9]+\.[0-9]+)-(.+)")
_POLICY = re.compile(r"manylinux_([0-9]+)_([0-9]+)\Z")
_OLD_POLICIES = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}
_DEVTOOLSET = re.compile(r"devtoolset-([0-9]+)")
_SCL = "centos-release-scl"


@rule("image-name", "The base image exists")
def _name(subject: RuleSubject) -> Iterator[str]:
    image = subject.image
    if image is None:
        return
    if (image.owner, image.name) == ("nvidia", "cuda") and (match := _TWO_PARTS.fullmatch(image.tag)):
        yield f"{image.text}: tags of nvidia/cuda have a three-part release: {match[1]}.N-{match[2]}"
    if image.family.startswith("manylinux") and image.owner in _PYPA:
        yield from _manylinux_name(image, subject.manylinux)


def _manylinux_name(image: ImageName, row: ManylinuxImage | None) -> Iterator[str]:
    missing = next((item for item in missing_images() if item.name == image.family), None)
    if missing and not image.variant:
        built = next((item.arches for item in manylinux_images() if item.name == missing.instead), ())
        yield f"{image.text}: {missing.why}" + (
            f": {missing.instead}_{image.machine}" if image.machine in built else ""
        )
        return
    if row is None:
        policy = _POLICY.match(image.family)
        newest = max(number(item.glibc) for item in manylinux_images())
        # A newer image may exist that the facts do not have.
        if image.place in _PYPA_PLACES and not image.variant and policy and (int(policy[1]), int(policy[2])) < newest:
            yield f"{image.text}: there is no such image; there are {', '.join(i.name for i in manylinux_images())}"
    elif image.place in _PYPA_PLACES and image.machine and image.machine not in row.arches:
        yield f"{image.text}: {row.name} is built for {', '.join(row.arches)}, not for {image.machine}"


@rule("image-end-of-life", "The base image is still maintained", severity=Severity.WARNING)
def _ended(subject: RuleSubject) -> Iterator[str]:
    row = subject.manylinux
    if row and subject.image and row.ended:
        yield f"{subject.image.text}: {row.base}, whose images are not built since {row.ended}"


@rule("image-python-removed", "The manylinux image contains the cell's Python")
def _removed(subject: RuleSubject) -> Iterator[str]:
    image = subject.image
    # An image that was made from one of these may be older than its tag.
    if image is None or not image.family or image.variant:
        return
    for row in removed_pythons():
        # The removal may be known by its month only.
        is_removed = image.newest or (image.date and image.date[: len(row.removed)] > row.removed)
        if subject.python in row.pythons and is_removed:
            yield f"{image.text}: Python {subject.python} was removed from manylinux images ({row.removed})"


@rule("platform-base", "The base image is for the cell's platform")
def _platform(subject: RuleSubject) -> Iterator[str]:
    image, machine = subject.image, MACHINES[subject.platform]
    if image is None or image.machine in ("", machine):
        return
    built = subject.manylinux.arches if subject.manylinux and image.place in _PYPA_PLACES else ()
    own = image.name == f"{image.family}_{image.machine}" and machine in built
    name = f"{image.place}/{image.family}_{machine}".lstrip("/")
    advice = f"; use {name}{image.tag and ':'}{image.tag}" if own else ""
    yield f"{subject.platform} is {machine}, and the base is {image.text}{advice}"


def _lacks_tools(image: ImageName) -> bool:
    """Whether an image is known to lack build tools; other images may have them."""
    return image.name == "centos" or (image.owner, image.name) == ("nvidia", "cuda")


@rule("centos7-repositories", "Nothing is installed from CentOS 7's repositories")
def _centos(subject: RuleSubject) -> Iterator[str]:
    image = subject.image
    is_manylinux = subject.manylinux is not None and subject.manylinux.base == "CentOS 7"
    is_plain = image is not None and ((image.name, image.tag[:1]) == ("centos", "7") or image.tag.endswith("centos7"))
    if image is None or not (is_manylinux or is_plain):
        return
    if is_plain and (subject.plan.facts.packages or _lacks_tools(image)):
        what = "packages" if subject.plan.facts.packages else "missing tools, such as git,"
        yield f"{image.text}: {what} must be installed, and CentOS 7's repositories are offline since 2024-06-30"
    if is_manylinux and _SCL in subject.plan.facts.packages:
        yield f"{image.text}: the repositories of package {_SCL} are offline since 2024-06-30"
    versions = {int(match[1]) for item in subject.plan.facts.packages if (match := _DEVTOOLSET.match(item))}
    if MACHINES[subject.platform] == "aarch64" and max(versions, default=0) > 10:
        yield f"{image.text}: devtoolset-{max(versions)} was never released for aarch64"


@rule("glibc-above-tag", "The base's glibc is not newer than the platform tag promises", severity=Severity.WARNING)
def _glibc(subject: RuleSubject) -> Iterator[str]:
    match = _POLICY.match(subject.plat)
    promised = f"{match[1]}.{match[2]}" if match else _OLD_POLICIES.get(subject.plat, "")
    if promised and subject.glibc and number(subject.glibc) > number(promised):
        base = subject.image.text if subject.image else "the base"
        yield (
            f"{subject.plan.place('wheel.repair.plat')}: {base} has glibc {subject.glibc}, and the wheel promises {subject.plat} "
            f"(glibc {promised})"
        )


@rule("plat-unknown", "auditwheel knows the platform tag")
def _plat_known(subject: RuleSubject) -> Iterator[str]:
    known = [name for row in policies() for name in row.names]
    if subject.plat not in ("", "auto", *known):
        near = [name for name in known if name.startswith(subject.plat.partition("_")[0] + "_")]
        yield f"{subject.plan.place('wheel.repair.plat')}: there is no policy {subject.plat}; there are {', '.join(near)}"


@rule("plat-libc", "The platform tag is for the C library of the base")
def _plat_libc(subject: RuleSubject) -> Iterator[str]:
    name, release = subject.libc
    promised = {"manylinux": "glibc", "musllinux": "musl"}.get(re.split(r"[_0-9]", subject.plat)[0], "")
    base_tag = f"musllinux_{release.replace('.', '_')}" if name == "musl" else ""
    if name and promised and (name != promised or (base_tag and subject.plat != base_tag)):
        base = subject.image.text if subject.image else "the base"
        yield f"{subject.plan.place('wheel.repair.plat')}: {base} has {name} {release}, and cannot give a {subject.plat} wheel"


@rule("image-musl-cuda", "A base with CUDA has glibc")
def _musl(subject: RuleSubject) -> Iterator[str]:
    if subject.libc[0] == "musl" and subject.cuda:
        yield f"{subject.image.text if subject.image else 'the base'} has musl, and CUDA {subject.cuda} needs glibc"


@rule("image-cuda-release", "The CUDA release of the base image is CUDA_VERSION")
def _release(subject: RuleSubject) -> Iterator[str]:
    image_cuda, cuda_version = subject.image.cuda if subject.image else "", subject.arguments.get("CUDA_VERSION", "")
    if subject.image and image_cuda and cuda_version and image_cuda.split(".")[:2] != cuda_version.split(".")[:2]:
        yield f"{subject.image.text} has CUDA {image_cuda}, and CUDA_VERSION is {cuda_version}"
