"""The findings of a plan as lines, and the error that refuses a plan which breaks rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bakery.core.cell_ids import some_cells
from bakery.core.errors import PlanError
from bakery.plan.model import Plan
from bakery.resolve.rules.rule import Finding, Severity
from wheel_audit.text import first_lines

_SHOWN = 10


def refuse_broken(plan: Plan, findings: Iterable[Finding]) -> None:
    """Raise PlanError, with all rules that a plan breaks, if one of the findings is an error."""
    errors = [finding for finding in findings if finding.rule.severity is Severity.ERROR]
    if errors:
        raise refusal(plan.recipe, errors, len(plan.cells) + len(plan.cibuildwheel_cells))


def refusal(recipe: str, findings: Sequence[Finding], cells: int) -> PlanError:
    """Return the failure that lists all broken rules of a recipe with ``cells`` cells."""
    rules = len({finding.rule.id for finding in findings})
    return PlanError(
        f"recipe {recipe} breaks {rules} rule{'s' if rules > 1 else ''}",
        details=lines(findings, cells),
        hint=f"for the reason, run `wheel-bakery explain {findings[0].rule.id}`",
    )


def lines(findings: Iterable[Finding], cells: int) -> tuple[str, ...]:
    """Return the findings of a plan with ``cells`` cells by rule: the problem and its cells, then the fix."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule.id, []).append(finding)
    return tuple(line for group in by_rule.values() for line in _rule_lines(group, cells))


def _rule_lines(findings: Sequence[Finding], cells: int) -> Iterator[str]:
    texts = [
        finding.text + ("" if len(finding.cells) == cells else f" ({some_cells(finding.cells)})")
        for finding in findings
    ]
    yield from (f"{findings[0].rule.id}: {line}" for line in first_lines(texts, _SHOWN))
    yield f"    {findings[0].rule.fix}"
