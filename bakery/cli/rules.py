"""``wheel-bakery rules`` and ``wheel-bakery explain``: the rules for plans, and their reasons."""

from __future__ import annotations

from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import echo_json, out


def rules(json: options.AsJson = False) -> None:
    """List the rules that every plan is checked against.

    [dim]wheel-bakery rules && wheel-bakery explain torch-arch-list[/dim]
    """
    from bakery.cli.tables import rules as report
    from bakery.resolve.rules import rules as all_rules

    if json:
        echo_json(report.to_json(all_rules()))
    else:
        out.print(report.table(all_rules()))


def explain(
    rule: Annotated[str, typer.Argument(help="The name of a rule, from `wheel-bakery rules`.", metavar="RULE")],
) -> None:
    """Explain a rule: what must hold, why, how to fix it, and the source.

    [dim]wheel-bakery explain cuda-unknown-arch[/dim]
    """
    from difflib import get_close_matches

    from bakery.cli.tables import rules as report
    from bakery.core.errors import UsageError
    from bakery.resolve.rules import rules as all_rules

    by_id = {item.id: item for item in all_rules()}
    if rule not in by_id:
        near = get_close_matches(rule, by_id, n=1)
        hint = f"did you mean {near[0]}?" if near else "`wheel-bakery rules` lists all rules"
        raise UsageError(f"unknown rule {rule[:60]!r}", hint=hint)
    out.print(report.explanation(by_id[rule]))
