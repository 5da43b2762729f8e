"""Does the wheel have exactly the device code that the recipe names?

Bundled libraries do not count: they have their own device code, and other checks. The objects of a wheel are checked
together, since each may be for another architecture.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from wheel_audit.checks import hint_of
from wheel_audit.elf import SharedObject
from wheel_audit.expected_wheel import ExpectedWheel, folder_of
from wheel_audit.fatbin import DeviceImage, sorted_archs
from wheel_audit.finding import Finding, error, info, warning
from wheel_audit.pe import PeImage
from wheel_audit.systems import cuda_majors
from wheel_audit.wheel import Wheel, is_grafted

_CUDA_MARK = re.compile(r"(?<![a-z])cu(?:da)?-?\d{2,3}(?!\d)")
_CUDART = re.compile(r"(?:lib)?cudart(?:\.so\.|64_)\d+", re.IGNORECASE)
_LOOSE = (".cubin", ".fatbin", ".ptx")


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield the differences between the device code and the recipe."""
    objects = tuple(binary for binary in wheel.device_objects if not is_grafted(binary.path))
    images = _images(objects)
    for binary in objects:
        if defect := binary.device_code.defect:
            yield warning("device-unreadable", f"its device code cannot be read: {defect}", binary.path)
    if wheel.archive.is_read and not images:
        yield from _check_absent(wheel, expected)
    elif expected.device_archs:
        rest = [
            binary for binary in objects if not any(folder_of(binary.path, item.folder) for item in expected.folders)
        ]
        yield from _check_archs(_images(rest), expected.device_archs)
    for item in expected.folders:
        inside = tuple(binary for binary in objects if folder_of(binary.path, item.folder))
        if not inside:
            yield error("device-folder-absent", f"no shared object is in the folder for CUDA {item.cuda}", item.folder)
            continue
        if item.device_archs:
            yield from _check_archs(_images(inside), item.device_archs, folder_of(inside[0].path, item.folder))
        yield from _check_toolkit(_images(inside), inside, item.cuda)
    if not expected.folders:
        yield from _check_toolkit(images, objects, expected.cuda)


def _images(objects: Iterable[SharedObject | PeImage]) -> tuple[DeviceImage, ...]:
    return tuple(image for binary in objects for image in binary.device_code.images)


def _check_absent(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    if expected.device_archs:
        text = f"has no device code; expected {', '.join(expected.device_archs)}"
        hint = "an optional CUDA extension that failed to build leaves such a wheel: see the build's log"
        yield error("device-code-absent", text, hint=hint)
    elif reason := _looks_like_cuda(wheel, expected):
        yield warning("device-code-absent", f"has no device code, though {reason}")


def _looks_like_cuda(wheel: Wheel, expected: ExpectedWheel) -> str:
    if any(entry.path.endswith(_LOOSE) for entry in wheel.archive.entries):
        return ""  # the device code is in these files
    _, _, local = wheel.filename.version.partition("+")
    if _CUDA_MARK.search(wheel.filename.name) or _CUDA_MARK.search(local):
        return "its name or version says CUDA"
    if expected.cuda:
        return ""  # a toolkit without a list of architectures: only its libraries are used
    # A wheel that contains the runtime is a library for others.
    linked = (name for name in wheel.external if _CUDART.match(name))
    return f"it needs {name}" if (name := next(linked, "")) else ""


def _check_archs(images: tuple[DeviceImage, ...], expected: tuple[str, ...], folder: str = "") -> Iterator[Finding]:
    archs = {image.arch for image in images}
    missing, unasked = set(expected) - archs, archs - set(expected)
    # A project may prefer the variant of one GPU: SageAttention compiles sm_90a for 9.0. PTX has no such variants: its
    # purpose is to run on newer GPUs.
    variants = {arch: arch.rstrip("af") for arch in unasked if arch.startswith("sm_") and arch.rstrip("af") in missing}
    for variant, arch in sorted(variants.items()):
        yield info(
            "device-arch-variant", f"has {variant} for {arch}, which other GPUs of its family may not run", folder
        )
    for arch in sorted_archs(missing - set(variants.values())):
        there = ", ".join(sorted_archs(archs)) or "none"
        yield error("device-arch-missing", f"has no device code for {arch}; there is {there}", folder)
    for arch in sorted_archs(unasked - set(variants)):
        size = sum(image.size for image in images if image.arch == arch)
        text = f"has device code for {arch} ({size / 1e6:.2f} MB), expected {', '.join(expected)}"
        yield error("device-arch-unasked", text, folder)


def _check_toolkit(
    images: tuple[DeviceImage, ...], objects: tuple[SharedObject | PeImage, ...], expected: str
) -> Iterator[Finding]:
    releases = {f"a tool of CUDA {image.toolkit}": image.toolkit for image in images if image.toolkit}
    releases |= {f"PTX ISA {image.ptx_isa}": _cuda_of_isa(image.ptx_isa) for image in images if image.ptx_isa}
    if releases:
        yield info("device-toolkit", f"its device code comes from {', '.join(sorted(releases))}")
    major = expected.partition(".")[0]
    if not major:
        return
    for source, release in sorted(releases.items()):
        if (other := release.partition(".")[0]) != major:
            text = f"expected CUDA {expected}, but it has {source}, which is CUDA {other}'s"
            yield warning("device-toolkit", text, hint=hint_of("cuda-major"))
    for binary in objects:
        for name in binary.needed:
            if (majors := cuda_majors(name)) and major not in majors:
                text = f"needs {name}, which is CUDA {' or '.join(majors)}'s; expected CUDA {expected}"
                yield error("cuda-major", text, binary.path)


def _cuda_of_isa(isa: str) -> str:
    """Return the CUDA major of a PTX version: PTX 7.0 came with CUDA 11.0, 8.0 with 12.0, 9.0 with 13.0.

    Source: the PTX manual's release notes, and files of 11.8 to 13.5. clang may write an older version.
    """
    return str(int(isa.partition(".")[0]) + 4)
