"""Rules: pure functions that find problems of a plan's cells, and the texts that explain them, which ``rules.toml`` has."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from importlib.resources import files

from bakery.resolve.rules.subject import RuleSubject

Check = Callable[[RuleSubject], Iterator[str]]
"""Yields the problems of a subject, one sentence each; none if the facts are unknown."""


@cache
def _explanations() -> dict[str, dict[str, str]]:
    # Read when a rule is broken or explained: most plans break none.
    return tomllib.loads((files(__package__) / "rules.toml").read_text(encoding="utf-8"))


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
    """

    id: str
    text: str
    severity: Severity
    check: Check

    @property
    def why(self) -> str:
        """What happens otherwise."""
        return _explanations()[self.id]["why"]

    @property
    def fix(self) -> str:
        """What to do."""
        return _explanations()[self.id]["fix"]

    @property
    def source(self) -> str:
        """The document or the experiment that shows it."""
        return _explanations()[self.id]["source"]


def rule(id: str, text: str, *, severity: Severity = Severity.ERROR) -> Callable[[Check], Rule]:
    """Make a rule of a check; the arguments are the attributes of `Rule`. Its row in ``rules.toml`` explains it."""
    return partial(Rule, id, text, severity)


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule: the problem in one sentence, and the ids of the cells with it, in the plan's order."""

    rule: Rule
    text: str
    cells: tuple[str, ...]
