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


@rule(
    "cuda-arch-syntax",
    "Lists of architectures are valid",
    why="CMake stops at another spelling, and nvcc at an unknown name, minutes after the start of the build. 'native' is "
    "the GPU of the machine, and a build container has none.",
    fix="write 80, 80-real or 80-virtual, separated by semicolons without blanks; or all or all-major alone",
    source="CMake 4.4.5, CUDA_ARCHITECTURES and CMakeCUDAArchitecturesValidate.cmake",
)
def _syntax(subject: RuleSubject) -> Iterator[str]:
    for where, text in subject.arch_lists:
        if where != "TORCH_CUDA_ARCH_LIST":
            yield from (f"{where}: {problem}" for problem in cmake_problems(text))


@rule(
    "cuda-arch-lists",
    "All variables with lists of architectures have the same list",
    why="Each build system reads its own variable. With different lists, parts of the wheel would support different "
    "GPUs, and the audit could not know which list is meant.",
    fix="write the same architectures in each (torch's 9.0 is CMake's 90-real, 9.0+PTX is 90), or keep only the "
    "variable that the project reads",
    source="CMake, CUDA_ARCHITECTURES; torch 2.13, torch/utils/cpp_extension.py",
)
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


@rule(
    "cuda-unknown-arch",
    "The CUDA release already supports every architecture",
    why="ptxas refuses an architecture that is newer than its release. No flag changes this.",
    fix="use the CUDA release in the message, or remove the architecture for this release (matrix.overrides)",
    source="ptxas --help of NVIDIA's wheels, 11.8 to 13.5",
)
def _unknown(subject: RuleSubject) -> Iterator[str]:
    yield from _lacks(subject, dropped=False)


@rule(
    "cuda-dropped-arch",
    "The CUDA release still supports every architecture",
    why="CUDA 12.0 dropped 35 and 37. CUDA 13.0 dropped everything below 75, and renamed 101 to 110.",
    fix="remove the architecture for this CUDA release or use its new name (matrix.overrides), or use an older release",
    source="ptxas --help of NVIDIA's wheels, 11.8 to 13.5",
)
def _dropped(subject: RuleSubject) -> Iterator[str]:
    yield from _lacks(subject, dropped=True)


@rule(
    "clang-arch",
    "If clang compiles CUDA, it supports every architecture",
    why="NVIDIA's wheels of CUDA 12 do not contain nvcc, so toolkit clang compiles CUDA 12. It supports fewer "
    "architectures than the ptxas of the release.",
    fix="use CUDA 13, which nvcc compiles, or remove the architecture for CUDA 12 (matrix.overrides); PTX of an older "
    "architecture (90-virtual) also runs on these GPUs",
    source="clang-19 of Debian bookworm; sm_100 came with LLVM 20 (llvm/llvm-project#127918)",
)
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


@rule(
    "cuda-sources",
    "A project with CUDA code has a compiler for it",
    why="The base of the builder has no nvcc, so CMake, Meson or torch stop when they look for one. This is checked by "
    "`check` and before a build.",
    fix='set builder.toolkit = "cuda" and the variable CUDA_VERSION, or use an image with CUDA as the base',
    source="CMake 4.4.5: No CMAKE_CUDA_COMPILER could be found; torch 2.13: CUDA_HOME environment variable is not set",
    severity=Severity.WARNING,
)
def _sources(subject: RuleSubject) -> Iterator[str]:
    place = subject.project.build_files.cuda if subject.project else ""
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


@rule(
    "clang-separable",
    "If clang compiles CUDA, no device code is linked",
    why="NVIDIA's wheels of CUDA 12 have neither nvlink for it nor crt/link.stub, so the link of separately compiled device "
    "code fails: fatbinary does not know the option of CMake.",
    fix='use CUDA 13, or toolkit "debian", "image" or "repository" for CUDA 12, which have nvcc; or compile without '
    "CUDA_SEPARABLE_COMPILATION and -rdc=true",
    source="a bake with toolkit clang and CUDA 12 that failed, 2026-11",
)
def _separable(subject: RuleSubject) -> Iterator[str]:
    if subject.compiler != "clang":
        return
    texts = {**subject.settings, **{f"CMAKE_ARGS: {name}": value for name, value in subject.cmake_defines.items()}}
    named = [name for name, value in texts.items() if name.endswith("CUDA_SEPARABLE_COMPILATION") and value in _ON]
    flagged = [name for name, value in {**subject.environment, **subject.settings}.items() if is_separable(value)]
    place = subject.project.build_files.separable if subject.project else ""
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


@rule(
    "device-compression",
    "The compiler of CUDA code can compress device code",
    why="nvcc has --compress-mode since CUDA 12.8 and stops at an option that it does not know. clang does not have it.",
    fix="remove builder.device-compression, or use CUDA 12.8 or newer with nvcc (NVIDIA's wheels have it from CUDA 13 on)",
    source="nvcc --help of 12.6 to 13.5; CUDA 12.8 release notes",
)
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


@rule(
    "device-compression-driver",
    "Drivers that can run the wheel can read its device code",
    why="Code of CUDA 12 runs on drivers from CUDA 12.0 on, but drivers older than CUDA 12.4 (550) cannot read "
    "Zstandard, which --compress-mode=size uses: loading fails with 'device kernel image is invalid'. CUDA 13 needs a "
    "newer driver anyway.",
    fix="require driver 550 or newer in your documentation, or set builder.device-compression = 'speed'",
    source="CUDA 12.8 release notes; vllm-project/vllm#20694, pytorch/pytorch#157791",
    severity=Severity.WARNING,
)
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


@rule(
    "cuda-release-missing",
    "There is such a CUDA release",
    why="NVIDIA publishes no more releases of an older major. The packages of one that does not exist are not found, after "
    "the base of the builder was made.",
    fix="use a release in the message, in three parts: 12.8.1",
    source="NVIDIA's wheels and release notes, 11.8 to 13.5",
)
def _missing_release(subject: RuleSubject) -> Iterator[str]:
    found = _unknown_release(subject)
    if found and not found[0]:
        yield f"CUDA_VERSION: there is no CUDA {subject.cuda}; there are {', '.join(found[1])}"


@rule(
    "cuda-release-new",
    "Bakery knows the CUDA release",
    why="The rules about compilers and architectures say nothing of a release that is newer than Bakery's facts, and the "
    "release may not exist.",
    fix="check that NVIDIA has the release; `pip index versions cuda-toolkit` lists those of its wheels",
    source="NVIDIA's wheels and release notes, 11.8 to 13.5",
    severity=Severity.WARNING,
)
def _new_release(subject: RuleSubject) -> Iterator[str]:
    found = _unknown_release(subject)
    if found and found[0]:
        yield f"CUDA {subject.cuda} is newer than {found[1][-1]}, the newest release that Bakery knows"


@rule(
    "cuda-release-broken",
    "The packages of the CUDA release work",
    why="Some releases in the package index are incomplete, so a build fails at its first .cu file.",
    fix="use the release in the message",
    source="a failed bake, 2026-11-20",
)
def _broken(subject: RuleSubject) -> Iterator[str]:
    for row in broken_releases():
        if (row.package, row.version) in subject.needs:
            yield f"CUDA {row.version} does not work: {row.what}; {row.instead} does"
