"""Rules and what they found, for people and for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from bakery.core.errors import PlanError
from bakery.core.names import some_cells
from bakery.resolve.rules.rule import Finding, Rule, Severity

VERSION = 1
"""Version of the JSON that `to_json` makes."""

_FINDINGS = 10
_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


def refusal(recipe: str, findings: Sequence[Finding], cells: int) -> PlanError:
    """Return the failure that tells every broken rule of a recipe's ``cells`` cells at once."""
    rules = len({finding.rule.id for finding in findings})
    return PlanError(
        f"recipe {recipe} breaks {rules} rule{'s' if rules > 1 else ''}",
        details=lines(findings, cells),
        hint=f"wheel-bakery explain {findings[0].rule.id} tells why",
    )


def lines(findings: Iterable[Finding], cells: int) -> tuple[str, ...]:
    """Return the findings of a plan of ``cells`` cells, rule by rule: what is wrong and where, then what to do."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule.id, []).append(finding)
    return tuple(line for found in by_rule.values() for line in _rule_lines(found, cells))


def _rule_lines(findings: Sequence[Finding], cells: int) -> Iterator[str]:
    for finding in findings[:_FINDINGS]:
        where = "" if len(finding.cells) == cells else f" ({some_cells(finding.cells)})"
        yield f"{finding.rule.id}: {finding.text}{where}"
    more = len(findings) - _FINDINGS
    if more > 0:
        yield f"{findings[0].rule.id}: and {more} more like these"
    yield f"    {findings[0].rule.fix}"


def table(rules: Iterable[Rule]) -> Table:
    """Return one row for each rule."""
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    result.add_column("rule", style="cyan", no_wrap=True)
    result.add_column("", no_wrap=True)
    result.add_column("what must hold")
    for rule in rules:
        result.add_row(rule.id, Text(rule.severity.value, style=_STYLES[rule.severity]), rule.text)
    return result


def explanation(rule: Rule) -> Table:
    """Return everything about one rule."""
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    result.add_column(style="dim", no_wrap=True)
    result.add_column()
    result.add_row("rule", Text.assemble((rule.id, "cyan"), "  ", (rule.severity.value, _STYLES[rule.severity])))
    for name, text in (("must hold", rule.text), ("why", rule.why), ("fix", rule.fix), ("source", rule.source)):
        result.add_row(name, Text(text))
    return result


def to_json(rules: Iterable[Rule]) -> str:
    """Return the rules as JSON."""
    rows = [
        {
            "id": rule.id,
            "severity": rule.severity.value,
            "text": rule.text,
            "why": rule.why,
            "fix": rule.fix,
            "source": rule.source,
        }
        for rule in rules
    ]
    return json.dumps({"version": VERSION, "rules": rows}, indent=1)
