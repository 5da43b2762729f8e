"""TOML files: bytes → data and lines, or one error with the position of the syntax error."""

from __future__ import annotations

import errno
import re
import shlex
import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bakery.core.errors import RecipeError
from bakery.recipe.problems import Number, Problem, is_private, recipe_error
from bakery.recipe.toml_positions import MOST, TooMuch, positions
from bakery.recipe.toml_positions import Path as KeyPath
from wheel_audit.plain_files import read_plain

LARGEST = 1024 * 1024
"""The maximum size of a recipe file in bytes."""

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)\Z")
_HEADER = re.compile(r"[ \t]*\[+([^\]\n]*)\]")
_LONG_NUMBER = re.compile(r"[0-9_]{4000,}")
_WIDTH = 76

# Fragment of a message of tomllib, which has no codes → problem, fix. The first fragment that occurs counts.
_SYNTAX: tuple[tuple[str, str, str], ...] = (
    ("Expected '=' after a key", "expected '=' after the key", "write key = value, and [name] to begin a table"),
    ("Cannot overwrite a value", "this key was set before", "keep one of the two"),
    ("Duplicate inline table key", "this key is twice in one inline table", "keep one of the two"),
    ("twice", "this table was begun before", "put the keys of both under one [table] line"),
    (
        "Cannot mutate immutable",
        "this table was closed before",
        "write all its keys inside { … }, or under one [table]",
    ),
    ("Cannot redefine namespace", "this name was set before", "keep one of the two"),
    ("Unclosed array", "a list that is not closed", "add the missing ']' or ','"),
    ("Unclosed inline table", "an inline table that is not closed", "add the missing '}' or ','"),
    ("Unterminated string", "a text that is not closed", "add the missing quote"),
    ("Expected \"'", "a text that is not closed", "add the missing quote"),
    ("Unescaped '\\'", "a backslash that escapes nothing", "write \\\\ for one backslash, or use 'single quotes'"),
    ("Escaped character", "an escape that names no character", "write \\\\ for one backslash, or use 'single quotes'"),
    ("Invalid hex value", "an escape that names no character", "write \\\\ for one backslash, or use 'single quotes'"),
    (
        "Illegal character '\\n'",
        "a text that is not closed",
        "add the missing quote; a text on several lines needs three",
    ),
    (
        "Illegal character",
        "a character that is not allowed here",
        "remove it, or write it as an escape such as \\u0007",
    ),
    ("Found invalid character", "a character that is not allowed here", "remove it"),
    ("Invalid date", "a date that does not exist", "put text in quotes"),
    ("Expected newline", "expected the end of the line", "put one key on each line, and texts in quotes"),
    (
        "at the end of a table declaration",
        "expected ']' after the table's name",
        "close the brackets: [name] or [[name]]",
    ),
    ("at the end of an array declaration", "expected ']]' after the name", "close the brackets: [name] or [[name]]"),
    (
        "Invalid initial character for a key",
        "expected a key",
        "name one before '=', in quotes if it has odd characters",
    ),
    ("Invalid value", "expected a value", "put texts in quotes, lists in [ ], and write true or false in lower case"),
    ("Invalid statement", "expected a key or a [table]", "write key = value; a comment begins with #"),
)


@dataclass(frozen=True)
class Document:
    """The values of a TOML file, with floats as `Number`, and the 1-based line of every table, key and list item."""

    data: dict[str, object]
    lines: dict[KeyPath, int]


def read(file: Path, shown: str, inside: Path | None = None, *, entries: int = MOST) -> Document:
    """Read ``file``, which messages call ``shown``, with at most ``entries`` keys and list items.

    A link must not lead out of ``inside`` (by default, the folder of the file), since messages quote the content.

    Raises:
        RecipeError: it cannot be read, is not TOML, or exceeds a limit.
    """
    _check_link(file, inside or file.parent, shown)
    return parse(_bytes(file, shown), shown, entries=entries)


def parse(content: bytes, shown: str, *, entries: int = MOST) -> Document:
    """Parse the bytes of a file like `read`; RecipeError if they are not TOML, or exceed a limit."""
    text = _text(content, shown)
    try:
        # First, because its time is linear; that of tomllib is not, for keys of many parts.
        lines = positions(text, entries)
    except TooMuch as error:
        raise _error(shown, str(error), "split it, or remove what is not needed", error.line) from None
    try:
        data = tomllib.loads(text, parse_float=Number)
    except tomllib.TOMLDecodeError as error:
        raise recipe_error(shown, [_syntax(str(error), text)]) from None
    except RecursionError:
        raise _error(shown, "lists or tables are nested too deeply", "a recipe needs at most four levels") from None
    except ValueError:
        # Python limits the digits of a number.
        line = _line_of(text, _LONG_NUMBER)
        raise _error(shown, "a number with thousands of digits", "remove it", line) from None
    return Document(data, lines)


