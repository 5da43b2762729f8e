"""The host compiler: what nvcc hands C++ code to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bakery.facts import cuda_release, zig
from bakery.rules.case import Case
from bakery.rules.rule import Rule, Severity

_CHOSEN = ("CUDAHOSTCXX", "NVCC_CCBIN")
"""Variables that name nvcc's host compiler, to CMake and to nvcc itself."""

_FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
_PLAIN = ("CC", "CXX")
"""torch hands CC to nvcc, CMake neither: what they mean for .cu depends on the project."""

_GCC = re.compile(r"(?<![a-z])(?:gcc|g\+\+|gcc-toolset|devtoolset)-([0-9]+)")
_CLANG = re.compile(r"clang(?:\+\+)?-([0-9]+)")
_ZIG = re.compile(r"(?:^|[/\s=])(?:zig|ziglang)(?:\s|$)")


def _named(text: str) -> tuple[str, int] | None:
    for kind, pattern in (("gcc", _GCC), ("clang", _CLANG)):
        if match := pattern.search(text):
            return kind, int(match[1])
    return None


def _host(case: Case) -> tuple[str, int, str] | None:
    """Return kind, major version and origin of nvcc's host compiler; None where the plan does not tell."""
    env = case.environment
    for name in _CHOSEN:
        if env.get(name):
            named = _named(env[name])
            return (*named, name) if named else None
    if any(env.get(name) for name in (*_PLAIN, *_FLAGS, "PATH")):
        return None
    if case.debian:
        return "gcc", case.debian.gcc, f"Debian {case.suite}"
    image = case.image
    row = image.manylinux if image and not image.cuda else None
    if image is None or row is None:
        return None
    # Of a tag that tells no day, or one before its family changed its compiler, the compiler is not known.
    if not image.newest and (not image.date or image.date < row.gcc_since):
        return None
    return "gcc", row.gcc, image.text


def _check(case: Case, *, new: bool) -> Iterator[str]:
    release = cuda_release(case.cuda) if case.compiler == "nvcc" else None
    host = _host(case) if release else None
    if release is None or host is None:
        return
    kind, version, where = host
    oldest, newest = (release.min_gcc, release.max_gcc) if kind == "gcc" else (release.min_clang, release.max_clang)
    if new and version > newest:
        yield f"{where}: nvcc of CUDA {release.version} takes {kind} up to {newest}, and this is {kind} {version}"
    if not new and version < oldest:
        yield f"{where}: nvcc of CUDA {release.version} takes {kind} from {oldest} on, and this is {kind} {version}"


def _new(case: Case) -> Iterator[str]:
    yield from _check(case, new=True)


def _old(case: Case) -> Iterator[str]:
    yield from _check(case, new=False)


def _zig(case: Case) -> Iterator[str]:
    if case.compiler:
        for name in (*_CHOSEN, *_PLAIN, *_FLAGS):
            if _ZIG.search(case.environment.get(name, "")):
                yield f"{name} = {case.environment[name]!r}: {zig().what}"


RULES = (
    Rule(
        id="host-compiler-new",
        severity=Severity.ERROR,
        text="nvcc's host compiler is not newer than its CUDA release takes",
        why="nvcc looks at the major version of gcc or clang and stops ('unsupported GNU version'); and where it is "
        "told not to look, it fails in the standard library's headers.",
        fix="take a CUDA release that takes it, a base with an older compiler, or install an older one "
        '(builder.system-packages) and name it: builder.environment CUDAHOSTCXX = "g++-13"',
        source="crt/host_config.h in NVIDIA's wheels, 11.8 to 13.5; default compilers from Debian's and pypa's images",
        check=_new,
    ),
    Rule(
        id="host-compiler-old",
        severity=Severity.ERROR,
        text="nvcc's host compiler is not older than its CUDA release takes",
        why="nvcc and its headers need a C++17 compiler.",
        fix="take a base with a newer compiler, or install one and name it: CUDAHOSTCXX",
        source="NVIDIA's installation guides for 12.6 to 13.2; elsewhere torch's table",
        check=_old,
    ),
    Rule(
        id="zig-cu",
        severity=Severity.ERROR,
        text="zig compiles no CUDA code",
        why="zig brings its own libc++ and glibc headers. nvcc refuses the one and cannot parse the others, and what "
        "is linked with libc++ does not fit torch, which is linked with libstdc++.",
        fix="leave zig to projects without .cu files; for an old glibc, take a manylinux image as base",
        source="ziglang 0.14.1, 0.15.2, 0.17.0 tried with CUDA 13.0 and 13.5",
        check=_zig,
    ),
)
