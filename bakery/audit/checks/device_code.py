"""Does the wheel hold the device code that was promised, and no other?

Libraries that were grafted in do not count: they have device code of their own and are judged elsewhere. The
objects of a wheel are taken together, because each may rightly be for another architecture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bakery.audit.elf import SharedObject
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.fatbin import DeviceImage, sorted_archs
from bakery.audit.finding import Finding, error, info, warning
from bakery.audit.wheel import Wheel, is_grafted

IDS = {
    "device-code-absent": "a wheel has no device code, though architectures are promised or it looks like one for CUDA",
    "device-arch-missing": "a promised GPU architecture has no device code",
    "device-arch-variant": "a promised GPU architecture has device code for a narrower variant of it",
    "device-arch-unasked": "there is device code for a GPU architecture that was not promised",
    "device-toolkit": "what the device code tells of the CUDA release that made it, and whether it is the promised one",
    "cuda-major": "a shared object needs a library of another CUDA than the promised one",
    "device-unreadable": "a shared object's device code is damaged",
}
_CUDA_MARK = re.compile(r"(?<![a-z])cu(?:da)?-?\d{2,3}(?!\d)")
_CUDART = re.compile(r"libcudart\.so\.(\d+)")
# Those whose number is CUDA's own (NVIDIA's wheels for 11.8 to 13.5); libcusolver.so.11 is also CUDA 12's.
_NUMBERED = re.compile(r"lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink)\.so\.(\d+)")
_OTHER_TOOLKIT = "was another toolkit found first, on PATH or by CUDA_HOME?"
_LOOSE = (".cubin", ".fatbin", ".ptx")


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield where device code and promise differ."""
    own = tuple(found for found in wheel.objects if not is_grafted(found.path))
    images = tuple(image for found in own for image in found.device_code.images)
    unreadable = [found for found in own if found.device_code.defect]
    for found in unreadable:
        yield warning(
            "device-unreadable", f"its device code cannot be read: {found.device_code.defect}", file=found.path
        )
    if wheel.archive.is_read and not images:
        yield from _check_absent(wheel, expected)
    elif expected.device_archs:
        yield from _check_archs(images, expected.device_archs)
    yield from _check_toolkit(images, expected.cuda)
    yield from _check_majors(own, expected.cuda)


def _check_absent(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    if expected.device_archs:
        yield error(
            "device-code-absent",
            f"has no device code; expected {', '.join(expected.device_archs)}",
            hint="an optional CUDA extension that failed to build leaves such a wheel: see the build's log",
        )
    elif reason := _looks_like_cuda(wheel, expected):
        yield warning("device-code-absent", f"has no device code, though {reason}")


def _looks_like_cuda(wheel: Wheel, expected: ExpectedWheel) -> str:
    if any(entry.path.endswith(_LOOSE) for entry in wheel.archive.entries):
        return ""  # the device code lies beside
    _, _, local = wheel.filename.version.partition("+")
    if _CUDA_MARK.search(wheel.filename.name) or _CUDA_MARK.search(local):
        return "its name or version says CUDA"
    if expected.cuda:
        return ""  # no list of architectures, and a toolkit: it is there for its libraries
    # A wheel that brings the runtime itself is a library for others.
    linked = (name for name in wheel.external if _CUDART.match(name))
    return f"it needs {name}" if (name := next(linked, "")) else ""


def _check_archs(images: tuple[DeviceImage, ...], promised: tuple[str, ...]) -> Iterator[Finding]:
    found = {image.arch for image in images}
    listed = ", ".join(sorted_archs(found))
    # A project may know a GPU's own variant to be the better one: SageAttention compiles sm_90a for 9.0. Not so PTX,
    # whose worth is that newer GPUs take it.
    instead = {arch: arch.rstrip("af") for arch in found - set(promised) if arch.startswith("sm_")}
    instead = {variant: arch for variant, arch in instead.items() if arch in set(promised) - found}
    for variant, arch in sorted(instead.items()):
        yield info("device-arch-variant", f"has {variant} for {arch}, which other GPUs of its family may not run")
    for arch in sorted_archs(set(promised) - found - set(instead.values())):
        yield error(
            "device-arch-missing",
            f"has no device code for {arch}; there is {listed}",
            hint="does the build take its architectures from the recipe, or set its own?",
        )
    for arch in sorted_archs(found - set(promised) - set(instead)):
        size = sum(image.size for image in images if image.arch == arch)
        yield error(
            "device-arch-unasked",
            f"has device code for {arch} ({size / 1e6:.2f} MB), expected {', '.join(promised)}",
            hint="name it in the recipe's architectures, or keep the build from adding it",
        )


def _check_toolkit(images: tuple[DeviceImage, ...], promised: str) -> Iterator[Finding]:
    told = {f"a tool of CUDA {image.toolkit}": image.toolkit for image in images if image.toolkit}
    told |= {f"PTX ISA {image.ptx_isa}": _cuda_of_isa(image.ptx_isa) for image in images if image.ptx_isa}
    if told:
        yield info("device-toolkit", f"its device code comes from {', '.join(sorted(told))}")
    major = promised.partition(".")[0]
    for source, release in sorted(told.items()):
        if major and release.partition(".")[0] != major:
            yield warning(
                "device-toolkit",
                f"expected CUDA {promised}, but it has {source}, which is CUDA {release.partition('.')[0]}'s",
                hint=_OTHER_TOOLKIT,
            )


def _check_majors(own: tuple[SharedObject, ...], promised: str) -> Iterator[Finding]:
    major = promised.partition(".")[0]
    for found in own:
        for name in found.needed:
            match = _NUMBERED.match(name)
            if major and match and match[1] != major:
                yield error(
                    "cuda-major",
                    f"needs {name}, which is CUDA {match[1]}'s; expected CUDA {promised}",
                    file=found.path,
                    hint=_OTHER_TOOLKIT,
                )


def _cuda_of_isa(isa: str) -> str:
    """Return the CUDA major that a PTX version came with.

    PTX 7.0 came with CUDA 11.0, 8.0 with 12.0, 9.0 with 13.0 (the PTX manual's table of release notes; seen in
    files of 11.8 to 13.5); a clang may write an older one than its toolkit knows.
    """
    return str(int(isa.partition(".")[0]) + 4)
