"""The host compiler, which nvcc calls for C++ code."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from bakery.resolve.rules.rule import rule
from bakery.resolve.rules.subject import RuleSubject
from bakery.toolchains.facts import cuda_release, suites, toolsets, zig
from bakery.toolchains.facts.rows import CudaRelease

_CHOSEN = ("CUDAHOSTCXX", "NVCC_CCBIN")
"""Variables that name nvcc's host compiler, to CMake and to nvcc itself."""

_FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
_PLAIN = ("CC", "CXX")
"""torch passes CC to nvcc, CMake passes neither: their effect on .cu files depends on the project."""

_GCC = re.compile(r"(?<![a-z])(?:gcc|g\+\+|gcc-toolset|devtoolset)-([0-9]+)")
_CLANG = re.compile(r"clang(?:\+\+)?-([0-9]+)")
_ZIG = re.compile(r"(?:^|[/\s=])(?:zig|ziglang)(?:\s|$)")


def _named(text: str) -> tuple[str, int] | None:
    for kind, pattern in (("gcc", _GCC), ("clang", _CLANG)):
        if match := pattern.search(text):
            return kind, int(match[1])
    return None


def _chosen(subject: RuleSubject) -> tuple[str, int, str] | None:
    """Return kind, major version and variable of the compiler that the recipe names; None if it names none."""
    for name in _CHOSEN:
        if subject.environment.get(name):
            named = _named(subject.environment[name])
            return (*named, name) if named else None
    return None


def _base_gcc(subject: RuleSubject) -> tuple[int, str] | None:
    """Return the major version of the base's gcc and a name of the base; None if unknown."""
    if subject.debian:
        return subject.debian.gcc, f"Debian {subject.suite}"
    image = subject.image
    row = subject.manylinux if image and not image.cuda and not image.variant else None
    if image is None or row is None:
        return None
    # The compiler is unknown for a tag without a date, or with a date before the family changed its compiler.
    if not image.newest and (not image.date or image.date < row.gcc_since):
        return None
    return row.gcc, image.text


def _installable(subject: RuleSubject) -> tuple[int, ...]:
    """Return the gcc majors that the toolkit's stage can install in addition to the base's.

    On Debian these are those of its packages and of older releases: what is newer would need a newer C library.
    """
    if not subject.plan.facts.picks_host:
        return ()
    if subject.debian:
        older = itertools.takewhile(lambda row: row.name != subject.suite, suites())
        return tuple(number for row in (*older, subject.debian) for number in row.gccs)
    row = subject.manylinux
    return next((item.gccs for item in toolsets() if row and item.base == row.base), ())


def _check(subject: RuleSubject, *, new: bool) -> Iterator[str]:
    release = cuda_release(subject.cuda) if subject.compiler == "nvcc" else None
    if release is None:
        return
    if any(subject.environment.get(name) for name in _CHOSEN):
        if host := _chosen(subject):
            yield from _judge(release, *host, new=new)
        return
    base_gcc = _base_gcc(subject)
    if base_gcc is None or any(subject.environment.get(name) for name in (*_PLAIN, *_FLAGS, "PATH")):
        return
    if not any(release.min_gcc <= number <= release.max_gcc for number in _installable(subject)):
        yield from _judge(release, "gcc", *base_gcc, new=new)


def _judge(release: CudaRelease, kind: str, version: int, where: str, *, new: bool) -> Iterator[str]:
    oldest, newest = (release.min_gcc, release.max_gcc) if kind == "gcc" else (release.min_clang, release.max_clang)
    if new and version > newest:
        yield f"{where}: nvcc of CUDA {release.version} supports {kind} up to {newest}, and this is {kind} {version}"
    if not new and version < oldest:
        yield f"{where}: nvcc of CUDA {release.version} supports {kind} from {oldest} on, and this is {kind} {version}"


@rule("host-compiler-new", "The host compiler is not too new for nvcc")
def _new(subject: RuleSubject) -> Iterator[str]:
    yield from _check(subject, new=True)


@rule("host-compiler-old", "The host compiler is not too old for nvcc")
def _old(subject: RuleSubject) -> Iterator[str]:
    yield from _check(subject, new=False)


@rule("zig-cu", "zig is not the compiler of CUDA code")
def _zig(subject: RuleSubject) -> Iterator[str]:
    if subject.compiler:
        for name in (*_CHOSEN, *_PLAIN, *_FLAGS):
            if _ZIG.search(subject.environment.get(name, "")):
                yield f"{name} = {subject.environment[name]!r}: {zig()[0].what}"
