"""Rules, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.table import Column, Table
from rich.text import Text

from bakery.resolve.rules.rule import Rule, Severity
from wheel_audit.tables import plain_table

VERSION = 1
"""Version of the JSON that `to_json` makes."""

_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


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


def finding(described: Mapping[str, str]) -> Table:
    """Return the id, the meaning and the usual fix of a finding of the audit."""
    result = plain_table(Column(style="dim", no_wrap=True), Column(), header=False)
    for name, key in (("finding", "id"), ("means", "text"), ("fix", "fix")):
        if described[key]:
            result.add_row(name, Text(described[key], style="cyan" if key == "id" else ""))
    return result


def to_json(rules: Iterable[Rule]) -> dict[str, object]:
    """Return the rules for machines."""
    return {"version": VERSION, "rules": [rule_json(rule) for rule in rules]}


def rule_json(rule: Rule) -> dict[str, str]:
    """Return everything about one rule for machines."""
    return {key: getattr(rule, key) for key in ("id", "severity", "text", "why", "fix", "source")}
