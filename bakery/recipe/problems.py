"""Problems of recipe files, and the error that lists all problems of a file."""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bakery.core.errors import RecipeError
from bakery.core.text import count
from bakery.recipe.type_names import Step
from wheel_audit.text import listed

_MOST = 100
"""Problems that are listed; more are only counted."""

_NAMES = 24
"""Names that are listed; more are only counted."""

_COMPARED = 100
"""Names that a misspelt name is compared with."""

_WIDTH = 60
"""Characters of a value that are shown."""

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_PRIVATE_TABLES = ("environment", "config-settings")
_PRIVATE_NAME = re.compile(r"secret|token|passw|credential|api[-_]?key|private[-_]?key|(?:^|[-_])auth(?:$|[-_])", re.I)
_PRIVATE_VALUE = re.compile(
    r"gh[pousr]_\w{16}|github_pat_|glpat-|\bsk-\w{8}|\bAKIA[0-9A-Z]{12}|\beyJ\w{8}|-----BEGIN|pypi-AgE|hf_\w{16}"
    r"|://[^/\s@:]+:[^/\s@]+@"
)


@dataclass(frozen=True)
class Problem:
    """A problem in a file.

    Attributes:
        path: the path of the value in the file; empty for the whole file.
        what: what is wrong: the expected and the found value.
        fix: what to do.
        line: 1-based; 0 for the whole file.
        column: 1-based; 0 if unknown.
        excerpt: the lines of the file with the problem.
        meant: the correct key, if the key is misspelt.
        json_fix: what to do in a JSON file, if it differs from ``fix``.
    """

    path: tuple[Step, ...]
    what: str
    fix: str
    line: int = 0
    column: int = 0
    excerpt: tuple[str, ...] = ()
    meant: str = ""
    json_fix: str = ""


@dataclass(frozen=True)
class Number:
    """A TOML float as written: a message must not show ``3.10`` as 3.1."""

    text: str


def recipe_error(file: str, problems: Iterable[Problem]) -> RecipeError:
    """Return the one error that lists all ``problems`` of ``file``, in the order of its lines."""
    what, details = problem_lines(file, problems)
    return RecipeError(what, details=details)


def problem_lines(file: str, problems: Iterable[Problem]) -> tuple[str, list[str]]:
    """Return how many ``problems`` ``file`` has, and the lines that list them in the order of its lines."""
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, problem.column, dotted(problem.path)))
    details = [line for problem in ordered[:_MOST] for line in _lines(file, problem)]
    if len(ordered) > _MOST:
        details.append(f"and {len(ordered) - _MOST} more")
    return f"{count(len(ordered), 'problem')} in {file or 'the request'}", details


def merged(errors: Sequence[RecipeError]) -> RecipeError:
    """Return one error that lists what all ``errors``, each of one file, list."""
    if len(errors) == 1:
        return errors[0]
    details = [line for error in errors for line in (error.details or (error.message,))]
    return RecipeError(f"problems in {len(errors)} recipes", details=details)


def _lines(file: str, problem: Problem) -> list[str]:
    location = ":".join(filter(None, (file, *(str(number) for number in (problem.line, problem.column) if number))))
    parts = filter(None, (location, dotted(problem.path), problem.what))
    return [": ".join(parts), *(f"    {line}" for line in (*problem.excerpt, problem.fix) if line)]


def dotted(path: Sequence[Step]) -> str:
    """Return a path as TOML writes it: ``matrix.overrides[0].cells``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (step if _BARE.match(step) else '"' + shorten(step) + '"')
    return text if len(text) <= 4 * _WIDTH else text[: 4 * _WIDTH] + "…"


def shorten(text: str, width: int = _WIDTH) -> str:
    """Return ``text`` on one line, unprintable characters escaped, cut off after ``width`` characters."""
    cut = text[:width]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return shown + ("…" if len(text) > width else "")


def is_private(path: Sequence[Step], value: object = None) -> bool:
    """Return whether the value at ``path`` may be a secret, which no message may show."""
    names = [step for step in path if isinstance(step, str)]
    if any(name in _PRIVATE_TABLES or _PRIVATE_NAME.search(name) for name in names):
        return True
    return isinstance(value, str) and bool(_PRIVATE_VALUE.search(value))


def describe(value: object, path: Sequence[Step]) -> str:
    """Return the kind of a value and, if it cannot be a secret, a short form of it."""
    kind, shown = _kind(value)
    if not shown or is_private(path, value):
        return kind if not shown else f"{kind} (not shown)"
    return f"{kind} {shown}"


def _kind(value: object) -> tuple[str, str]:
    if isinstance(value, str):
        return ("text", "'" + shorten(value) + "'") if value else ("an empty text", "")
    if isinstance(value, bool):
        return f"the word {str(value).lower()}", ""
    if isinstance(value, int):
        # Python refuses to write very long decimals; nobody reads them either.
        return "the number", shorten(str(value) if value.bit_length() < 1024 else hex(value))
    if isinstance(value, Number):
        return "the number", shorten(value.text)
    if isinstance(value, dict | list | tuple):
        noun = "table" if isinstance(value, dict) else "list"
        return (f"a {noun}" if value else f"an empty {noun}"), ""
    return "a date or time", shorten(str(value))


def quoted(value: object) -> str | None:
    """Return a bare TOML value as the text that was probably meant, or None."""
    if isinstance(value, bool):
        return json.dumps(str(value).lower())
    if isinstance(value, int) and value.bit_length() < 64:
        return json.dumps(str(value))
    return json.dumps(value.text) if isinstance(value, Number) and len(value.text) < _WIDTH else None


def nearest(word: str, candidates: Iterable[str], cutoff: float = 0.7) -> str | None:
    """Return the name of ``candidates`` that was probably meant by ``word``, or None."""
    by_form = {name.lower().replace("_", "-"): name for name in itertools.islice(candidates, _COMPARED)}
    form = word[: 2 * _WIDTH].lower().replace("_", "-")
    close = difflib.get_close_matches(form, by_form, n=1, cutoff=cutoff)
    # ``maximum`` means max, though their similarity is below the cutoff.
    # So does ``environment`` env; but ``test-command`` is not test.
    longest = len(form) if "-" not in form else 0
    prefixes = [
        name
        for name in by_form
        if 3 <= len(name) < len(form) <= max(longest, 2 * len(name) + 1) and form.startswith(name)
    ]
    best = [*close, *prefixes]
    return by_form[best[0]] if best else None


def one_of(allowed: Iterable[str]) -> str:
    """Return the allowed names for a message; only some of them if there are many."""
    return listed(map(shorten, allowed), _NAMES)
