"""CUDA releases and the architectures they compile for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bakery.core.errors import UsageError
from bakery.resolve.device_promises import OPEN, listed_code
from bakery.resolve.rules.build_files import is_separable
from bakery.resolve.rules.rule import Severity, rule
from bakery.resolve.rules.subject import RuleSubject
from bakery.toolchains.facts import broken_releases, clangs, cuda_release, cuda_releases, number
from bakery.toolchains.facts.archs import Arch, cmake_problems, lack, parse


def _listed(subject: RuleSubject) -> Iterator[tuple[str, tuple[Arch, ...]]]:
    """Yield every list of architectures that can be read; TORCH_CUDA_ARCH_LIST has a rule for its own grammar."""
    for where, text in subject.arch_lists:
        if text not in OPEN:
            try:
                yield where, parse(text)
            except UsageError:
                continue


@rule("cuda-arch-syntax", "Lists of architectures are valid")
def _syntax(subject: RuleSubject) -> Iterator[str]:
    for where, text in subject.arch_lists:
        if where != "TORCH_CUDA_ARCH_LIST":
            yield from (f"{where}: {problem}" for problem in cmake_problems(text))


@rule("cuda-arch-lists", "All variables with lists of architectures have the same list")
def _differ(subject: RuleSubject) -> Iterator[str]:
    lists = listed_code(subject) if subject.compiler else {}
    if len({frozenset(code) for code in lists.values()}) > 1:
        yield "; ".join(f"{where} lists {', '.join(code)}" for where, code in lists.items())


def _lacks(subject: RuleSubject, *, dropped: bool) -> Iterator[str]:
    release = cuda_release(subject.cuda) if subject.compiler else None
    if release is None:
        return
    for where, archs in _listed(subject):
        for problem in filter(None, (lack(arch.number, release) for arch in archs)):
            if problem.dropped is dropped:
                yield f"{where}: {problem.text}"


@rule("cuda-unknown-arch", "The CUDA release already supports every architecture")
def _unknown(subject: RuleSubject) -> Iterator[str]:
    yield from _lacks(subject, dropped=False)


@rule("cuda-dropped-arch", "The CUDA release still supports every architecture")
def _dropped(subject: RuleSubject) -> Iterator[str]:
    yield from _lacks(subject, dropped=True)


@rule("clang-arch", "If clang compiles CUDA, it supports every architecture")
def _clang(subject: RuleSubject) -> Iterator[str]:
    if subject.compiler != "clang":
        return
    row = clangs()[-1]
    newest = parse(row.newest)[0]
    for where, archs in _listed(subject):
        for arch in archs:
            if (arch.major, arch.minor) > (newest.major, newest.minor) or arch.suffix == "f":
                yield (
                    f"{where}: clang {row.version}, which compiles CUDA {subject.cuda} here, supports GPUs up to "
                    f"sm_{row.newest}, not sm_{arch.number}"
                )


_CUDA_ELSEWHERE = re.compile(r"cuda|nvcc|nvidia", re.IGNORECASE)


@rule("cuda-sources", "A project with CUDA code has a compiler for it", severity=Severity.WARNING)
def _sources(subject: RuleSubject) -> Iterator[str]:
    place = subject.project.build_files.cuda
    # Another image, a package, a command or a variable of the recipe may bring a compiler.
    brought = subject.plan.facts.before_build or any(
        map(
            _CUDA_ELSEWHERE.search,
            (*subject.plan.facts.packages, *map(str, subject.requirements), *subject.environment),
        )
    )
    is_known = subject.debian or (subject.manylinux and subject.image and not subject.image.variant)
    if place and is_known and not (subject.toolkit or (subject.image and subject.image.cuda) or brought):
        yield f"{place} compiles CUDA code, and the builder has no compiler for it"


@rule("clang-separable", "If clang compiles CUDA, no device code is linked")
def _separable(subject: RuleSubject) -> Iterator[str]:
    if subject.compiler != "clang":
        return
    texts = {**subject.settings, **{f"CMAKE_ARGS: {name}": value for name, value in subject.cmake_defines.items()}}
    named = [name for name, value in texts.items() if name.endswith("CUDA_SEPARABLE_COMPILATION") and value in _ON]
    flagged = [name for name, value in {**subject.environment, **subject.settings}.items() if is_separable(value)]
    place = subject.project.build_files.separable
    for where in (*named, *flagged, *filter(None, (place,))):
        yield f"{where} asks for device code that is linked, and clang compiles CUDA {subject.cuda} here"


_ON = ("ON", "TRUE", "YES", "1", "on", "true", "True", "yes")

_COMPRESS_MODE = re.compile(r"--?compress-mode[=\s]+([a-z]+)")
_COMPRESS_SINCE = "12.8"
"""The first CUDA release whose nvcc has the option."""
_ZSTD_DRIVER = "12.4"
"""The oldest driver, by its CUDA release, that reads code compressed with Zstandard."""


def _compress_mode(subject: RuleSubject) -> str:
    """Return the compression that the flags for nvcc ask for; empty for none. nvcc takes the last one."""
    flags = " ".join(subject.environment.get(name, "") for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"))
    modes = _COMPRESS_MODE.findall(flags)
    return modes[-1] if modes else ""


@rule("device-compression", "The compiler of CUDA code can compress device code")
def _compression(subject: RuleSubject) -> Iterator[str]:
    mode = _compress_mode(subject)
    if not mode:
        return
    if subject.compiler == "clang":
        yield f"--compress-mode={mode} is an option of nvcc, and clang compiles CUDA {subject.cuda} here"
    elif not subject.cuda:
        yield f"--compress-mode={mode} is an option of nvcc, and the recipe has no CUDA"
    elif number(subject.cuda) < number(_COMPRESS_SINCE):
        yield f"nvcc of CUDA {subject.cuda} does not know --compress-mode={mode}; it is new in CUDA {_COMPRESS_SINCE}"


@rule("device-compression-driver", "Drivers that can run the wheel can read its device code", severity=Severity.WARNING)
def _compression_driver(subject: RuleSubject) -> Iterator[str]:
    mode = _compress_mode(subject)
    if mode in ("size", "balance") and subject.compiler == "nvcc" and subject.cuda_major == "12":
        yield f"--compress-mode={mode}: the wheel needs a driver of CUDA {_ZSTD_DRIVER} (550) or newer"


def _unknown_release(subject: RuleSubject) -> tuple[bool, tuple[str, ...]] | None:
    """Return whether the CUDA release is newer than all known ones, and those of its major; None if nothing is wrong."""
    if (
        not subject.compiler
        or not re.fullmatch(r"[0-9]+\.[0-9]+(\.[0-9]+)?", subject.cuda)
        or cuda_release(subject.cuda)
    ):
        return None
    known = [row.version for row in cuda_releases()]
    if number(subject.cuda) < number(known[0]):
        # Before the facts begin.
        return None
    same = tuple(item for item in known if item.partition(".")[0] == subject.cuda.partition(".")[0])
    return number(subject.cuda) > number(known[-1]), same or tuple(known[-1:])


@rule("cuda-release-missing", "There is such a CUDA release")
def _missing_release(subject: RuleSubject) -> Iterator[str]:
    found = _unknown_release(subject)
    if found and not found[0]:
        yield f"CUDA_VERSION: there is no CUDA {subject.cuda}; there are {', '.join(found[1])}"


@rule("cuda-release-new", "Bakery knows the CUDA release", severity=Severity.WARNING)
def _new_release(subject: RuleSubject) -> Iterator[str]:
    found = _unknown_release(subject)
    if found and found[0]:
        yield f"CUDA {subject.cuda} is newer than {found[1][-1]}, the newest release that Bakery knows"


@rule("cuda-release-broken", "The packages of the CUDA release work")
def _broken(subject: RuleSubject) -> Iterator[str]:
    for row in broken_releases():
        if (row.package, row.version) in subject.needs:
            yield f"CUDA {row.version} does not work: {row.what}; {row.instead} does"
