"""CUDA releases and the architectures they compile for."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.core.errors import UsageError
from bakery.resolve.rules.case import Case
from bakery.resolve.rules.device import OPEN, listed_code
from bakery.resolve.rules.rule import rule
from bakery.toolchains.facts import broken_releases, clangs, cuda_release
from bakery.toolchains.facts.archs import Arch, parse
from bakery.toolchains.facts.cover import lack


def _listed(case: Case) -> Iterator[tuple[str, tuple[Arch, ...]]]:
    """Yield every list of architectures that can be read; TORCH_CUDA_ARCH_LIST has a rule for its own grammar."""
    for where, text in case.arch_lists:
        if text not in OPEN:
            try:
                yield where, parse(text)
            except UsageError:
                continue


@rule(
    "cuda-arch-syntax",
    "A list of architectures names architectures",
    why="CMake and nvcc stop at a name they do not know, minutes after the build began; 'native' asks for the "
    "GPU of the machine that builds, and a container that builds has none.",
    fix="write 80, 80-real or 80-virtual with semicolons between",
    source="CMake, CUDA_ARCHITECTURES",
)
def _syntax(case: Case) -> Iterator[str]:
    for where, text in case.arch_lists:
        if where != "TORCH_CUDA_ARCH_LIST" and text not in OPEN:
            try:
                parse(text)
            except UsageError as error:
                yield from (f"{where}: {problem}" for problem in error.details)


@rule(
    "cuda-arch-lists",
    "Where several variables list architectures, they list the same",
    why="Each build system reads its own variable and none compares them: the wheel would hold code for the GPUs of "
    "one of them, or of each in another part, and no audit could tell which was meant.",
    fix="write the same in each (torch's 9.0 is CMake's 90-real, its 9.0+PTX is 90), or keep the one that the project "
    "reads",
    source="CMake, CUDA_ARCHITECTURES; torch 2.13, torch/utils/cpp_extension.py",
)
def _differ(case: Case) -> Iterator[str]:
    lists = listed_code(case) if case.compiler else {}
    if len({frozenset(code) for code in lists.values()}) > 1:
        yield "; ".join(f"{where} asks for {', '.join(code)}" for where, code in lists.items())


def _lacks(case: Case, *, dropped: bool) -> Iterator[str]:
    release = cuda_release(case.cuda) if case.compiler else None
    if release is None:
        return
    for where, archs in _listed(case):
        for problem in filter(None, (lack(arch.number, release) for arch in archs)):
            if problem.dropped is dropped:
                yield f"{where}: {problem.text}"


@rule(
    "cuda-unknown-arch",
    "The CUDA release knows every architecture it is to compile for",
    why="ptxas refuses a target that its release does not have yet, and no flag helps.",
    fix="take the CUDA release that is named, or leave the architecture out for this one (matrix.overrides)",
    source="ptxas --help of NVIDIA's wheels, 11.8 to 13.5",
)
def _unknown(case: Case) -> Iterator[str]:
    yield from _lacks(case, dropped=False)


@rule(
    "cuda-dropped-arch",
    "The CUDA release still knows every architecture it is to compile for",
    why="CUDA 12.0 dropped 35 and 37; CUDA 13.0 everything below 75, and it calls 101 110.",
    fix="leave the architecture out for this CUDA release or write its new name (matrix.overrides), or take an older "
    "release",
    source="ptxas --help of NVIDIA's wheels, 11.8 to 13.5",
)
def _dropped(case: Case) -> Iterator[str]:
    yield from _lacks(case, dropped=True)


@rule(
    "clang-arch",
    "Where clang compiles CUDA, it knows every architecture",
    why="The toolkit for CUDA 12 compiles with clang, for there is no nvcc in NVIDIA's wheels of CUDA 12. It "
    "knows fewer GPUs than the release's own ptxas.",
    fix="take CUDA 13, which is compiled by nvcc, or leave the architecture out for CUDA 12 (matrix.overrides); "
    "PTX of an older one (90-virtual) runs there, too",
    source="clang-19 of Debian bookworm; sm_100 came with LLVM 20 (llvm/llvm-project#127918)",
)
def _clang(case: Case) -> Iterator[str]:
    if case.compiler != "clang":
        return
    row = clangs()[-1]
    newest = parse(row.newest)[0]
    for where, archs in _listed(case):
        for arch in archs:
            if (arch.major, arch.minor) > (newest.major, newest.minor) or arch.suffix == "f":
                yield (
                    f"{where}: clang {row.version}, which compiles CUDA {case.cuda} here, has GPUs up to "
                    f"sm_{row.newest} and no sm_{arch.number}"
                )


@rule(
    "cuda-release-broken",
    "The CUDA release's packages work",
    why="Some releases in the package index are incomplete; a build with them fails at its first .cu.",
    fix="take the release that is named",
    source="a bake that failed, 2026-11-20",
)
def _broken(case: Case) -> Iterator[str]:
    for row in broken_releases():
        if (row.package, row.version) in case.needs:
            yield f"CUDA {row.version} does not work: {row.what}; {row.instead} does"
