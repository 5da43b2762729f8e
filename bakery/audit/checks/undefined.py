"""Can everything that an object calls come from what it asks the loader for?

A linker drops a library that defines nothing it needs, and a shared object may leave names undefined. An empty stub
of libcuda so leaves an object that calls the driver without naming it, and a source file that was left out leaves
its functions to nobody. Both build, and fail at import: ``undefined symbol: cuTensorMapEncodeTiled``.

The machine's libraries are not looked at. Names are judged by whose they are: a table says it of NVIDIA's and
torch's, a symbol version of glibc's and GCC's, the interpreter has those of Python. As soon as a library comes into
reach whose own needs are not known, nothing is said of what it could bring.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from bakery.audit.dependencies import Reach, by_soname, scopes
from bakery.audit.elf import SharedObject
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, error, error_if
from bakery.audit.systems import KNOWN_EXTERNAL, SYSTEM, TORCH
from bakery.audit.wheel import Wheel

IDS = {
    "driver-not-needed": "a shared object calls the CUDA driver but does not ask the loader for libcuda",
    "library-not-needed": "a shared object calls one of NVIDIA's libraries or torch but does not ask the loader for it",
    "undefined-symbol": "a shared object calls what nothing in its reach defines",
    "undefined-version": "a shared object asks a library of the wheel for a symbol version that it lacks",
}
HINTS = {
    "driver-not-needed": "link with a libcuda stub that defines the driver's functions: an empty one is dropped",
    "library-not-needed": "link with the library, after the objects that call it; an empty stub of it is dropped",
}


@dataclass(frozen=True, slots=True)
class Family:
    """The names of one library.

    Attributes:
        name: of the library, for people.
        pattern: its exported names, all of each.
        sonames: globs over the libraries that have them.
        silent: globs over libraries from elsewhere that are known not to bring it; besides ``SYSTEM``.
    """

    name: str
    pattern: re.Pattern[str]
    sonames: tuple[str, ...]
    silent: tuple[str, ...] = ()


_LEAVES = ("libcuda.so*", "libcudart.so*", "libcurand.so*", "libcufft.so*", "libnvrtc.so*", "libnccl.so*")
"""They need nothing but the system's libraries (DT_NEEDED of NVIDIA's wheels for CUDA 12.8 and 13.0)."""

_DRIVER = "the CUDA driver"
FAMILIES = (
    # cuFile is the one library of NVIDIA's whose names look like the driver's. Nothing of KNOWN_EXTERNAL needs the
    # driver: all of it, torch included, is made to be loaded where there is none.
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
"""Whose a name is. From the headers of CUDA 11.8 to 13.5, NCCL 2.27 and torch 2.14; the libraries' own exports agree."""

_KNOWN = (*SYSTEM, *(glob for family in FAMILIES for glob in family.sonames))
"""Libraries whose every name is known to be theirs, or torch's, which is judged apart."""

