"""Facts about CUDA, images, frameworks and GPUs: TOML tables in this folder, each row with its source and date.

A function returns None or an empty result for a fact that no table has; nothing is guessed. New tables need a row class
in ``rows`` and an entry in ``TABLES``. This package imports ``core`` only.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TypeVar

from pydantic import TypeAdapter

from bakery.toolchains.facts import rows
from bakery.toolchains.facts.rows import Row

R = TypeVar("R", bound=Row)

TABLES: dict[str, dict[str, type[Row]]] = {
    "actions": {"actions": rows.Action, "runners": rows.Runner, "sizes": rows.DiskSize, "caches": rows.CacheService},
    "components": {"components": rows.Component},
    "cuda": {
        "releases": rows.CudaRelease,
        "renamed": rows.RenamedArch,
        "clang": rows.Clang,
        "broken": rows.BrokenRelease,
        "keys": rows.RepositoryKey,
    },
    "debian": {"suites": rows.Suite},
    "gpus": {"gpus": rows.Gpu, "claims": rows.WrongClaim},
    "iree": {"releases": rows.IreeRelease, "targets": rows.IreeTarget, "refused": rows.IreeRefused},
    "jax": {"releases": rows.JaxRelease},
    "manylinux": {
        "images": rows.ManylinuxImage,
        "toolsets": rows.Toolset,
        "missing": rows.MissingImage,
        "removed-pythons": rows.RemovedPythons,
    },
    "secret_files": {"files": rows.SecretFile},
    "tools": {"sccache": rows.Sccache, "zig": rows.Zig},
    "torch": {"releases": rows.TorchRelease, "arch-lists": rows.TorchArchList},
}
"""File → table → what its rows are."""


@cache
def _file(name: str) -> dict[str, object]:
    return tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))


def table(file: str, name: str, kind: type[R]) -> tuple[R, ...]:
    """Return the rows of a table.

    Raises:
        ValueError: a row has an unknown key, lacks one, or has a value of another type.
    """
    found = _file(file)[name]
    if not isinstance(found, list):
        raise ValueError(f"{file}.toml: {name} is no list of tables")
    adapter: TypeAdapter[R] = TypeAdapter(kind)
    return tuple(adapter.validate_python(row) for row in found)


def minor(version: str) -> str:
    """Return the first two parts of a release: ``13.0.3`` → ``13.0``."""
    return ".".join(version.split(".")[:2])


def number(version: str) -> tuple[int, ...]:
    """Return a version of digits and dots for comparing: ``2.28`` → (2, 28)."""
    return tuple(map(int, version.split(".")))


@cache
def cuda_releases() -> tuple[rows.CudaRelease, ...]:
    """Return the releases of CUDA, oldest first."""
    return table("cuda", "releases", rows.CudaRelease)


@cache
def secret_files() -> tuple[rows.SecretFile, ...]:
    """Return the names of files that hold credentials."""
    return table("secret_files", "files", rows.SecretFile)


@cache
def cuda_release(version: str) -> rows.CudaRelease | None:
    """Return the release that ``version`` (``12.8`` or ``12.8.1``) is of; None for one that is not known."""
    return next((row for row in cuda_releases() if row.version == minor(version)), None)


@cache
def renamed_archs() -> tuple[rows.RenamedArch, ...]:
    """Return the architectures that a release calls differently."""
    return table("cuda", "renamed", rows.RenamedArch)


@cache
def clangs() -> tuple[rows.Clang, ...]:
    """Return what clang compiles CUDA for."""
    return table("cuda", "clang", rows.Clang)


@cache
def broken_releases() -> tuple[rows.BrokenRelease, ...]:
    """Return the releases that do not work."""
    return table("cuda", "broken", rows.BrokenRelease)


@cache
def repository_keys() -> tuple[rows.RepositoryKey, ...]:
    """Return the keys that sign NVIDIA's package repositories."""
    return table("cuda", "keys", rows.RepositoryKey)


@cache
def suites() -> tuple[rows.Suite, ...]:
    """Return Debian's releases, oldest first."""
    return table("debian", "suites", rows.Suite)


@cache
def components() -> tuple[rows.Component, ...]:
    """Return CUDA's libraries in the package index."""
    return table("components", "components", rows.Component)


