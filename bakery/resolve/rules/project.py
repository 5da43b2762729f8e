"""The source folder of a plan, as input of rules: only names and two files are read, and no code runs."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement

from bakery.core.source_manifest import SourceManifest, first_link
from bakery.plan.model import Plan
from bakery.recipe.toml_file import table
from bakery.resolve.repository import text_of
from bakery.resolve.rules.build_files import BuildFiles, read_build_files
from bakery.resolve.rules.source import SourceFacts, read_source
from wheel_audit.requirements import parse_requirement

_ENDS = frozenset({";", "&&", "|", "&", "(", ")"})
_SYNTAX = frozenset({"||", "if", "for", "while", "until", "case", "select", "function", "{", "!", "[[", "install"})
"""Words of commands that are not judged: they may try programs, or install them."""

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*\Z")
_WRAPPERS = ("env", "exec", "time", "nice")
_PROGRAMS = {
    **{
        name: name
        for name in ("pytest", "coverage", "nox", "tox", "nose2", "mypy", "ruff", "flake8", "stestr", "green")
    },
    **{"py.test": "pytest", "robot": "robotframework", "trial": "twisted", "behave": "behave", "xdoctest": "xdoctest"},
}
"""Programs and modules for tests → the distribution that has them."""


@dataclass(frozen=True, slots=True)
class Project:
    """What rules need to know of a project.

    Attributes:
        folder: the source's folder in the build context; empty for a source that BuildKit fetches.
        package: the package's folder in the build context.
        has_build_file: there is a pyproject.toml or a setup.py.
        missing_files: those of ``test.files`` that do not exist or are not sent.
        linked_files: those of ``test.files`` that a link leads to, with the link and what they lead to.
        dependencies: what it requires to run; None if its build decides, and may require a program of the test's command.
        submodules: folders of git submodules that are not checked out.
        source: the facts about its files.
        build_files: what setup.py, CMake and Meson files say about C++ and CUDA.
        missing_sources: place in setup.py → a source file that it names and that does not exist.
        has_cuda_files: there is a file for nvcc.
        one_wheel: the lowest Python of its abi3 wheel (``py3`` for a ``py3-none`` one), and where it says so; empty for none.
    """

    folder: str = ""
    package: str = ""
    has_build_file: bool = True
    missing_files: tuple[str, ...] = ()
    linked_files: tuple[tuple[str, str, str], ...] = ()
    dependencies: tuple[Requirement, ...] | None = None
    submodules: tuple[str, ...] = ()
    build_files: BuildFiles = field(default_factory=BuildFiles)
    missing_sources: tuple[tuple[str, str], ...] = ()
    has_cuda_files: bool = True
    source: SourceFacts = field(default_factory=SourceFacts)
    one_wheel: tuple[str, str] = ("", "")


def read_project(plan: Plan, source: SourceManifest, one_wheel: tuple[str, str] | None = None) -> Project:
    """Return the facts about the source of a plan."""
    root = source.folder
    files = tuple(dict.fromkeys(path for facts in plan.all_facts for path in facts.test_files))
    folder = plan.source_context.folder
    package = posixpath.join(folder, plan.facts.subdirectory) if folder else ""
    if not folder:
        return Project(dependencies=())
    used = {name: dist for facts in plan.all_facts for name, dist in programs(facts.test_command).items()}

    def is_sent(path: str, inside: str = folder) -> bool:
        return posixpath.normpath(f"{inside}/{path}") in source.entries

    build_files = read_build_files(lambda name: text_of(root / package / name))
    return Project(
        folder=folder,
        package=posixpath.normpath(package),
        has_build_file=is_sent("pyproject.toml", package) or is_sent("setup.py", package),
        missing_files=tuple(path for path in files if not is_sent(path)),
        linked_files=tuple(
            (path, *first_link(root / folder, path)) for path in files if first_link(root / folder, path)[0]
        ),
        dependencies=_dependencies(root / package, used),
        submodules=tuple(_empty_submodules(root / folder)),
        build_files=build_files,
        missing_sources=tuple(missing_sources(build_files, lambda name: is_sent(name, package))),
        has_cuda_files=any(name.endswith(".cu") for name in source.entries),
        source=read_source(plan, source),
        one_wheel=one_wheel or ("", ""),
    )


def missing_sources(build_files: BuildFiles, exists: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Yield the source files that setup.py names and that do not exist, with their places; Cython writes some."""
    for path, place in build_files.sources.items():
        if not exists(path) and not exists(f"{path.rpartition('.')[0]}.pyx"):
            yield place, path


def programs(command: str) -> dict[str, str]:
    """Return the programs for tests that a shell command calls → the distributions that have them."""
    return {name: _PROGRAMS[name] for name in _called(command) if name in _PROGRAMS}


def _called(command: str) -> Iterator[str]:
    """Yield the programs that a shell command calls, and the modules that it runs; none if it is not a plain list."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    try:
        words = list(lexer)
    except ValueError:
        return
    if _SYNTAX.intersection(words):
        return
    starts = True
    for index, word in enumerate(words):
        if starts and not (_ASSIGNMENT.match(word) or word in _WRAPPERS):
            starts = False
            module = words[index + 1 : index + 3]
            yield module[1] if _PYTHON.match(word) and module[:1] == ["-m"] and module[1:] else word
        starts = starts or word in _ENDS


def _dependencies(folder: Path, programs: Mapping[str, str]) -> tuple[Requirement, ...] | None:
    """Return what a project requires to run; None if its build decides, and may require one of the programs."""
    try:
        project = table(text_of(folder / "pyproject.toml")).get("project")
    except ValueError:
        return None
    if isinstance(project, dict) and "dependencies" not in (project.get("dynamic") or ()):
        listed = project.get("dependencies", [])
        return tuple(filter(None, map(parse_requirement, map(str, listed)))) if isinstance(listed, list) else None
    text = "".join(text_of(folder / name) for name in ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"))
    return None if any(dist in text for dist in programs.values()) else ()


def _empty_submodules(folder: Path) -> Iterator[str]:
    for match in re.finditer(r"(?m)^\s*path\s*=\s*(\S.*?)\s*$", text_of(folder / ".gitmodules")):
        path = folder / match[1]
        if ".." not in path.parts and not (path.is_dir() and any(path.iterdir())):
            yield match[1]