_PYTHON = re.compile(r"_?Py[A-Z_]\w*")
# The implementation's own names, and those of libm, libpthread and libdl: the interpreter needs these three, so an
# object that forgot to ask for them finds them all the same. std's come without a version from gcc-toolset's linker.
_LOADED = re.compile(
    r"_(?!Z)\w*|_Z(T[A-Z])?(GV)?(NK?)?S[tabdios]\w*|_Z(T[A-Z])?N10__cxxabiv1\w*|_Z[nd][wal]\w*|(pthread|sem|dl|shm|aio|mq|timer|clock|crypt|lio)_?\w*|(openpty|forkpty|login_tty|environ)"
    r"|(a?(sin|cos|tan)h?(pi)?|atan2|sincos|exp(2|10|m1)?|log(2|10|1p|b)?|pow|sqrt|cbrt|hypot|erfc?|[lt]?gamma(_r)?"
    r"|lgamma_r|floor|ceil|round(even)?|l?l?(rint|round)|trunc|f(abs|dim|max|min|ma|mod|rexp|inite)|ldexp|modf|nan"
    r"|nearbyint|next(after|toward)|rem(ainder|quo)|drem|scalb(l?n)?|ilogb|significand|[jy][01n]|copysign|is(inf|nan)"
    r"|c(abs|arg|conj|imag|real|proj|exp|log|pow|sqrt|a?(sin|cos|tan)h?)|fe[a-z]+)[fl]?"
)
# A function of the global namespace. torch has some, in its Python binding; an extension's own are the usual case.
_GLOBAL_FUNCTION = re.compile(r"_Z\d+(?!\d|THP|torch|dispatch|register)\w+")


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every object that calls what nothing in its reach brings."""
    # Somebody else's wheel may rely on what its user has loaded before.
    severity = error_if(not expected.is_empty)
    objects = wheel.objects
    names = {name: objects[index] for name, index in by_soname(objects).items()}
    offers = _offers(objects)
    # A plugin finds what the program that loads it has.
    programs = sum(1 << index for index, binary in enumerate(objects) if ".so" not in binary.file_name)
    for binary, scope in zip(objects, scopes(objects), strict=True):
        around = scope.inside | programs
        undefined = binary.symbols.undefined.items()
        left = {name: soname for name, soname in undefined if not offers.get(name, 0) & around}
        yield from _check_versions(binary, left, names)
        yield from _check_families(binary, left, scope, severity)
        yield from _check_rest(binary, left, scope, offers, objects, severity)


def _offers(objects: tuple[SharedObject, ...]) -> dict[str, int]:
    """Return name → who defines it, a number with a bit for the place of each; only names that somebody wants."""
    undefined = {hash(name): name for binary in objects for name in binary.symbols.undefined}
    offers: dict[str, int] = {}
    for index, binary in enumerate(objects):
        for name in binary.symbols.provides(undefined):
            offers[name] = offers.get(name, 0) | 1 << index
    return offers


def _check_families(
    binary: SharedObject, left: Mapping[str, str], scope: Reach, severity: Severity
) -> Iterator[Finding]:
    for family in FAMILIES:
        if not scope.needs(family.sonames) and scope.only((*SYSTEM, *family.silent)):
            missing = [name for name, soname in left.items() if not soname and family.pattern.fullmatch(name)]
            library = family.sonames[0].replace("*", "")
            if missing and family.name == _DRIVER:
                text = f"calls {_listed(missing)}, but nothing it needs is libcuda.so.1"
                yield error("driver-not-needed", text, binary.path)
            elif missing:
                text = f"calls {_listed(missing)} of {family.name}, but nothing it needs is {library}"
                yield Finding("library-not-needed", severity, text, binary.path)


def _check_rest(
    binary: SharedObject,
    left: Mapping[str, str],
    scope: Reach,
    offers: Mapping[str, int],
    objects: tuple[SharedObject, ...],
    severity: Severity,
) -> Iterator[Finding]:
    """Judge the names that are no known library's, where no library from elsewhere could have them."""
    # Without a version of glibc it was linked in a way of its own (or to musl, which has no versions).
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
    text = f"calls {_listed(missing)}, which " + (
        f"{other} defines, but it does not need it" if other else "is nowhere"
    )
    hint = "link the two, with $ORIGIN in its search path" if other else "is a source file or a library left out?"
    yield Finding("undefined-symbol", severity, text, binary.path, hint)


def _check_versions(
    binary: SharedObject, left: Mapping[str, str], names: Mapping[str, SharedObject]
) -> Iterator[Finding]:
    for soname, version in sorted(binary.symbols.versions_needed):
        other = names.get(soname)
        # The loader only complains of a version where the library has versions at all.
        if other and other.symbols.versions_defined and version not in other.symbols.versions_defined:
            yield error("undefined-version", f"needs {version} of {soname}, which {other.path} lacks", binary.path)
    by_library: dict[str, list[str]] = {}
    for name, soname in left.items():
        by_library.setdefault(soname, []).append(name)
    for soname, missing in by_library.items():
        # Where an object's symbols could not be read nothing is said of them.
        if soname in names and names[soname].symbols.defined:
            yield error("undefined-symbol", f"calls {_listed(missing)} of {soname}, which lacks it", binary.path)


def _listed(names: list[str]) -> str:
    first = sorted(names)[:3]
    return ", ".join(first) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
