"""SOURCE_DATE_EPOCH: the time of everything that is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bakery.plan.delivery import Variable
from bakery.recipe.models import Recipe

NAME = "SOURCE_DATE_EPOCH"
EARLIEST = 315532800
"""The time of a source without commits: 1980-01-01, the earliest one that a zip archive can have."""

LATEST = 4353999999
"""The latest one; the years of zip archives end a week later."""

_PATTERN = r"[0-9]{1,9}|[0-3][0-9]{9}|4[0-2][0-9]{8}|43[0-4][0-9]{7}|435[0-3][0-9]{6}"
_EXPECTED = f"seconds since 1970, not milliseconds, at most {LATEST}: the times of zip archives end in 2107"
_ABOUT = "Time stamp of everything built, in seconds since 1970: the same input gives the same bytes"


def variable(text: str, name: str = NAME) -> Variable:
    """Return the variable with a value, and what it must be; ``name`` is where it is set."""
    return Variable(name, text, _ABOUT, (_PATTERN,), (), _EXPECTED)


def given(environ: Mapping[str, str], committed: int | None) -> tuple[str, str]:
    """Return the time if the recipe's variables have none, and its origin; ``committed``: that of the last commit."""
    if text := environ.get(NAME):
        return text, NAME
    date = min(max(committed or EARLIEST, EARLIEST), LATEST)
    return str(date), "default" if committed is None else "the source's last commit"


def in_environments(recipe: Recipe) -> Iterator[Variable]:
    """Yield the times that tables such as ``builder.environment`` set, unless they refer to variables."""
    tables = {"builder": recipe.builder, "native": recipe.native, "macos": recipe.macos, "windows": recipe.windows}
    for name, table in tables.items():
        if table and "$" not in (text := table.environment.get(NAME, "$")):
            yield variable(text, f"{name}.environment.{NAME}")
