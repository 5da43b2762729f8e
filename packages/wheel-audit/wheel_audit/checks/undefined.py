"""Does an object need the libraries that define the symbols that it calls?

A linker drops a library that defines no needed symbol, and a shared object may have undefined symbols. With an empty
stub of libcuda, an object calls the driver without needing it; without one source file, nothing defines its functions.
Both build, and fail at import: ``undefined symbol: cuTensorMapEncodeTiled``.

The machine's libraries are not read. A table knows the symbols of NVIDIA's libraries and torch, symbol versions show
those of glibc and GCC, and the interpreter has those of Python. If an object can reach a library whose own needs are
not known, there are no findings about symbols that it could provide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from wheel_audit.dependencies import LoadScope, by_soname, scopes
from wheel_audit.elf import SharedObject
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, Severity, error, error_if
from wheel_audit.systems import KNOWN_EXTERNAL, SYSTEM, TORCH
from wheel_audit.text import listed
from wheel_audit.wheel import Wheel


@dataclass(frozen=True, slots=True)
class Family:
    """The exported symbols of the libraries that match ``sonames``.

    ``silent`` are globs of external libraries, besides ``SYSTEM``, that do not load one of them.
    """

    name: str
    pattern: re.Pattern[str]
    sonames: tuple[str, ...]
    silent: tuple[str, ...] = ()


_LEAVES = ("libcuda.so*", "libcudart.so*", "libcurand.so*", "libcufft.so*", "libnvrtc.so*", "libnccl.so*")
"""They need nothing but the system's libraries (DT_NEEDED of NVIDIA's wheels for CUDA 12.8 and 13.0)."""

_DRIVER = "the CUDA driver"
FAMILIES = (
    # cuFile is NVIDIA's only library with names like the driver's. Nothing in KNOWN_EXTERNAL needs the driver: all of
    # these libraries, torch included, also load without one.
    Family(_DRIVER, re.compile(r"cu(?!File)[A-Z]\w*"), ("libcuda.so*",), KNOWN_EXTERNAL),
    Family("the CUDA runtime", re.compile(r"(__)?cuda[A-Z]\w*"), ("libcudart.so*",), _LEAVES),
    Family("cuBLASLt", re.compile(r"cublasLt[A-Z]\w*"), ("libcublasLt.so*",), _LEAVES),
    Family("cuBLAS", re.compile(r"cublas(?!Lt[A-Z])[A-Z]\w*"), ("libcublas.so*",), (*_LEAVES, "libcublasLt.so*")),
    Family("cuSOLVER", re.compile(r"cusolver[A-Z]\w*"), ("libcusolver*.so*",), (*_LEAVES, "libcu[bs]*.so*")),
    Family("cuSPARSE", re.compile(r"cusparse(?!Lt[A-Z])[A-Z]\w*"), ("libcusparse.so*",), (*_LEAVES, "libcublas*.so*")),
    Family("cuSPARSELt", re.compile(r"cusparseLt[A-Z]\w*"), ("libcusparseLt.so*",), _LEAVES),
    Family("cuFFT", re.compile(r"cufft[A-Z]\w*"), ("libcufft.so*",), _LEAVES),
    Family("cuRAND", re.compile(r"curand[A-Z]\w*"), ("libcurand.so*",), _LEAVES),
    Family("cuDNN", re.compile(r"cudnn[A-Z]\w*"), ("libcudnn*.so*",), (*_LEAVES, "libcublas*.so*")),
    Family("NCCL", re.compile(r"p?nccl[A-Z]\w*"), ("libnccl.so*",), (*_LEAVES, "libcublas*.so*")),
    Family("NVRTC", re.compile(r"nvrtc[A-Z]\w*"), ("libnvrtc.so*",), _LEAVES),
    Family("nvJitLink", re.compile(r"(__)?nvJitLink\w+"), ("libnvJitLink.so*",), _LEAVES),
    Family("CUPTI", re.compile(r"cupti[A-Z]\w*"), ("libcupti.so*",), _LEAVES),
    Family("cuFile", re.compile(r"cuFile[A-Z]\w*"), ("libcufile.so*",), _LEAVES),
    Family("torch", re.compile(r"_ZNK?(2at|3c10|5torch|6caffe2)\w+|aoti_torch_\w+"), TORCH, KNOWN_EXTERNAL),
)
"""Source: the headers of CUDA 11.8 to 13.5, NCCL 2.27 and torch 2.14, compared with the exports of the libraries."""

_KNOWN = (*SYSTEM, *(glob for family in FAMILIES for glob in family.sonames))
"""Libraries whose symbols are all known; torch has its own rule."""

_DEVICE_LINK = re.compile(r"__cudaRegisterLinkedBinary_\w+|__fatbinwrap_\w+")
"""What code with relocatable device code calls, and what nvlink's host code defines in the same object: no library does."""

