"""Rules and their findings, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Column, Table
from rich.text import Text

from bakery.cli.tables import plain_table
from bakery.core.errors import PlanError
from bakery.core.names import some_cells
from bakery.resolve.rules.rule import Finding, Rule, Severity

VERSION = 1
"""Version of the JSON that `to_json` makes."""

_FINDINGS = 10
_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


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
    for finding in findings[:_FINDINGS]:
        where = "" if len(finding.cells) == cells else f" ({some_cells(finding.cells)})"
        yield f"{finding.rule.id}: {finding.text}{where}"
    more = len(findings) - _FINDINGS
    if more > 0:
        yield f"{findings[0].rule.id}: and {more} more"
    yield f"    {findings[0].rule.fix}"


def table(rules: Iterable[Rule]) -> Table:
    """Return one row for each rule."""
    result = plain_table(Column("rule", style="cyan", no_wrap=True), Column("", no_wrap=True), "what must hold")
    for rule in rules:
        result.add_row(rule.id, Text(rule.severity.value, style=_STYLES[rule.severity]), rule.text)
    return result


def explanation(rule: Rule) -> Table:
    """Return everything about one rule."""
    result = plain_table(Column(style="dim", no_wrap=True), Column(), header=False)
    result.add_row("rule", Text.assemble((rule.id, "cyan"), "  ", (rule.severity.value, _STYLES[rule.severity])))
    for name, text in (("must hold", rule.text), ("why", rule.why), ("fix", rule.fix), ("source", rule.source)):
        result.add_row(name, Text(text))
    return result


def to_json(rules: Iterable[Rule]) -> dict[str, object]:
    """Return the rules for machines."""
    return {"version": VERSION, "rules": [rule_json(rule) for rule in rules]}


def rule_json(rule: Rule) -> dict[str, str]:
    """Return everything about one rule for machines."""
    return {key: getattr(rule, key) for key in ("id", "severity", "text", "why", "fix", "source")}
