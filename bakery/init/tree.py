"""The files of a project: one pass over the folder, without following links out of it."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path

from bakery.core.errors import OutputError
from bakery.core.files import open_plain

MOST_ENTRIES = 50_000
"""Files and folders that are listed."""

DEEPEST = 32
"""Levels of folders that are listed."""

LARGEST = 512 * 1024
"""Bytes that are read of a file."""

_IGNORED = frozenset(("__pycache__", "node_modules", "site-packages", "venv", "CMakeFiles", "_skbuild"))
"""Folders with results and installed packages; so are those whose name begins with a dot."""

_IGNORED_AT_TOP = frozenset(("build", "dist", "env", "wheels", "wheelhouse"))
"""Folders with results at the top; below it, packages may have these names."""

_VENDORED = frozenset(
    (
        *("third_party", "third-party", "thirdparty", "3rdparty", "3rd_party", "extern", "external", "externals"),
        *("pybind11", "nanobind", "eigen", "googletest", "abseil-cpp", "cutlass", "composable_kernel"),
        *("vendor", "vendored", "_vendor", "deps", "subprojects", "submodules"),
    )
)
"""Folders with copies of other projects, whose files say nothing about what this one needs."""

_APART = frozenset(
    (
        *("test", "tests", "testing", "example", "examples", "samples", "demo", "demos", "doc", "docs", "tutorials"),
        *("bench", "benchmark", "benchmarks", "fuzz", "fuzzing", "ci", "scripts"),
    )
)
"""Folders with files that no wheel has."""


@dataclass(frozen=True)
class Tree:
    """The files below a folder, as sorted POSIX paths relative to it.

    Attributes:
        files: all files.
        own: the files that are neither vendored nor tests, examples or documentation.
        targets: link to a file of the tree → that file.
        skipped: why something was not looked at, one sentence each.
    """

    root: Path
    files: frozenset[str]
    own: tuple[str, ...]
    folders: frozenset[str]
    targets: dict[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    def read(self, name: str, most: int = LARGEST) -> bytes | None:
        """Return the first ``most`` bytes of a file; None if it is not in the tree or cannot be read."""
        if name not in self.files:
            return None
        try:
            with open_plain(self.root / self.targets.get(name, name), follow=False) as file:
                return file.read(most)
        except OSError:
            return None

    def text(self, name: str) -> str | None:
        """Return the start of a file as text, without its byte order mark; None if it cannot be read."""
        content = self.read(name)
        if content is None:
            return None
        return content.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")


def _is_result(folder: str, siblings: set[str], *, at_top: bool) -> bool:
    return (
        folder.startswith(".")
        or folder.endswith(".egg-info")
        or folder in _IGNORED
        or (at_top and folder in _IGNORED_AT_TOP)
        or (folder == "target" and "Cargo.toml" in siblings)
    )


def _is_foreign(folder: str) -> bool:
    name = folder.lower()
    return name in _VENDORED or name in _APART or name.startswith(("test ", "vendored-", "vendor-"))


def scan(root: Path) -> Tree:
    """List the files of a folder.

    Raises:
        OutputError: the folder cannot be read.
    """
    return _Scan(root).tree()


class _Scan:
    """The state of one pass."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: list[str] = []
        self.own: list[str] = []
        self.folders: list[str] = []
        self.targets: dict[str, str] = {}
        self.links = self.unreadable = self.odd = self.deep = 0
        self.is_full = False

    def tree(self) -> Tree:
        # Path of a folder, whether its files are the project's own, and its level.
        stack: list[tuple[str, bool, int]] = [("", True, 0)]
        while stack and not self.is_full:
            stack.extend(self._folder(*stack.pop()))
        return Tree(
            self.root,
            frozenset(self.files),
            tuple(sorted(self.own)),
            frozenset(self.folders),
            self.targets,
            tuple(self._skipped()),
        )

    def _folder(self, path: str, own: bool, level: int) -> list[tuple[str, bool, int]]:
        try:
            with os.scandir(self.root / path) as found:
                entries = list(itertools.islice(found, MOST_ENTRIES))
        except OSError as error:
            if not path:
                raise OutputError(f"cannot read {self.root}: {error.strerror}", hint="name a folder") from error
            self.unreadable += 1
            return []
        names = {entry.name for entry in entries}
        if path and "pyvenv.cfg" in names:
            return []
        below: list[tuple[str, bool, int]] = []
        for entry in sorted(entries, key=lambda entry: entry.name):
            if len(self.files) + len(self.folders) >= MOST_ENTRIES:
                self.is_full = True
                break
            name = f"{path}/{entry.name}" if path else entry.name
            if not entry.name.isprintable():
                self.odd += 1
            elif entry.is_symlink():
                self._link(name, own)
            elif entry.is_file(follow_symlinks=False):
                self._file(name, own)
            elif entry.is_dir(follow_symlinks=False) and not _is_result(entry.name, names, at_top=not path):
                self.folders.append(name)
                below.append((name, own and not _is_foreign(entry.name), level + 1))
        if level >= DEEPEST:
            self.deep += len(below)
            return []
        return below

    def _file(self, name: str, own: bool) -> None:
        self.files.append(name)
        if own:
            self.own.append(name)

    def _link(self, name: str, own: bool) -> None:
        """Take a link to a file of the tree as that file."""
        try:
            target = (self.root / name).resolve()
            inside = target.relative_to(self.root.resolve()).as_posix()
            is_file = target.is_file()
        except (OSError, RuntimeError, ValueError):
            is_file = False
        if is_file:
            self.targets[name] = inside
            self._file(name, own)
        else:
            self.links += 1

    def _skipped(self) -> list[str]:
        reasons = (
            (self.links, "links to folders or out of the project"),
            (self.unreadable, "folders that cannot be read"),
            (self.odd, "names with control characters"),
            (self.deep, f"folders below level {DEEPEST}"),
        )
        skipped = [f"{count} {what} were skipped" for count, what in reasons if count]
        if self.is_full:
            skipped.append(f"only the first {MOST_ENTRIES} files and folders were looked at")
        return skipped