_PYTHON = re.compile(r"_?Py[A-Z_]\w*")
# Reserved names, and those of libm, libpthread and libdl: the interpreter needs these three, so they are always loaded.
# gcc-toolset's linker leaves names of std without a version.
_LOADED = re.compile(
    r"_(?!Z)\w*|_Z(T[A-Z])?(GV)?(NK?)?S[tabdios]\w*|_Z(T[A-Z])?N10__cxxabiv1\w*|_Z[nd][wal]\w*|(pthread|sem|dl|shm|aio|mq|timer|clock|crypt|lio)_?\w*|(openpty|forkpty|login_tty|environ)"
    r"|(a?(sin|cos|tan)h?(pi)?|atan2|sincos|exp(2|10|m1)?|log(2|10|1p|b)?|pow|sqrt|cbrt|hypot|erfc?|[lt]?gamma(_r)?"
    r"|lgamma_r|floor|ceil|round(even)?|l?l?(rint|round)|trunc|f(abs|dim|max|min|ma|mod|rexp|inite)|ldexp|modf|nan"
    r"|nearbyint|next(after|toward)|rem(ainder|quo)|drem|scalb(l?n)?|ilogb|significand|[jy][01n]|copysign|is(inf|nan)"
    r"|c(abs|arg|conj|imag|real|proj|exp|log|pow|sqrt|a?(sin|cos|tan)h?)|fe[a-z]+)[fl]?"
)
# A function of the global namespace, usually of the extension itself; torch has some, in its Python binding.
_GLOBAL_FUNCTION = re.compile(r"_Z\d+(?!\d|THP|torch|dispatch|register)\w+")


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield objects that call symbols which no reachable library provides."""
    # Wheels of other projects may rely on libraries that the user loads before.
    severity = error_if(not expected.is_empty)
    objects = wheel.objects
    names = {name: objects[index] for name, index in by_soname(objects).items()}
    offers = _offers(objects)
    # A plugin finds the symbols of the program that loads it.
    programs = sum(1 << index for index, binary in enumerate(objects) if ".so" not in binary.file_name)
    for binary, scope in zip(objects, scopes(objects), strict=True):
        around = scope.inside | programs
        undefined = binary.symbols.undefined.items()
        left = {name: soname for name, soname in undefined if not offers.get(name, 0) & around}
        if unlinked := [name for name in left if _DEVICE_LINK.fullmatch(name)]:
            yield error(
                "device-link", f"calls {listed(sorted(unlinked))}, which only a device link defines", binary.path
            )
        yield from _check_versions(binary, left, names)
        yield from _check_families(binary, left, scope, severity)
        yield from _check_rest(binary, left, scope, offers, objects, severity)


def _offers(objects: tuple[SharedObject, ...]) -> dict[str, int]:
    """Return needed symbol → the set of objects that define it, a number with a bit for the index of each."""
    undefined = {hash(name): name for binary in objects for name in binary.symbols.undefined}
    offers: dict[str, int] = {}
    for index, binary in enumerate(objects):
        for name in binary.symbols.provides(undefined):
            offers[name] = offers.get(name, 0) | 1 << index
    return offers


def _check_families(
    binary: SharedObject, left: Mapping[str, str], scope: LoadScope, severity: Severity
) -> Iterator[Finding]:
    for family in FAMILIES:
        if not scope.needs(family.sonames) and scope.only((*SYSTEM, *family.silent)):
            wanted = (name for name, soname in left.items() if not (soname or _DEVICE_LINK.fullmatch(name)))
            missing = [name for name in wanted if family.pattern.fullmatch(name)]
            library = family.sonames[0].replace("*", "")
            if missing and family.name == _DRIVER:
                text = f"calls {listed(sorted(missing))}, but nothing it needs is libcuda.so.1"
                yield error("driver-not-needed", text, binary.path)
            elif missing:
                text = f"calls {listed(sorted(missing))} of {family.name}, but nothing it needs is {library}"
                yield Finding("library-not-needed", severity, text, binary.path)


def _check_rest(
    binary: SharedObject,
    left: Mapping[str, str],
    scope: LoadScope,
    offers: Mapping[str, int],
    objects: tuple[SharedObject, ...],
    severity: Severity,
) -> Iterator[Finding]:
    """Check symbols of no known library, if no external library could define them."""
    # Without a version of glibc it was linked in an unusual way, or to musl, which has no versions.
    if binary.glibc is None or not scope.only(_KNOWN):
        return
    judged = _GLOBAL_FUNCTION if scope.needs(TORCH) else None
    missing = [
        name
        for name, soname in left.items()
        if not soname
        and (judged is None or judged.fullmatch(name))
        and not (_PYTHON.fullmatch(name) or _LOADED.fullmatch(name))
        and not any(family.pattern.fullmatch(name) for family in FAMILIES)
    ]
    if not missing:
        return
    others = reduce(or_, (offers.get(name, 0) for name in missing))
    other = objects[(others & -others).bit_length() - 1].path if others else ""
    text = f"calls {listed(sorted(missing))}, which " + (
        f"{other} defines, but it does not need it" if other else "nothing defines"
    )
    hint = "link the two, with $ORIGIN in its search path" if other else "is a source file or a library left out?"
    yield Finding("undefined-symbol", severity, text, binary.path, hint)


def _check_versions(
    binary: SharedObject, left: Mapping[str, str], names: Mapping[str, SharedObject]
) -> Iterator[Finding]:
    for soname, version in sorted(binary.symbols.versions_needed):
        other = names.get(soname)
        # The loader checks versions only of libraries that have any.
        if other and other.symbols.versions_defined and version not in other.symbols.versions_defined:
            yield error(
                "undefined-version", f"needs {version} of {soname}, which {other.path} does not define", binary.path
            )
    by_library: dict[str, list[str]] = {}
    for name, soname in left.items():
        by_library.setdefault(soname, []).append(name)
    for soname, missing in by_library.items():
        # No findings if the library's symbols cannot be read.
        if soname in names and names[soname].symbols.defined:
            yield error(
                "undefined-symbol",
                f"calls {listed(sorted(missing))} of {soname}, which does not define it",
                binary.path,
            )
