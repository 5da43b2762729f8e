"""The files of a project: one pass over the folder, which follows no links."""

from __future__ import annotations

import itertools
import os
import tomllib
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from bakery.core.errors import OutputError
from bakery.core.inside import Inside, relative
from wheel_audit.plain_files import open_plain

MOST_ENTRIES = 50_000
"""Files and folders that are listed."""

DEEPEST = 32
"""Levels of folders that are listed."""

LARGEST = 512 * 1024
"""Bytes that are read of a file."""

TABLES: dict[str, dict[str, str]] = tomllib.loads((files(__package__) / "tables.toml").read_text(encoding="utf-8"))
"""What is known about other projects; see the comments of the file."""

_FOLDERS = {kind: frozenset(names.split()) for kind, names in TABLES["folders"].items()}


@dataclass(frozen=True)
class Tree:
    """The files below a folder, as POSIX paths relative to it.

    Attributes:
        files: all files.
        own: the files that are neither vendored nor tests, examples or documentation, sorted.
        skipped: why something was not looked at, one sentence each.
    """

    root: Path
    files: frozenset[str]
    own: tuple[str, ...]
    folders: frozenset[str]
    skipped: tuple[str, ...] = ()

    def read(self, name: str, most: int = LARGEST) -> bytes | None:
        """Return the first ``most`` bytes of a file; None if it is not in the tree or cannot be read."""
        if name not in self.files:
            return None
        try:
            with open_plain(self.root / name) as file:
                return file.raw.read(most)
        except OSError:
            return None

    def script(self, name: str) -> str | None:
        """Return a file that another file names, also in a hidden folder; None if there is none of at most `LARGEST` bytes."""
        try:
            return Inside(self.root).read(relative(name), LARGEST).decode("utf-8", "replace")
        except OSError:
            return None

    def text(self, name: str) -> str | None:
        """Return the start of a file as text, without its byte order mark; None if it cannot be read."""
        content = self.read(name)
        if content is None:
            return None
        return content.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")

    def named(self, *names: str) -> list[str]:
        """Return the project's own files with one of some names, those in the highest folders first."""
        paths = [path for path in self.own if path.rpartition("/")[2] in names]
        return sorted(paths, key=lambda path: (path.count("/"), path))

    def below(self, folder: str) -> Tree:
        """Return the part of the tree below a folder."""
        cut = len(folder) + 1
        files, own, folders = (
            [name[cut:] for name in names if name.startswith(f"{folder}/")]
            for names in (self.files, self.own, self.folders)
        )
        return replace(
            self, root=self.root / folder, files=frozenset(files), own=tuple(own), folders=frozenset(folders)
        )


def scan(root: Path) -> Tree:
    """List the files of a folder.

    Raises:
        OutputError: the folder cannot be read.
    """
    return _Scan(root.absolute()).tree()


class _Scan:
    """The state of one pass."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: list[str] = []
        self.own: list[str] = []
        self.folders: list[str] = []
        self.skipped = dict.fromkeys(
            ("links", "folders that cannot be read", "names with control characters", f"folders below level {DEEPEST}"),
            0,
        )
        self.is_full = False

    def tree(self) -> Tree:
        # Path of a folder, whether its files are the project's own, and its level.
        stack: list[tuple[str, bool, int]] = [("", True, 0)]
        while stack and not self.is_full:
            stack.extend(self._folder(*stack.pop()))
        skipped = [f"{count} {what} were skipped" for what, count in self.skipped.items() if count]
        if self.is_full:
            skipped.append(f"only the first {MOST_ENTRIES} files and folders were looked at")
        return Tree(self.root, frozenset(self.files), tuple(sorted(self.own)), frozenset(self.folders), tuple(skipped))

    def _folder(self, path: str, own: bool, level: int) -> list[tuple[str, bool, int]]:
        try:
            with os.scandir(self.root / path) as scanned:
                entries = list(itertools.islice(scanned, MOST_ENTRIES))
        except OSError as error:
            if not path:
                raise OutputError(f"cannot read {self.root}: {error.strerror}", hint="name a folder") from error
            self.skipped["folders that cannot be read"] += 1
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
                self.skipped["names with control characters"] += 1
            elif entry.is_symlink():
                self.skipped["links"] += 1
            elif entry.is_file(follow_symlinks=False):
                self.files.append(name)
                self.own += [name] if own else []
            elif entry.is_dir(follow_symlinks=False) and not _is_result(entry.name, names, at_top=not path):
                self.folders.append(name)
                below.append((name, own and not _is_foreign(entry.name), level + 1))
        if level >= DEEPEST:
            self.skipped[f"folders below level {DEEPEST}"] += len(below)
            return []
        return below


def _is_result(folder: str, siblings: set[str], *, at_top: bool) -> bool:
    return (
        (folder.startswith(".") and folder != ".github")
        or folder in _FOLDERS["results"]
        or (at_top and folder in _FOLDERS["results-at-top"])
        or (folder == "target" and "Cargo.toml" in siblings)
    )


def _is_foreign(folder: str) -> bool:
    name = folder.lower()
    # setuptools writes *.egg-info; a source distribution has it, with the modules that its wheel installs.
    return (
        name == ".github"
        or name.endswith(".egg-info")
        or name in _FOLDERS["vendored"] | _FOLDERS["apart"]
        or name.startswith(("test ", "test_", "test-", "vendored-", "vendor-"))
    )
