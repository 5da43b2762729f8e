"""A rule: a pure function that finds what is wrong with a case, and the texts that explain it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from bakery.resolve.rules.case import Case

Check = Callable[[Case], Iterator[str]]
"""Yields what is wrong with a case, one sentence each; nothing if the rule is kept or cannot be judged."""


class Severity(StrEnum):
    """An error refuses the plan, a warning is only shown."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule over plans.

    Attributes:
        id: kebab-case; names the rule in messages, on the command line and in tests.
        text: what must hold, in one sentence.
        why: what happens otherwise.
        fix: what to do.
        source: the document, or the experiment that showed it.
    """

    id: str
    text: str
    why: str
    fix: str
    source: str
    severity: Severity
    check: Check


def rule(
    id: str, text: str, *, why: str, fix: str, source: str, severity: Severity = Severity.ERROR
) -> Callable[[Check], Rule]:
    """Make a rule of a check. The arguments are the attributes of `Rule`."""
    return partial(Rule, id, text, why, fix, source, severity)


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that is broken.

    Attributes:
        text: what is wrong, in one sentence.
        cells: the ids of the cells that break it, in the plan's order.
    """

    rule: Rule
    text: str
    cells: tuple[str, ...]
