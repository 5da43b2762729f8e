"""torch and JAX: the Pythons, CUDA releases and architectures that extensions can be built for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from packaging.version import InvalidVersion, Version

from bakery.core.errors import UsageError
from bakery.resolve.device_promises import device_code, torch_list
from bakery.resolve.rules.build_files import standard
from bakery.resolve.rules.rule import Severity, rule
from bakery.resolve.rules.subject import RuleSubject
from bakery.toolchains.facts import jax_releases, minor, number, torch_arch_lists, torch_release
from bakery.toolchains.facts.archs import parse
from bakery.toolchains.facts.rows import JaxRelease, TorchArchList, TorchRelease

LIST = "TORCH_CUDA_ARCH_LIST"

_ENTRIES = re.compile(r"[; ]")
_OWN_LIST = re.compile(r"\w+_CUDA_ARCH(?:S|_LIST|ITECTURES)?")
_PLAT = re.compile(r"manylinux_([0-9]+)_([0-9]+)")


def _version(subject: RuleSubject) -> Version | None:
    try:
        return Version(subject.torch)
    except InvalidVersion:
        return None


def _torch_row(subject: RuleSubject) -> TorchRelease | None:
    version = _version(subject)
    return torch_release(version.base_version) if version else None


def _variants(row: TorchRelease) -> dict[str, list[str]]:
    """Return CUDA major → variants: ``cu128`` is of major 12."""
    variants: dict[str, list[str]] = {}
    for variant in row.variants:
        variants.setdefault(variant[2:-1], []).append(variant)
    return variants


def _accepting(subject: RuleSubject) -> TorchArchList:
    version = _version(subject)
    rows = torch_arch_lists()
    # Without a pin, pip installs the newest torch.
    return next((row for row in rows if version is None or number(row.since) <= version.release), rows[-1])


@rule("torch-arch-list", "TORCH_CUDA_ARCH_LIST contains only names that torch accepts")
def _arch_list(subject: RuleSubject) -> Iterator[str]:
    text = subject.environment.get(LIST, "")
    if not text:
        return
    row = _accepting(subject)
    for entry in _ENTRIES.split(text):
        plain = entry.removesuffix("+PTX")
        if plain in row.accepted or entry in row.names:
            continue
        shown = f"{LIST}: torch does not accept {entry!r}"
        if not entry:
            yield f"{LIST}: torch does not accept an empty entry (two separators in a row)"
        elif plain.endswith("f") and plain[:-1] in row.accepted:
            yield f"{shown}, nor any other f variant; it accepts {plain[:-1]} and {plain[:-1]}a"
        else:
            near = _as_torch(plain)
            yield f"{shown}; write {near!r}" if near in row.accepted else shown


def _as_torch(entry: str) -> str:
    """Return torch's spelling of an architecture that is written as for CMake or nvcc; empty if it is none."""
    try:
        (arch,) = parse(entry)
    except (UsageError, ValueError):
        return ""
    return f"{arch.major}.{arch.minor}{arch.suffix}"


@rule("torch-arch-unset", "The architectures of a torch extension with CUDA code are set", severity=Severity.WARNING)
def _arch_unset(subject: RuleSubject) -> Iterator[str]:
    # A list of the project's own, such as FLASH_ATTN_CUDA_ARCHS; torch then leaves the flags alone.
    has_own = any(_OWN_LIST.fullmatch(name) for name in subject.environment)
    # With flags of its own, torch needs no list; without a file for nvcc, nothing does.
    needs_none = subject.project.build_files.gpu_flags.place or not subject.project.has_cuda_files
    if subject.torch and subject.compiler and not subject.arch_lists and not has_own and not needs_none:
        yield f"the extension is for torch {subject.torch}, with CUDA code, and {LIST} is not set"


@rule("torch-arch-ignored", "The list of GPUs is the one that setup.py compiles for", severity=Severity.WARNING)
def _arch_ignored(subject: RuleSubject) -> Iterator[str]:
    flags = subject.project.build_files.gpu_flags
    text = subject.environment.get(LIST, "")
    if not flags.place or not subject.torch or not text:
        return
    code = flags.code(subject.cuda)
    if code and set(code) != set(device_code(text)):
        yield f"{LIST} is {text}, and the flags from {flags.place} on compile for {torch_list(code)}"
    elif not code and not any(_OWN_LIST.fullmatch(name) for name in subject.environment if name != LIST):
        yield f"{LIST} is {text}, and {flags.place} names GPUs in flags for nvcc"