def table(text: str) -> dict[str, object]:
    """Return the values of a TOML text that is no recipe, within the limits of one. Raises ValueError."""
    try:
        positions(text)
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("lists or tables are nested too deeply") from None


def _error(shown: str, what: str, fix: str, line: int = 0) -> RecipeError:
    return recipe_error(shown, [Problem((), what, fix, line)])


def _check_link(file: Path, inside: Path, shown: str) -> None:
    try:
        leaves = file.is_symlink() and not file.resolve().is_relative_to(inside.resolve())
    except (OSError, RuntimeError, ValueError):
        # Reading the file reports this.
        return
    if leaves:
        raise _error(shown, "this is a link to a file outside the project", "name the file that it leads to")


def _bytes(file: Path, shown: str) -> bytes:
    refuse = partial(_error, shown)
    try:
        if file.is_dir():
            raise refuse("this is a folder; expected a file", "name the folder with bakery.toml, or the file itself")
        return read_plain(file, LARGEST, follow=True)
    except FileNotFoundError:
        raise refuse("there is no such file", "check the path") from None
    except PermissionError:
        raise refuse("the file may not be read", f"allow it: chmod u+r {shlex.quote(shown)}") from None
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        if number == errno.EFBIG:
            raise refuse("the file is larger than 1 MiB", "a recipe is a short text; is this the right file?") from None
        if number in (errno.EINVAL, errno.ENXIO):
            raise refuse("this is not a regular file", "name a .toml file") from None
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "its name is not possible"
        raise refuse(f"the file cannot be read: {reason.lower()}", "check the path") from None


def _text(content: bytes, shown: str) -> str:
    refuse = partial(_error, shown)
    if not content.strip():
        raise refuse("the file is empty", 'a recipe begins with a line such as: name = "my-kernels"')
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refuse("the file is UTF-16; expected UTF-8", "save it as UTF-8")
    if content.startswith(b"\xef\xbb\xbf"):
        raise refuse("the file starts with a byte order mark", "save it as UTF-8 without BOM", 1)
    nul = content.find(b"\0")
    if nul >= 0:
        raise refuse("a NUL byte; expected text", "is this the right file?", content.count(b"\n", 0, nul) + 1)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        bad = content[error.start]
        raise refuse(f"the byte 0x{bad:02x} is not UTF-8", "save the file as UTF-8", line) from None


def _syntax(message: str, text: str) -> Problem:
    text = text.replace("\r\n", "\n")
    place = _PLACE.search(message)
    if place and place[1]:
        line, column = int(place[1]), int(place[2])
    else:
        body = text.rstrip("\n")
        line, column = body.count("\n") + 1, len(body) - body.rfind("\n")
    what, fix = "this is not TOML", "see https://toml.io for the format"
    for fragment, wording, advice in _SYNTAX:
        if fragment in message:
            what, fix = wording, advice
            break
    return Problem((), what, fix, line, column, _excerpt(text.split("\n"), line, column))


def _excerpt(lines: list[str], line: int, column: int) -> tuple[str, ...]:
    """Return the line and a caret under ``column``, or a note if it may contain a secret."""
    if line > len(lines):
        return ()
    whole = lines[line - 1]
    table = next((match[1] for text in reversed(lines[:line]) if (match := _HEADER.match(text))), "")
    if is_private([*table.split("."), whole.partition("=")[0], *re.split(r"[\s{.,=]+", whole)], whole):
        return ("(the line is not shown, since it may contain a secret)",)
    first = max(0, column - 1 - _WIDTH // 2) if len(whole) > _WIDTH else 0
    part = whole[first : first + _WIDTH]
    return (_printable(part), " " * (column - 1 - first) + "^")


def _printable(text: str) -> str:
    # One character for one character, or the caret would point elsewhere.
    return "".join(c if c.isprintable() else " " if c == "\t" else "�" for c in text)


def _line_of(text: str, pattern: re.Pattern[str]) -> int:
    match = pattern.search(text)
    return text.count("\n", 0, match.start()) + 1 if match else 0
