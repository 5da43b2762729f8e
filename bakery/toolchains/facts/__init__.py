"""Facts about CUDA, images, frameworks and GPUs: TOML tables in this folder, each row with its source and date.

A function returns None or an empty result for a fact that no table has; nothing is guessed. New tables need a row class
in ``rows`` and a `_reader` here. This package imports ``core`` only.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import TypeVar

from bakery.toolchains.facts import rows
from bakery.toolchains.facts.rows import Row

R = TypeVar("R", bound=Row)

TABLES: dict[str, dict[str, type[Row]]] = {}
"""File → table → what its rows are. `_reader` fills it."""


@cache
def _file(name: str) -> dict[str, object]:
    return tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))


def table(file: str, name: str, kind: type[R]) -> tuple[R, ...]:
    """Return the rows of a table.

    Raises:
        ValueError: a row has an unknown key, lacks one, or has a value of another type.
    """
    entries = _file(file)[name]
    if not isinstance(entries, list):
        raise ValueError(f"{file}.toml: {name} is no list of tables")
    return tuple(map(kind.model_validate, entries))


def _reader(file: str, name: str, kind: type[R]) -> Callable[[], tuple[R, ...]]:
    """Return the function that returns the rows of a table; the table is read once."""
    TABLES.setdefault(file, {})[name] = kind
    return cache(lambda: table(file, name, kind))


cuda_releases = _reader("cuda", "releases", rows.CudaRelease)
"""The releases of CUDA, oldest first."""

secret_files = _reader("secret_files", "files", rows.SecretFile)
"""The names of files that hold credentials."""

renamed_archs = _reader("cuda", "renamed", rows.RenamedArch)
"""The architectures that a release calls differently."""

clangs = _reader("cuda", "clang", rows.Clang)
"""What clang compiles CUDA for."""

broken_releases = _reader("cuda", "broken", rows.BrokenRelease)
"""The releases that do not work."""

repository_keys = _reader("cuda", "keys", rows.RepositoryKey)
"""The keys that sign NVIDIA's package repositories."""

suites = _reader("debian", "suites", rows.Suite)
"""Debian's releases, oldest first."""

components = _reader("components", "components", rows.Component)
"""CUDA's libraries in the package index."""

gpus = _reader("gpus", "gpus", rows.Gpu)
"""GPUs by compute capability, oldest first."""

wrong_claims = _reader("gpus", "claims", rows.WrongClaim)
"""What guides say of GPUs that is not so."""

jax_releases = _reader("jax", "releases", rows.JaxRelease)
"""The releases of JAX, oldest first."""

manylinux_images = _reader("manylinux", "images", rows.ManylinuxImage)
"""The manylinux images, oldest first."""

toolsets = _reader("manylinux", "toolsets", rows.Toolset)
"""The gcc-toolset packages of distributions that manylinux images are made of."""

missing_images = _reader("manylinux", "missing", rows.MissingImage)
"""Image names that do not exist."""

removed_pythons = _reader("manylinux", "removed-pythons", rows.RemovedPythons)
"""The Pythons that manylinux images no longer hold."""

iree_releases = _reader("iree", "releases", rows.IreeRelease)
"""The releases of IREE's compiler that bakery knows; the first is the one it takes."""

iree_targets = _reader("iree", "targets", rows.IreeTarget)
"""What IREE's compiler compiles for."""

iree_refused = _reader("iree", "refused", rows.IreeRefused)
"""Names of targets that look right and are not."""

torch_releases = _reader("torch", "releases", rows.TorchRelease)
"""The releases of torch, oldest first."""

torch_arch_lists = _reader("torch", "arch-lists", rows.TorchArchList)
"""What TORCH_CUDA_ARCH_LIST may say, newest torch first."""

sccache = _reader("tools", "sccache", rows.Sccache)
"""Where sccache fails."""

_actions = _reader("actions", "actions", rows.Action)
_runners = _reader("actions", "runners", rows.Runner)
_disk_sizes = _reader("actions", "sizes", rows.DiskSize)
_cache_services = _reader("actions", "caches", rows.CacheService)
_zig = _reader("tools", "zig", rows.Zig)


def minor(version: str) -> str:
    """Return the first two parts of a release: ``13.0.3`` → ``13.0``."""
    return ".".join(version.split(".")[:2])


def number(version: str) -> tuple[int, ...]:
    """Return a version of digits and dots for comparing: ``2.28`` → (2, 28)."""
    return tuple(map(int, version.split(".")))


@cache
def cuda_release(version: str) -> rows.CudaRelease | None:
    """Return the release that ``version`` (``12.8`` or ``12.8.1``) is of; None for one that is not known."""
    return next((row for row in cuda_releases() if row.version == minor(version)), None)


def iree_requirements(runtime: str) -> str:
    """Return what runs modules of a release of iree-base-runtime, as pip's requirements with hashes; empty if not known."""
    file = files(__package__) / f"iree-runtime-{runtime}.txt"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


@cache
def torch_release(version: str) -> rows.TorchRelease | None:
    """Return the row for a release of torch: its own, else that of the same minor; None for one not known."""
    rows_ = [row for row in torch_releases() if minor(row.version) == minor(version)]
    return next((row for row in rows_ if row.version == version), rows_[-1] if rows_ else None)


@cache
def zig() -> rows.Zig:
    """Return why zig compiles no CUDA."""
    return _zig()[0]


@cache
def action(name: str) -> rows.Action:
    """Return the release of a GitHub action that workflows use.

    Raises:
        KeyError: none is known.
    """
    return {row.name: row for row in _actions()}[name]


@cache
def runners() -> dict[str, str]:
    """Return platform → the label of GitHub's own runner for it."""
    return {row.platform: row.label for row in _runners()}


@cache
def runner_disk(label: str) -> int:
    """Return the GB of disk that a runner has; 0 for one that is not known."""
    return next((row.disk for row in _runners() if row.label == label), 0)


@cache
def disk_sizes() -> dict[str, int]:
    """Return what → the GB that its layers take."""
    return {row.what: row.gb for row in _disk_sizes()}


@cache
def cache_service(name: str) -> rows.CacheService:
    """Return what is known of a service that keeps layer caches.

    Raises:
        KeyError: nothing is.
    """
    return {row.name: row for row in _cache_services()}[name]