@rule("framework-pins", "What pyproject.toml requires of torch and JAX allows the cell's release")
def _pins(subject: RuleSubject) -> Iterator[str]:
    pins = subject.project.build_files.pins
    for distribution, release in (("torch", subject.torch), ("jax", subject.jax), ("jaxlib", subject.jax)):
        for pin in pins.get(distribution, ()) if _is_release(release) else ():
            # The wheel requires something else than its project, whose requirement nothing installs.
            replaced = pin.of_project and distribution in subject.always_required
            allows = pin.requirement.specifier.contains(release, prereleases=True)
            if not replaced and not allows and subject.applies(pin.requirement):
                yield f"{pin.place} requires {pin.requirement}, and the cell has {release}"


def _is_release(text: str) -> bool:
    return re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", text) is not None


@rule("torch-python", "torch has wheels for the cell's Python")
def _torch_python(subject: RuleSubject) -> Iterator[str]:
    row = _torch_row(subject)
    if row and subject.python not in row.pythons:
        yield f"torch {subject.torch} has no wheel for Python {subject.python}, only for {', '.join(row.pythons)}"


@rule("torch-cuda", "torch has wheels for the CUDA major that compiles")
def _torch_cuda(subject: RuleSubject) -> Iterator[str]:
    row, major = _torch_row(subject), subject.cuda_major
    if row and major and major not in _variants(row):
        yield f"torch {subject.torch} has no wheels for CUDA {major}, only {', '.join(row.variants)}"


@rule("torch-pypi-cuda", "torch is installed from an index with wheels for the cell's CUDA", severity=Severity.WARNING)
def _index(subject: RuleSubject) -> Iterator[str]:
    row, major, version = _torch_row(subject), subject.cuda_major, _version(subject)
    if row is None or version is None or not major or major not in _variants(row):
        return
    variant = re.fullmatch(r"cu([0-9]+)[0-9]", version.local or subject.framework_index.rstrip("/").rpartition("/")[2])
    if variant is None and subject.framework_index:
        return
    torch_cuda = variant[1] if variant else minor(row.cuda).partition(".")[0]
    if torch_cuda != major:
        theirs = f"is {variant[0]}" if variant else f"on PyPI is for CUDA {row.cuda}"
        yield (
            f"torch {subject.torch} {theirs}, and this cell compiles with CUDA {subject.cuda}; "
            f"torch's index has {', '.join(_variants(row)[major])}"
        )


@rule("torch-clang", "nvcc compiles the CUDA code of a torch extension")
def _clang(subject: RuleSubject) -> Iterator[str]:
    if subject.torch and subject.compiler == "clang":
        yield f"the extension is for torch {subject.torch}, and clang compiles CUDA {subject.cuda} here"


@rule("torch-standard", "No flag states an older C++ standard than torch's headers need", severity=Severity.WARNING)
def _standard(subject: RuleSubject) -> Iterator[str]:
    recipe = {name: standard(text) for name, text in {**subject.environment, **subject.settings}.items()}
    yield from _too_old(subject, recipe | subject.project.build_files.standards)


@rule("torch-standard-setup", "setup.py gives torch's extensions no older C++ standard than torch's headers need")
def _standard_of_setup(subject: RuleSubject) -> Iterator[str]:
    yield from _too_old(subject, subject.project.build_files.torch_standards)


def _too_old(subject: RuleSubject, stated: Mapping[str, int]) -> Iterator[str]:
    row = _torch_row(subject)
    for where, number_ in stated.items():
        if row and 0 < number_ < row.cxx:
            yield f"{where} states C++{number_:02}, and the headers of torch {subject.torch} need C++{row.cxx}"


@rule("torch-manylinux", "The base's glibc is new enough to install torch")
def _manylinux(subject: RuleSubject) -> Iterator[str]:
    row = _torch_row(subject)
    match = _PLAT.fullmatch(row.tag) if row else None
    if row and match and subject.glibc and number(subject.glibc) < (int(match[1]), int(match[2])):
        yield (
            f"torch {subject.torch} needs glibc {match[1]}.{match[2]} and the base "
            f"{subject.image.text if subject.image else ''} has {subject.glibc}"
        )


def _jax_row(subject: RuleSubject) -> JaxRelease | None:
    return next((row for row in jax_releases() if subject.jax and minor(row.version) == minor(subject.jax)), None)


@rule("jax-python", "jaxlib has wheels for the cell's Python")
def _jax_python(subject: RuleSubject) -> Iterator[str]:
    row = _jax_row(subject)
    if row and row.pythons and subject.python not in row.pythons:
        yield f"JAX {row.version} has no wheel for Python {subject.python}, only for {', '.join(row.pythons)}"


@rule("jax-cuda", "JAX has an extra for the CUDA major that compiles")
def _jax_cuda(subject: RuleSubject) -> Iterator[str]:
    row, major = _jax_row(subject), subject.cuda_major
    if row and major and f"cuda{major}" not in row.extras:
        yield f"JAX {row.version} has no extra cuda{major}; it has {', '.join(row.extras)}"
