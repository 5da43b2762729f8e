"""The source folder of a plan, as input of rules: only names and two files are read, and no code runs."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from bakery.core.dockerignore import Ignore
from bakery.core.files import read_plain
from bakery.plan.dockerfile import Command, Run
from bakery.plan.model import Plan
from bakery.plan.values import Ref, Value

_LARGEST = 1 << 20
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
        has_build_file: there is a pyproject.toml or a setup.py.
        missing_files: those of ``test.files`` that do not exist or are not sent.
        programs: those of the test's command that no requirement names.
        only_these: no other requirement can install one of them either.
        submodules: folders of git submodules that are not checked out.
    """

    folder: str = ""
    has_build_file: bool = True
    missing_files: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    only_these: bool = False
    submodules: tuple[str, ...] = ()


def read_project(root: Path, plan: Plan) -> Project:
    """Return the facts about the source of a plan; ``root`` is the folder of its build context."""
    files, command, requirements = _test_of(plan)
    used = {name: _PROGRAMS[name] for name in _called(command) if name in _PROGRAMS}
    folder = plan.source_context.folder
    listed = _dependencies(root / folder, used) if folder else None
    names = {
        canonicalize_name(re.split(r"[^\w.-]", item.strip(), maxsplit=1)[0])
        for item in (*requirements, *(listed or ()))
    }
    programs = [name for name, dist in used.items() if not any(item.startswith(dist) for item in names)]
    lacking = tuple(programs) if listed is not None or not folder else ()
    only_these = not names and bool(folder)
    if not folder:
        return Project(programs=lacking)
    ignore = Ignore(plan.ignore)

    def is_sent(path: str) -> bool:
        inside = path if folder == "." else f"{folder}/{path}"
        return (root / inside).exists() and (ignore.has_exceptions or not ignore.ignores(inside))

    return Project(
        folder=folder,
        has_build_file=is_sent("pyproject.toml") or is_sent("setup.py"),
        missing_files=tuple(path for path in files if not is_sent(path.rstrip("/"))),
        programs=lacking,
        only_these=only_these,
        submodules=tuple(_empty_submodules(root / folder)),
    )


def _test_of(plan: Plan) -> tuple[list[str], str, list[str]]:
    """Return files, command and requirements of a plan's test."""
    runs = [(stage.name, step) for stage in plan.stages for step in stage.steps if isinstance(step, Run)]
    words = [
        [_text(word) for word in command.words]
        for name, run in runs
        for command in run.commands
        if name == f"{plan.recipe}-test" and isinstance(command, Command)
    ]
    files = [line[2].removeprefix("/src/") for line in words if line[:2] == ["cp", "-r"]]
    command = next((line[2] for line in words if line[:2] == ["sh", "-c"]), "")
    resolved = [run.resolves for name, run in runs if name == "test-requirements" and run.resolves]
    requirements = [_text(word) for item in resolved for word in item.words]
    return files, command, [word for word in requirements if not word.startswith(("-", "/"))]


def _text(value: Value) -> str:
    return "".join("${" + part.name + "}" if isinstance(part, Ref) else part for part in value)


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


def _dependencies(folder: Path, programs: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return what a project requires to run; None if its build decides, and may require one of the programs."""
    try:
        table = tomllib.loads(_read(folder / "pyproject.toml")).get("project")
    except tomllib.TOMLDecodeError:
        return None
    if isinstance(table, dict) and "dependencies" not in (table.get("dynamic") or ()):
        listed = table.get("dependencies", [])
        return tuple(name for item in listed if (name := _name(item))) if isinstance(listed, list) else None
    text = "".join(_read(folder / name) for name in ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"))
    return None if any(dist in text for dist in programs.values()) else ()


def _name(requirement: object) -> str:
    try:
        return Requirement(str(requirement)).name
    except InvalidRequirement:
        return ""


def _empty_submodules(folder: Path) -> Iterator[str]:
    for match in re.finditer(r"(?m)^\s*path\s*=\s*(\S.*?)\s*$", _read(folder / ".gitmodules")):
        path = folder / match[1]
        if ".." not in path.parts and not (path.is_dir() and any(path.iterdir())):
            yield match[1]


def _read(path: Path) -> str:
    try:
        return read_plain(path, _LARGEST).decode(errors="replace")
    except OSError:
        return ""
