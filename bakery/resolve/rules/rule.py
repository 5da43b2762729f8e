"""Rules: pure functions that find problems of a plan's cells, and the texts that explain them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from bakery.resolve.rules.subject import RuleSubject

Check = Callable[[RuleSubject], Iterator[str]]
"""Yields the problems of a subject, one sentence each; none if the facts are unknown."""


class Severity(StrEnum):
    """An error refuses the plan; a warning is only shown."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule over plans.

    Attributes:
        id: the name in messages and on the command line, in kebab-case.
        text: the requirement, in one sentence.
        why: what happens otherwise.
        fix: what to do.
        source: the document or the experiment that shows it.
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
    """Make a rule of a check; the arguments are the attributes of `Rule`."""
    return partial(Rule, id, text, why, fix, source, severity)


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule: the problem in one sentence, and the ids of the cells with it, in the plan's order."""

    rule: Rule
    text: str
    cells: tuple[str, ...]
