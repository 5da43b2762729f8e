"""Lists of GPU architectures as torch, CMake and nvcc write them, the GPUs that run them, and what a CUDA release lacks.

Sources: NVIDIA's CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility", and for the variants ``a``
and ``f`` its chapter on family-specific and architecture-specific features.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import cache

from bakery.core.errors import UsageError
from bakery.toolchains.facts import cuda_releases, gpus, number, renamed_archs
from bakery.toolchains.facts.rows import CudaRelease, Gpu

ALL = ("all", "all-major")
"""Words of CMake and nvcc that stand for lists."""

SEPARATORS = re.compile(r"[;,\s]+")

_TORCH = re.compile(r"(?P<major>[1-9][0-9]?)\.(?P<minor>[0-9])(?P<suffix>[af]?)(?P<ptx>\+PTX)?", re.ASCII)
_CMAKE = re.compile(r"(?P<major>[1-9][0-9]?)(?P<minor>[0-9])(?P<suffix>[af]?)(?P<kind>-real|-virtual)?", re.ASCII)
_NVCC = re.compile(r"(?P<kind>sm|compute)_(?P<major>[1-9][0-9]?)(?P<minor>[0-9])(?P<suffix>[af]?)", re.ASCII)

_OPEN = {
    "native": "is the GPU of the build machine, and a build container has none",
    "all": "is every architecture of the compiler",
    "all-major": "is every major architecture of the compiler",
}
"""Values of CMake that are no list of architectures."""


@dataclass(frozen=True, slots=True, order=True)
class Arch:
    """An architecture to compile for.

    Attributes:
        suffix: ``a`` for the features of exactly this architecture, ``f`` for those of its family, or empty.
        cubin: compile to machine code.
        ptx: compile to PTX, which the driver compiles for other GPUs.
    """

    major: int
    minor: int
    suffix: str = ""
    cubin: bool = True
    ptx: bool = False

    @property
    def number(self) -> str:
        """The name in ``sm_…``: ``90a``."""
        return f"{self.major}{self.minor}{self.suffix}"

    def __str__(self) -> str:
        kinds = [prefix + self.number for prefix, is_made in (("sm_", self.cubin), ("compute_", self.ptx)) if is_made]
        return "+".join(kinds)


@cache
def parse(text: str) -> tuple[Arch, ...]:
    """Return the architectures that ``text`` lists, once each, in order.

    Three spellings may be mixed, separated by ``;``, ``,`` or blanks: torch's ``9.0+PTX`` (machine code, and PTX with
    +PTX), CMake's ``90``, ``90-real``, ``90-virtual`` (both, machine code, PTX), and nvcc's ``sm_90``, ``compute_90``
    (machine code, PTX).

    Raises:
        UsageError: an entry has none of these spellings, or there is no entry.
    """
    words = [text.strip()] if _gpu_named(text) else [word for word in SEPARATORS.split(text) if word]
    if not words:
        raise UsageError("the list of architectures is empty", hint="write it as '8.0;9.0+PTX', '80;90' or 'sm_80'")
    archs: dict[str, Arch] = {}
    problems = []
    for word in words:
        arch = _parse_word(word)
        if arch is None:
            problems.append(_problem(word))
            continue
        previous = archs.get(arch.number, arch)
        archs[arch.number] = replace(previous, cubin=previous.cubin or arch.cubin, ptx=previous.ptx or arch.ptx)
    if problems:
        raise UsageError(
            f"not a list of GPU architectures: {_shorten(text)!r}",
            details=problems,
            hint="torch writes 9.0 or 9.0+PTX, CMake 90, 90-real or 90-virtual, nvcc sm_90 or compute_90",
        )
    return tuple(archs.values())


def _parse_word(word: str) -> Arch | None:
    if match := _TORCH.fullmatch(word):
        cubin, ptx = True, bool(match["ptx"])
    elif match := _CMAKE.fullmatch(word):
        cubin, ptx = match["kind"] != "-virtual", match["kind"] != "-real"
    elif match := _NVCC.fullmatch(word):
        cubin, ptx = match["kind"] == "sm", match["kind"] == "compute"
    else:
        return None
    return Arch(int(match["major"]), int(match["minor"]), match["suffix"], cubin, ptx)


_CMAKE_LIST = re.compile(r"[0-9]+[af]?(?:-real|-virtual)?(?:;[0-9]+[af]?(?:-real|-virtual)?|;)*", re.ASCII)
_CMAKE_OFF = re.compile(r"0|OFF|NO|FALSE|N|IGNORE|(?:.*-)?NOTFOUND", re.IGNORECASE | re.ASCII)


def cmake_problems(text: str) -> tuple[str, ...]:
    """Return why CMake refuses a value of CUDA_ARCHITECTURES, or no GPU is there for it; empty if it takes the value.

    Source: CMake 4.4.5, Modules/Internal/CMakeCUDAArchitecturesValidate.cmake.
    """
    if text in ALL or _CMAKE_OFF.fullmatch(text):
        return ()
    words = [word for word in SEPARATORS.split(text) if word]
    archs = [_parse_word(word) for word in words]
    problems = [_problem(word) for word, arch in zip(words, archs, strict=True) if arch is None and word not in ALL]
    if problems or not words:
        return (*problems,) or ("the list is empty",)
    if not all(archs):
        return (f"{_shorten(text)!r}: {' and '.join(ALL)} stand alone",)
    if _CMAKE_LIST.fullmatch(text):
        return ()
    spelled = (_in_cmake(word, arch) for word, arch in zip(words, archs, strict=True) if arch)
    return (f"CMake does not take {_shorten(text)!r}; write {';'.join(dict.fromkeys(spelled))!r}",)


def _in_cmake(word: str, arch: Arch) -> str:
    if _CMAKE.fullmatch(word):
        return word
    return arch.number + ("-virtual" if not arch.cubin else "-real" if word.startswith("sm_") else "")


def _problem(word: str) -> str:
    if word in _OPEN:
        return f"{word!r} {_OPEN[word]}; name the architectures"
    what = f"{_shorten(word)!r} is not an architecture"
    if gpu := _gpu_named(word):
        return f"{what} but a GPU of capability {gpu.capability}: write {gpu.capability} or {gpu.capability.replace('.', '')}"
    form = word.lower()
    # A number that is part of another one, or of a word, is no spelling of it.
    alike = [
        item
        for item in _spellings()
        if abs(len(item) - len(form)) < 2 <= len(form) and item[0].isdigit() is form[0].isdigit()
    ]
    near = get_close_matches(form, alike, n=1)
    return what + (f"; did you mean {_spellings()[near[0]]!r}?" if near else "")


_MAKER = re.compile(r"nvidia|geforce|tesla|quadro|\(.*\)|[\s_-]+")
_SERIES = re.compile(r"(?:rtx|gtx)?(?P<letter>[a-z]?)(?P<low>[0-9]+)–[a-z]?(?P<high>[0-9]+)(?:ti)?")


@cache
def _gpu_named(text: str) -> Gpu | None:
    """Return the GPUs that are sold under a name, such as ``RTX 4090`` or ``h100``; None if it is unknown."""
    named = _MAKER.sub("", text.lower())
    for gpu in gpus():
        for name in (_MAKER.sub("", name.lower()) for name in gpu.names):
            series = _SERIES.fullmatch(name)
            model = re.fullmatch(rf"(?:rtx|gtx)?{series['letter']}([0-9]{{4}})(?:ti|super)*", named) if series else None
            if named == name or (series and model and int(series["low"]) <= int(model[1]) <= int(series["high"])):
                return gpu
    return None


@cache
def _spellings() -> dict[str, str]:
    """Return all spellings of all known architectures, by the spelling in lower case."""
    spellings = []
    for arch in known():
        match = _CMAKE.fullmatch(arch)
        if match:
            dotted = f"{match['major']}.{match['minor']}{match['suffix']}"
            spellings += [dotted, dotted + "+PTX", arch, f"{arch}-real", f"{arch}-virtual"]
            spellings += [f"sm_{arch}", f"compute_{arch}"]
    return {spelling.lower(): spelling for spelling in spellings}


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


@cache
def known() -> tuple[str, ...]:
    """Return all architectures of the CUDA releases in the facts, as ``90a``, oldest release first."""
    return tuple(dict.fromkeys(number for release in cuda_releases() for number in release.sm))


def first_release(number: str) -> str:
    """Return the first CUDA release that supports ``number``; empty for none."""
    return next((release.version for release in cuda_releases() if number in release.sm), "")


def last_release(number: str) -> str:
    """Return the last CUDA release that supports ``number``; empty for none."""
    return next((release.version for release in reversed(cuda_releases()) if number in release.sm), "")


@cache
def _tegra() -> frozenset[tuple[int, ...]]:
    return frozenset(number(gpu.capability) for gpu in gpus() if gpu.tegra)


def runs_cubin(arch: Arch, major: int, minor: int) -> bool:
    """Whether machine code for ``arch`` runs on a GPU of compute capability ``major.minor``.

    It runs on the same major with an equal or higher minor. Variants with ``a`` and code for or on a Tegra run only on
    the same capability.
    """
    if not arch.cubin:
        return False
    here = (arch.major, arch.minor)
    if here == (major, minor):
        return True
    if arch.suffix == "a" or here in _tegra() or (major, minor) in _tegra():
        return False
    return arch.major == major and arch.minor <= minor


def runs_ptx(arch: Arch, major: int, minor: int) -> bool:
    """Whether a driver can compile the PTX of ``arch`` for a GPU of compute capability ``major.minor``.

    Plain PTX supports every later GPU, ``f`` those of its family, ``a`` only its own.
    """
    if not arch.ptx:
        return False
    if arch.suffix == "a":
        return (arch.major, arch.minor) == (major, minor)
    if arch.suffix == "f":
        return arch.major == major and arch.minor <= minor
    return (arch.major, arch.minor) <= (major, minor)


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
    major, minor = number(gpu.capability)
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
