"""Which source files the build of a project compiles, as far as its build files tell."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable

from bakery.init.conditions import Conditions
from bakery.init.findings import texts
from bakery.init.tree import Tree

HEADER = re.compile(r"\.(?:h|hh|hpp|hxx|inl|cuh|pxd|pxi)$")
"""Names of headers."""

_LONGEST = 200
_MOST_GLOBS = 200
_DATA = re.compile(
    r"(?m)^\[(?:tool\.setuptools|options)\.(?:exclude[-_])?package[-_]data\]\n(?:(?!\[)[^\n]*\n?)*"
    r"|\bpackage_data[ \t]*=[ \t]*\{[^{}]{0,4000}\}"
)
"""What a wheel holds as it is, in pyproject.toml, setup.cfg or setup.py: CUDA code there is compiled at a user's, by cupy or NVRTC."""

_BETWEEN = re.compile(r"[^\w./*?+\[\]${}@-]+")


def built_files(tree: Tree, sources: Iterable[str], *, is_native: bool, by_meson: bool = False) -> frozenset[str]:
    """Return those of some source files that are compiled.

    These are the files that a build file names, alone or by a glob, those next to them, and headers below or in `include`.
    If it names none, nobody knows: in a project with a native build all of them, but CUDA files that are data; none in others.

    Args:
        is_native: the project has a native build.
        by_meson: only what files of Meson name is compiled: CMake's and Makefiles are those of a library that is built alone.
    """
    kinds = r"(?:^|/)meson\.build$" if by_meson else r"(?:^|/)(?:CMakeLists\.txt|meson\.build|Makefile)$|\.cmake$"
    named = sorted((name for name in tree.own if re.search(kinds, name)), key=lambda name: (name.count("/"), name))
    if not by_meson:
        named += [name for name in tree.own if name.endswith(".py") and name.count("/") < 1]
        named += [name for name in ("pyproject.toml", "setup.cfg") if name in tree.files]
    read, conditions = list(texts(tree, named)), Conditions(tree)
    reached = [(name, conditions.reached(name, text)) for name, text in read]
    words = _words(reached)
    globs = [(folder, word) for folder, word in words if "*" in word][:_MOST_GLOBS]
    names = {word.rpartition("/")[2] for _, word in words}
    # Named only where an option is off.
    off = {*_words(read)} - {*words}
    paths_off = {posixpath.normpath(posixpath.join(folder, word)) for folder, word in off}
    names_off = {word.rpartition("/")[2] for _, word in off} - names
    sources = list(sources)
    found = {
        name
        for name in sources
        if name not in paths_off
        and (name.rpartition("/")[2] in names or any(_fits(name, folder, glob) for folder, glob in globs))
    }
    if not found:
        parts = (part for _, text in read for part in _DATA.findall(text))
        data = [word for part in parts for word in _BETWEEN.split(part) if ".cu" in word][:_MOST_GLOBS]
        kept = {name for name in sources for word in data if fnmatch.fnmatchcase(name.rpartition("/")[2], word)}
        return frozenset(sources if is_native else ()) - kept
    # What is next to them may be named by a variable; where an option that is off has its files, nothing is.
    folders = {name.rpartition("/")[0] for name in found}
    off_sources = (name for name in sources if name in paths_off or name.rpartition("/")[2] in names_off)
    left_out = {name.rpartition("/")[0] for name in off_sources} - folders
    return frozenset(
        name
        for name in sources
        if _near(name.rpartition("/")[0], folders, is_header=bool(HEADER.search(name)))
        and not any(f"{name}/".startswith(f"{folder}/") for folder in left_out)
    )


def _words(read: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the folder of each build file, and the words in it that may be names of files."""
    # Split, because a search for longer words than there are takes the square of the time.
    return [
        (name.rpartition("/")[0], word)
        for name, text in read
        for word in dict.fromkeys(_BETWEEN.split(_DATA.sub("", text)))
        if "." in word and len(word) <= _LONGEST
    ]


def _fits(name: str, folder: str, glob: str) -> bool:
    """Whether a glob of a build file in a folder stands for a file; what is before its first variable is not compared."""
    start, _, pattern = re.split(r"[}@]/?", glob)[-1].rpartition("/")
    start = start.strip("./")
    parent, _, base = name.rpartition("/")
    inside = not start or "*" in start or f"/{parent}/".find(f"/{start}/") >= 0
    return inside and fnmatch.fnmatchcase(base, pattern) and (not folder or f"{parent}/".startswith(f"{folder}/"))


def _near(folder: str, compiled: set[str], *, is_header: bool) -> bool:
    parts = folder.split("/")
    below = ("/".join(parts[:depth]) in compiled for depth in range(1, len(parts)))
    return folder in compiled or (is_header and ("include" in parts or any(below)))
