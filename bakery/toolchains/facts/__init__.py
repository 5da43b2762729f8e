"""Facts about CUDA, images, frameworks and GPUs: TOML tables in this folder, each row with its source and date.

Releases are in order, oldest first; `rows` says where it is otherwise. A function returns None or an empty result for a
fact that no table has; nothing is guessed. A new table needs a row class in `rows` and a `_reader` here.
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
"""File → table → the class of its rows. `_reader` fills it."""


@cache
def _file(name: str) -> dict[str, object]:
    return tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))


def table(file: str, name: str, kind: type[R]) -> tuple[R, ...]:
    """Return the rows of a table; ValueError if a row has an unknown key, lacks one, or has a value of another type."""
    entries = _file(file)[name]
    if not isinstance(entries, list):
        raise ValueError(f"{file}.toml: {name} is no list of tables")
    return tuple(map(kind.model_validate, entries))


def _reader(file: str, name: str, kind: type[R]) -> Callable[[], tuple[R, ...]]:
    """Return a function that returns the rows of a table, which is read once."""
    TABLES.setdefault(file, {})[name] = kind
    return cache(lambda: table(file, name, kind))


cuda_releases = _reader("cuda", "releases", rows.CudaRelease)
renamed_archs = _reader("cuda", "renamed", rows.RenamedArch)
clangs = _reader("cuda", "clang", rows.Clang)
broken_releases = _reader("cuda", "broken", rows.BrokenRelease)
repository_keys = _reader("cuda", "keys", rows.RepositoryKey)
components = _reader("components", "components", rows.Component)
suites = _reader("debian", "suites", rows.Suite)
manylinux_images = _reader("manylinux", "images", rows.ManylinuxImage)
policies = _reader("manylinux", "policies", rows.Policies)
musllinux_images = _reader("manylinux", "musllinux", rows.MusllinuxImage)
cuda_images = _reader("manylinux", "cuda", rows.CudaImages)
_pinned_images = _reader("pinned", "images", rows.PinnedImage)
toolsets = _reader("manylinux", "toolsets", rows.Toolset)
missing_images = _reader("manylinux", "missing", rows.MissingImage)
removed_pythons = _reader("manylinux", "removed-pythons", rows.RemovedPythons)
gpus = _reader("gpus", "gpus", rows.Gpu)
wrong_claims = _reader("gpus", "claims", rows.WrongClaim)
torch_releases = _reader("torch", "releases", rows.TorchRelease)
torch_arch_lists = _reader("torch", "arch-lists", rows.TorchArchList)
jax_releases = _reader("jax", "releases", rows.JaxRelease)
sccache = _reader("tools", "sccache", rows.Sccache)
secret_files = _reader("secret_files", "files", rows.SecretFile)
packages = _reader("packages", "packages", rows.Package)
standard_headers = _reader("packages", "standard-headers", rows.StandardHeaders)
zig = _reader("tools", "zig", rows.Zig)
_actions = _reader("actions", "actions", rows.Action)
_runners = _reader("actions", "runners", rows.Runner)
_disk_sizes = _reader("actions", "sizes", rows.DiskSize)
_cache_services = _reader("actions", "caches", rows.CacheService)


def minor(version: str) -> str:
    """Return the first two parts of a release: ``13.0.3`` → ``13.0``."""
    return ".".join(version.split(".")[:2])


def number(version: str) -> tuple[int, ...]:
    """Return a version of digits and dots for comparisons: ``2.28`` → (2, 28)."""
    return tuple(map(int, version.split(".")))


@cache
def cuda_release(version: str) -> rows.CudaRelease | None:
    """Return the row of a release (``12.8`` or ``12.8.1``); None if it is unknown."""
    return next((row for row in cuda_releases() if row.version == minor(version)), None)


@cache
def torch_release(version: str) -> rows.TorchRelease | None:
    """Return the row of a release of torch, else the newest of its minor; None if that is unknown."""
    same_minor = [row for row in torch_releases() if minor(row.version) == minor(version)]
    return next((row for row in same_minor if row.version == version), same_minor[-1] if same_minor else None)


def package_of(name: str) -> rows.Package | None:
    """Return what provides a program or library, by a name in any case; None if it is unknown."""
    return next((row for row in packages() if name.lower() in row.names), None)


def package_with(header: str) -> rows.Package | None:
    """Return what provides a header, such as ``openssl/ssl.h``; None if it is unknown."""
    folder = header.partition("/")[0] + "/"
    return next((row for row in packages() if header in row.headers or folder in row.headers), None)


@cache
def pinned_images() -> dict[str, tuple[rows.PinnedImage, ...]]:
    """Return short name → its image for each platform. An image with CUDA has the Pythons of the one without."""
    images: dict[str, tuple[rows.PinnedImage, ...]] = {}
    for row in _pinned_images():
        images[row.name] = (*images.get(row.name, ()), row)
    for cuda in cuda_images():
        for name in (f"cuda{release.replace('.', '_')}" for release in cuda.releases):
            images[f"{cuda.name}_{name}"] = tuple(
                row.model_copy(
                    update={
                        "name": f"{cuda.name}_{name}",
                        "image": f"{cuda.place}/{row.image.rpartition('/')[2]}_{name}",
                        "tag": cuda.tag,
                        "digest": "",
                    }
                )
                for row in images[cuda.name]
            )
    return images


@cache
def libc_floor(family: str) -> tuple[str, str]:
    """Return the C library of a family of images, ``glibc`` or ``musl``, and its release; empty if unknown."""
    glibc = next((row.glibc for row in manylinux_images() if row.name == family), "")
    musl = next((row.musl for row in musllinux_images() if row.name == family), "")
    return ("glibc", glibc) if glibc else ("musl", musl) if musl else ("", "")


@cache
def action(name: str) -> rows.Action:
    """Return the release of a GitHub action that workflows use; KeyError if none is known."""
    return {row.name: row for row in _actions()}[name]


@cache
def runners() -> dict[str, str]:
    """Return platform → the label of GitHub's own runner for it."""
    return {row.platform: row.label for row in _runners()}


@cache
def runner_disk(label: str) -> int:
    """Return the disk size of a runner in GB; 0 if it is unknown."""
    return next((row.disk for row in _runners() if row.label == label), 0)


@cache
def disk_sizes() -> dict[str, int]:
    """Return what layers contain → their size in GB."""
    return {row.what: row.gb for row in _disk_sizes()}


@cache
def cache_service(name: str) -> rows.CacheService:
    """Return the facts about a service that stores layer caches; KeyError if there are none."""
    return {row.name: row for row in _cache_services()}[name]
