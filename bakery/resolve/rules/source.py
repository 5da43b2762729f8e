"""What rules need to know of a source's files: what of it a build would not have, and what git does not tell."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bakery.core.git import doubt, tracked_files
from bakery.core.inside import leads
from bakery.core.source_manifest import SourceManifest
from bakery.plan.dockerfile import Command, Run
from bakery.plan.model import Plan
from bakery.recipe.toml_file import table
from wheel_audit.plain_files import open_plain, read_plain

_LARGEST = 1 << 20
_POINTER, _POINTER_BYTES = b"version https://git-lfs.github.com/spec/v1\n", range(100, 1025)
_C = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inc", ".m", ".mm")
_PYTHON_BUILDS = re.compile(
    r"setuptools|scikit-build|maturin|meson-python|hatch|poetry|pdm|flit|setuptools-rust|py-build-cmake|cython|mypyc|cffi"
)
_UP = re.compile(r"""(?:^|[\s"'(=,;:]|\}/)((?:\.\./)+[\w.@+-]+(?:/[\w.@+-]+)*)""", re.MULTILINE)
_JOINED = re.compile(
    r"""(?:["']\.\.["']\s*[,/]\s*|\.parent\.parent\s*/\s*|\.parents\[1\]\s*/\s*)["']([\w.@+/-]+)["']"""
)
_CALL = re.compile(r"(?m)^[ \t]*(\w+)[ \t]*\(([^()]*)\)")
_READING = re.compile(
    r"add_subdirectory|include|(?:target_)?include_directories|target_sources|file|configure_file|\w*add_(?:library|executable|module)"
)
_ASKS = ("exists(", "isdir(", "isfile(", "is_dir(", "is_file(", "EXISTS", "is_dir (", "fs.")


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts about the files of a source; paths are relative to the build context.

    Attributes:
        doubt: why git does not tell the commit of the source, and what to do; empty texts if it does.
        left_out: files and folders of the project that look like results, so they are not sent.
        pointers: files that are pointers of Git LFS.
        links: link → its target, which a build does not have.
        beyond: place in a build file → a path outside of the source that it names.
        names: names that are not UTF-8.
        scripts: scripts that the recipe calls and whose first line ends with a carriage return.
        timestamps: files of C and C++ that use ``__TIMESTAMP__``.
    """

    doubt: tuple[str, str] = ("", "")
    left_out: tuple[str, ...] = ()
    pointers: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    beyond: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    timestamps: tuple[str, ...] = ()


def read_source(plan: Plan, source: SourceManifest) -> SourceFacts:
    """Return the facts about the files of a plan's source; files are read, and no code runs."""
    root, folder = source.folder, plan.source_context.folder
    tracked = tracked_files(root / folder)
    inside = [posixpath.normpath(f"{folder}/{name}") for name in tracked or _packages(root / folder)]
    files = [(name, status.st_size) for name, status in source.names() if stat.S_ISREG(status.st_mode)]
    links = (name for name, status in source.names() if stat.S_ISLNK(status.st_mode))
    known = set(inside)
    return SourceFacts(
        doubt=doubt(root / folder),
        left_out=source.left_out(inside, plan.source_context.default_ignore),
        pointers=tuple(name for name, size in files if size in _POINTER_BYTES and _begins(root / name, _POINTER)),
        links=tuple(_dangling(source, folder, (name for name in links if name in known or not tracked))),
        beyond=tuple(read_beyond(root, folder, (name for name, _ in files))),
        names=tuple(name for name, status in source.entries.items() if _is_no_text(name, status, root)),
        scripts=tuple(_scripts(plan, source)),
        timestamps=tuple(name for name, _ in files if name.endswith(_C) and b"__TIMESTAMP__" in _read(root / name)),
    )


def _packages(folder: Path) -> Iterator[str]:
    """Yield packages that look like results, in a folder of which git says nothing."""
    return (f"{name}/__init__.py" for name in ("dist", "wheels", "wheelhouse") if leads(folder / name / "__init__.py"))


def _is_no_text(name: str, status: os.stat_result, root: Path) -> bool:
    """Whether the name or the target of a link is not UTF-8."""
    text = f"{name}{(root / name).readlink()}" if stat.S_ISLNK(status.st_mode) else name
    return not text.isprintable() and any("\ud800" <= char <= "\udfff" for char in text)


def _dangling(source: SourceManifest, folder: str, links: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the links that lead to something here, and to nothing in a build, with their targets."""
    base, top = "" if folder == "." else f"{folder}/", os.path.realpath(source.folder)
    for name in links:
        path = source.folder / name
        target = os.fspath(path.readlink())
        if not leads(path):
            continue
        places = (
            posixpath.normpath(posixpath.join(posixpath.dirname(name), target)),
            posixpath.relpath(os.path.realpath(path), top),
        )
        is_sent = all(place == folder or (place.startswith(base) and place in source.entries) for place in places)
        if posixpath.isabs(target) or not is_sent:
            yield name, target


def read_beyond(root: Path, folder: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the places in build files that name something above a folder, and what they name; both relative to ``root``."""
    for name in names:
        kind = PurePosixPath(name).name
        if kind not in ("pyproject.toml", "setup.py", "setup.cfg", "CMakeLists.txt", "meson.build", "Cargo.toml"):
            continue
        text = _read(root / name).decode(errors="replace")
        if any(word in text for word in _ASKS):
            # It builds without them, too.
            continue
        for path in dict.fromkeys(_named(kind, text)):
            place = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            is_outside = place.startswith("../") or not (folder == "." or place.startswith(f"{folder}/"))
            if is_outside and place != folder and (root / place).exists():
                line = next((number for number, row in enumerate(text.splitlines(), 1) if _last(path) in row), 1)
                yield f"{name}:{line}", place


def _last(path: str) -> str:
    return path.rpartition("../")[2]


def _named(kind: str, text: str) -> Iterator[str]:
    """Yield the paths above its own folder that a build file names, where a build reads them."""
    if kind == "pyproject.toml":
        try:
            document = table(text)
        except ValueError:
            return
        tool = document.get("tool")
        tables = [value for name, value in tool.items() if _PYTHON_BUILDS.match(name)] if isinstance(tool, dict) else []
        text = "\n".join(_strings([document.get("project"), document.get("build-system"), *tables]))
    else:
        text = re.sub(r"(?m)(?:^|\s)#.*$", "", text)
    if kind == "CMakeLists.txt":
        text = "\n".join(match[2] for match in _CALL.finditer(text) if _READING.fullmatch(match[1].lower()))
    yield from (match[1] for match in _UP.finditer(text))
    yield from (f"../{match[1]}" for match in _JOINED.finditer(text))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _scripts(plan: Plan, source: SourceManifest) -> Iterator[str]:
    folder, seen = plan.source_context.folder, set[str]()
    commands = (
        item for stage in plan.stages for step in stage.steps if isinstance(step, Run) for item in step.commands
    )
    for item in commands:
        words = [part for word in item.words for part in word] if isinstance(item, Command) else [item.text]
        text = " ".join(word for word in words if isinstance(word, str))
        for word in re.split(r"""[\s;|&()<>"'=]+""", text):
            name = posixpath.normpath(f"{folder}/{word.removeprefix('/src/')}")
            if (
                word
                and name not in seen
                and name in source.entries
                and _first_line(source.folder / name).endswith(b"\r\n")
            ):
                yield name
            seen.add(name)


def _first_line(path: Path) -> bytes:
    """Return the first line of a script; empty for another file."""
    line = _read(path).partition(b"\n")
    return line[0] + line[1] if line[0].startswith(b"#!") else b""


def _begins(path: Path, head: bytes) -> bool:
    try:
        with open_plain(path) as file:
            return file.read(len(head)) == head
    except OSError:
        return False


def _read(path: Path) -> bytes:
    try:
        return read_plain(path, _LARGEST)
    except OSError:
        return b""
