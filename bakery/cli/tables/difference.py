"""Differences between two builds of a wheel, for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

from bakery.audit.difference import Difference
from bakery.core.text import printable


def render(
    name: str,
    differences: Sequence[Difference],
    materials: Sequence[str],
    taken: Sequence[str] = (),
    not_compared: Sequence[str] = (),
) -> Text:
    """Return one paragraph for each file that differs, then the causes and limits of the comparison.

    Args:
        name: the file name of the wheel.
        materials: inputs of the two builds that differ.
        taken: inputs that do not come from the recipe.
        not_compared: what was not compared.
    """
    text = Text.assemble(
        (printable(name), "bold"), f": {len(differences)} differences" if differences else ": the same bytes"
    )
    for file, group in groupby(differences, key=lambda item: item.file):
        text.append(f"\n  {printable(file) or 'the archive'}", "cyan")
        for item in group:
            text.append(f"\n    {printable(item.part)}")
            text.append(f"  ({item.cause})" if item.cause else "", "yellow")
            for sign, lines, style in (("-", item.old, "red"), ("+", item.new, "green")):
                for line in lines:
                    text.append(f"\n      {sign} {printable(line)}", style)
    for title, items in (("built from different inputs", materials), ("not from the recipe", taken)):
        text.append(f"\n  {title}" if items else "", "cyan")
        for line in items:
            text.append(f"\n    {printable(line)}")
    text.append(f"\n  not compared: {'; '.join(map(printable, not_compared))}" if not_compared else "", "yellow")
    return text
