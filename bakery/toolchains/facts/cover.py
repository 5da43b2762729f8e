"""Which GPUs a list of architectures covers, and which architectures a CUDA release lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from bakery.toolchains.facts import gpus, number, renamed_archs
from bakery.toolchains.facts.archs import Arch, capability, first_release, known, last_release, runs_cubin, runs_ptx
from bakery.toolchains.facts.rows import CudaRelease, Gpu


class How(StrEnum):
    """How a GPU runs compiled code."""

    NATIVE = "native"
    PTX = "ptx"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Coverage:
    """One kind of GPU, and the entry of a list that runs on it (``by``; empty for none)."""

    gpu: Gpu
    how: How
    by: str


@dataclass(frozen=True, slots=True)
class Lack:
    """An architecture that a CUDA release does not support; ``dropped`` if an earlier one did."""

    dropped: bool
    text: str


def cover(archs: Sequence[Arch]) -> tuple[Coverage, ...]:
    """Return how each GPU in the facts runs code for a list of architectures."""
    return tuple(_cover(gpu, archs) for gpu in gpus())


def _cover(gpu: Gpu, archs: Sequence[Arch]) -> Coverage:
    major, minor = capability(gpu)
    # The driver uses the highest architecture that runs.
    if native := [arch for arch in archs if runs_cubin(arch, major, minor)]:
        return Coverage(gpu, How.NATIVE, "sm_" + max(native).number)
    if compiled := [arch for arch in archs if runs_ptx(arch, major, minor)]:
        return Coverage(gpu, How.PTX, "compute_" + max(compiled).number)
    return Coverage(gpu, How.MISSED, "")


def lack(arch: str, release: CudaRelease) -> Lack | None:
    """Return why ``release`` does not compile for ``arch`` (``90a``); None if it does."""
    if arch in release.sm:
        return None
    suffix = arch.lstrip("0123456789")
    for row in renamed_archs():
        if arch.removesuffix(suffix) == row.old and number(release.version) >= number(row.since):
            return Lack(True, f"CUDA {release.version} renamed sm_{arch} to sm_{row.new}{suffix}")
    first, last = first_release(arch), last_release(arch)
    if not first:
        return Lack(False, f"no CUDA release supports sm_{arch}; the nearest are {_nearest(arch)}")
    if number(last) < number(release.version):
        return Lack(
            True, f"CUDA {release.version} no longer supports sm_{arch}; the last release with it is CUDA {last}"
        )
    return Lack(
        False, f"CUDA {release.version} does not support sm_{arch} yet; the first release with it is CUDA {first}"
    )


@cache
def _nearest(arch: str) -> str:
    suffix = arch.lstrip("0123456789")
    target = int(arch.removesuffix(suffix))
    plain = [int(item) for item in known() if item.isdigit()]
    near = sorted(plain, key=lambda item: (abs(item - target), item))[:2]
    return " and ".join(f"sm_{item}" for item in sorted(near))