@cache
def gpus() -> tuple[rows.Gpu, ...]:
    """Return GPUs by compute capability, oldest first."""
    return table("gpus", "gpus", rows.Gpu)


@cache
def wrong_claims() -> tuple[rows.WrongClaim, ...]:
    """Return what guides say of GPUs that is not so."""
    return table("gpus", "claims", rows.WrongClaim)


@cache
def jax_releases() -> tuple[rows.JaxRelease, ...]:
    """Return the releases of JAX, oldest first."""
    return table("jax", "releases", rows.JaxRelease)


@cache
def manylinux_images() -> tuple[rows.ManylinuxImage, ...]:
    """Return the manylinux images, oldest first."""
    return table("manylinux", "images", rows.ManylinuxImage)


@cache
def toolsets() -> tuple[rows.Toolset, ...]:
    """Return the gcc-toolset packages of distributions that manylinux images are made of."""
    return table("manylinux", "toolsets", rows.Toolset)


@cache
def missing_images() -> tuple[rows.MissingImage, ...]:
    """Return image names that do not exist."""
    return table("manylinux", "missing", rows.MissingImage)


@cache
def removed_pythons() -> tuple[rows.RemovedPythons, ...]:
    """Return the Pythons that manylinux images no longer hold."""
    return table("manylinux", "removed-pythons", rows.RemovedPythons)


@cache
def iree_releases() -> tuple[rows.IreeRelease, ...]:
    """Return the releases of IREE's compiler that bakery knows; the first is the one it takes."""
    return table("iree", "releases", rows.IreeRelease)


def iree_requirements(runtime: str) -> str:
    """Return what runs modules of a release of iree-base-runtime, as pip's requirements with hashes; empty if not known."""
    file = files(__package__) / f"iree-runtime-{runtime}.txt"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


@cache
def iree_targets() -> tuple[rows.IreeTarget, ...]:
    """Return what IREE's compiler compiles for."""
    return table("iree", "targets", rows.IreeTarget)


@cache
def iree_refused() -> tuple[rows.IreeRefused, ...]:
    """Return names of targets that look right and are not."""
    return table("iree", "refused", rows.IreeRefused)


@cache
def torch_releases() -> tuple[rows.TorchRelease, ...]:
    """Return the releases of torch, oldest first."""
    return table("torch", "releases", rows.TorchRelease)


@cache
def torch_release(version: str) -> rows.TorchRelease | None:
    """Return the row for a release of torch: its own, else that of the same minor; None for one not known."""
    rows_ = [row for row in torch_releases() if minor(row.version) == minor(version)]
    return next((row for row in rows_ if row.version == version), rows_[-1] if rows_ else None)


@cache
def torch_arch_lists() -> tuple[rows.TorchArchList, ...]:
    """Return what TORCH_CUDA_ARCH_LIST may say, newest torch first."""
    return table("torch", "arch-lists", rows.TorchArchList)


@cache
def sccache() -> tuple[rows.Sccache, ...]:
    """Return where sccache fails."""
    return table("tools", "sccache", rows.Sccache)


@cache
def zig() -> rows.Zig:
    """Return why zig compiles no CUDA."""
    return table("tools", "zig", rows.Zig)[0]


@cache
def action(name: str) -> rows.Action:
    """Return the release of a GitHub action that workflows use.

    Raises:
        KeyError: none is known.
    """
    return {row.name: row for row in table("actions", "actions", rows.Action)}[name]


@cache
def runners() -> dict[str, str]:
    """Return platform → the label of GitHub's own runner for it."""
    return {row.platform: row.label for row in table("actions", "runners", rows.Runner)}


@cache
def runner_disk(label: str) -> int:
    """Return the GB of disk that a runner has; 0 for one that is not known."""
    return next((row.disk for row in table("actions", "runners", rows.Runner) if row.label == label), 0)


@cache
def disk_sizes() -> dict[str, int]:
    """Return what → the GB that its layers take."""
    return {row.what: row.gb for row in table("actions", "sizes", rows.DiskSize)}


@cache
def cache_service(name: str) -> rows.CacheService:
    """Return what is known of a service that keeps layer caches.

    Raises:
        KeyError: nothing is.
    """
    return {row.name: row for row in table("actions", "caches", rows.CacheService)}[name]
