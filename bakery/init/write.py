"""A recipe that is not written yet, its TOML text of at most `MOST_LINES` lines, and the file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bakery.core.errors import OutputError, UsageError
from bakery.core.files import write_file
from bakery.init.findings import Rest, read_toml
from bakery.init.tree import LARGEST, Tree
from bakery.recipe.files import FILE, PYPROJECT, exists
from wheel_audit.plain_files import read_plain

MOST_LINES = 20
_WIDTH = 120
_LONGEST, _SHORTEST = 90, 50
"""Characters of a comment beside a short line, and beside a long one."""

_TABLES = ("", "variables", "matrix", "builder", "wheel", "test")
"""The tables, in the order of the file; the first holds the keys at the top."""

_KEYS = (
    *("name", "source", "platforms", "python", "torch", "jax", "cuda"),
    *("base", "toolkit", "components", "framework", "requirements", "system-packages"),
    *("rust", "before-build", "network", "environment", "job-memory"),
    *(
        "frontend",
        "config-settings",
        "abi3",
        "py3",
        "torch-abi",
        "naming",
        "requires",
        "repair",
        "imports",
        "files",
        "command",
    ),
)
"""The keys, in the order of the file."""


@dataclass
class Entry:
    """One key.

    Attributes:
        reason: the comment beside it: where the value is from, or ``guess: …``.
        is_optional: the wheel is also built without it, so it goes first if the recipe gets too long.
    """

    table: str
    key: str
    value: object
    reason: str = ""
    is_optional: bool = False

    @property
    def position(self) -> tuple[int, int]:
        """Where it stands in the file."""
        return _TABLES.index(self.table), _KEYS.index(self.key) if self.key in _KEYS else len(_KEYS)


@dataclass
class Draft:
    """The keys of a recipe, what is not carried over, and what the user should know."""

    title: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    rest: list[Rest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def set(self, path: str, value: object, reason: str = "", *, optional: bool = False) -> None:
        """Set a key such as ``builder.toolkit``."""
        table, _, key = path.rpartition(".") if path.partition(".")[0] in _TABLES else ("", "", path)
        self.entries[path] = Entry(table, key, value, reason, optional)

    def extend(
        self, path: str, items: Sequence[str] | Mapping[str, object], reason: str, *, optional: bool = False
    ) -> None:
        """Add items to a list or a table, and the reason to its comment; a key that is there keeps its value, and is told."""
        if not items:
            return
        if path not in self.entries:
            self.set(path, {} if isinstance(items, Mapping) else [], optional=True)
        entry = self.entries[path]
        if isinstance(items, Mapping):
            assert isinstance(entry.value, dict)
            lost = [key for key, value in items.items() if entry.value.get(key, value) != value]
            self.rest += [Rest(f"{key} ({reason})", f"{path} has {entry.value[key]!r}") for key in lost]
            entry.value |= {key: value for key, value in items.items() if key not in entry.value}
        else:
            assert isinstance(entry.value, list)
            entry.value = list(dict.fromkeys((*entry.value, *items)))
        if reason not in entry.reason:
            entry.reason = "; ".join(filter(None, (entry.reason, reason)))
        entry.is_optional = entry.is_optional and optional

    @property
    def base(self) -> object:
        """The base, as the recipe writes it."""
        return self.entries["builder.base"].value

    def texts(self, path: str) -> list[str]:
        """Return the list at a key; empty if it is not set."""
        entry = self.entries.get(path)
        return list(entry.value) if entry and isinstance(entry.value, list) else []


def recipe_text(draft: Draft, prefix: str = "") -> str:
    """Return the text of a recipe; a draft that is too long loses optional keys, which it then lists.

    Args:
        prefix: what stands before the name of each table, such as ``tool.wheel-bakery``.
    """
    title = f"# Written by `wheel-bakery init`: {draft.title}"[:_WIDTH]
    while True:
        entries = sorted(draft.entries.values(), key=lambda entry: entry.position)
        for lines in (_tables(entries, prefix, [""]), _tables(entries, prefix, []), _dotted(entries, prefix)):
            text = "\n".join((title, *lines)) + "\n"
            if text.count("\n") <= MOST_LINES:
                return text
        path = next((path for path, entry in reversed(draft.entries.items()) if entry.is_optional), None)
        if path is None:
            return text
        place = draft.entries.pop(path).reason
        draft.rest.append(Rest(f"{path} ({place})", f"the recipe would have more than {MOST_LINES} lines"))


def _tables(entries: Iterable[Entry], prefix: str, gap: list[str]) -> list[str]:
    """Return the lines with a header for each table."""
    lines: list[str] = []
    table = "" if not prefix else None
    for entry in entries:
        if entry.table != table:
            table = entry.table
            lines += [*gap, f"[{'.'.join(filter(None, (prefix, table)))}]"]
        lines.append(_line(entry, toml_key(entry.key)))
    return lines


def _dotted(entries: Iterable[Entry], prefix: str) -> list[str]:
    """Return the lines with dotted keys."""
    lines = [_line(entry, ".".join(filter(None, (entry.table, toml_key(entry.key))))) for entry in entries]
    return [*([f"[{prefix}]"] if prefix else []), *lines]


def _line(entry: Entry, key: str) -> str:
    assignment = f"{key} = {toml_value(entry.value)}"
    reason = "".join(char if char.isprintable() else "?" for char in entry.reason)
    room = max(_SHORTEST if len(assignment) > _WIDTH // 2 else _LONGEST, _WIDTH - len(assignment) - 4)
    if len(reason) > room:
        reason = reason[: room - 1].rstrip() + "…"
    return f"{assignment}  # {reason}" if reason else assignment


def toml_key(key: str) -> str:
    """Return a key as TOML writes it."""
    return key if key and all(char.isascii() and (char.isalnum() or char in "-_") for char in key) else toml_value(key)


def toml_value(value: object) -> str:
    """Return a text, a truth value, a list or a table as TOML writes it, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{toml_key(key)} = {toml_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # JSON's strings are TOML's, but for DEL.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


@dataclass(frozen=True)
class Target:
    """The file that gets the recipe: a new bakery.toml, or pyproject.toml, which gets a table at its end.

    Attributes:
        before: the content of pyproject.toml; None for a new file.
    """

    file: Path
    before: bytes | None = None

    def text(self, draft: Draft) -> str:
        """Return the text to write."""
        return recipe_text(draft, "" if self.before is None else "tool.wheel-bakery")

    def whole(self, text: str) -> str:
        """Return the content of the file once ``text`` is written."""
        return text if self.before is None else f"{self.before.decode('utf-8', 'replace')}\n{text}"

    def write(self, text: str) -> None:
        """Write the file.

        Raises:
            OutputError: the file exists, is a link, was changed in the meantime, or cannot be written.
        """
        try:
            if self.before is None:
                # A link of that name is not followed.
                with self.file.open("x", encoding="utf-8", newline="\n") as stream:
                    stream.write(text)
            else:
                self._append(text, self.before)
        except FileExistsError:
            raise _already(self.file.name) from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OutputError(f"cannot write {self.file.name}: {reason}", hint="check permissions and space") from error

    def _append(self, text: str, before: bytes) -> None:
        if read_plain(self.file, LARGEST) != before:
            raise OutputError(f"{self.file.name} was changed in the meantime", hint="run the command again")
        ending = b"" if before.endswith(b"\n") or not before else b"\n"
        newline = b"\r\n" if b"\r\n" in before else b"\n"
        mode = self.file.stat().st_mode & 0o777
        write_file(self.file, before + ending + newline + text.encode().replace(b"\n", newline), mode)
        self.file.chmod(mode)


def find_target(tree: Tree, *, pyproject: bool, is_printed: bool = False) -> Target:
    """Return the file that gets the recipe of a folder; a recipe that is only printed may be there already.

    Raises:
        OutputError: the folder has a recipe.
        UsageError: there is no pyproject.toml to write to.
        RecipeError: pyproject.toml is not TOML.
    """
    if is_printed and not pyproject:
        return Target(tree.root / FILE)
    if exists(tree.root / FILE):
        raise _already(FILE)
    data = read_toml(tree, PYPROJECT)
    if data and data.get("tool", "wheel-bakery") is not None:
        raise _already(PYPROJECT)
    if not pyproject:
        return Target(tree.root / FILE)
    content = tree.read(PYPROJECT)
    if content is None:
        raise UsageError(f"there is no {PYPROJECT} in {tree.root}", hint=f"leave out --pyproject to write {FILE}")
    return Target(tree.root / PYPROJECT, content)


def _already(name: str) -> OutputError:
    what = "pyproject.toml has [tool.wheel-bakery] already" if name == PYPROJECT else f"{name} exists already"
    return OutputError(what, hint="change it, or remove it first; `wheel-bakery check` finds its problems")
