"""What a rule is: data, and a pure function that finds where it is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from bakery.resolve.rules.case import Case

Check = Callable[[Case], Iterator[str]]
"""Yields what is wrong with a case, one sentence each; nothing where the rule is kept or cannot be judged."""


class Severity(StrEnum):
    """What becomes of a finding: an error refuses the plan, a warning is said."""

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
        source: where it was read, or how it was seen.
    """

    id: str
    severity: Severity
    text: str
    why: str
    fix: str
    source: str
    check: Check


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that cells of a plan break.

    Attributes:
        text: what is wrong, in one sentence.
        cells: the ids of the cells, in the plan's order.
    """

    rule: Rule
    text: str
    cells: tuple[str, ...]
