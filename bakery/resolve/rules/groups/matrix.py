"""The entries of the matrix."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.resolve.rules.rule import Severity, rule
from bakery.resolve.rules.subject import RuleSubject


@rule(
    "matrix-entries",
    "Entries of matrix.exclude and matrix.overrides match a value of the recipe's axes",
    why="An entry that matches nothing excludes and changes nothing: a release that is written without its last part, such as "
    '"13.0", is another text than "13.0.2".',
    fix='write the whole value or a glob, such as "13.0.*", or remove the entry',
    source="docs/recipe.md, [matrix]: values are globs",
    severity=Severity.WARNING,
)
def _entries(subject: RuleSubject) -> Iterator[str]:
    yield from subject.plan.unmatched
