"""The entries of the matrix."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.resolve.rules.rule import Severity, rule
from bakery.resolve.rules.subject import RuleSubject


@rule(
    "matrix-entries",
    "Entries of matrix.exclude and matrix.overrides match a value of the recipe's axes",
    severity=Severity.WARNING,
)
def _entries(subject: RuleSubject) -> Iterator[str]:
    yield from subject.plan.unmatched
