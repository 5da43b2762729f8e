"""``wheel-bakery rules`` and ``wheel-bakery explain``: what plans are checked for, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import out


def rules(json: options.AsJson = False) -> None:
    """List the rules that every plan is checked against.

    [dim]wheel-bakery rules && wheel-bakery explain torch-arch-list[/dim]
    """
    from bakery.cli.tables import rules as report
    from bakery.resolve.rules import rules as every

    if json:
        out.print(report.to_json(every()), markup=False)
    else:
        out.print(report.table(every()))


def explain(
    rule: Annotated[str, typer.Argument(help="A rule's name, as wheel-bakery rules lists it.", metavar="RULE")],
) -> None:
    """Explain a rule: what must hold, why, what to do, and where it was read.

    [dim]wheel-bakery explain cuda-unknown-arch[/dim]
    """
    from difflib import get_close_matches

    from bakery.cli.tables import rules as report
    from bakery.core.errors import UsageError
    from bakery.resolve.rules import rules as every

    found = {item.id: item for item in every()}
    if rule not in found:
        near = get_close_matches(rule, found, n=1)
        hint = f"did you mean {near[0]}?" if near else "wheel-bakery rules lists them"
        raise UsageError(f"no rule is called {rule[:60]!r}", hint=hint)
    out.print(report.explanation(found[rule]))
