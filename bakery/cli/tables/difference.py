"""Where two builds of a wheel differ, for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

from bakery.audit.difference import Difference
from bakery.core.text import printable


def render(
    name: str,
    found: Sequence[Difference],
    materials: Sequence[str],
    taken: Sequence[str] = (),
    not_compared: Sequence[str] = (),
) -> Text:
    """Return one paragraph for each file that differs, then what the comparison does not say.

    Args:
        name: the wheel's file name.
        materials: what the two were made from, where that differs.
        taken: what a build took from elsewhere than the recipe.
        not_compared: what the comparison says nothing about; the last line.
    """
    text = Text.assemble((printable(name), "bold"), f": {len(found)} differences" if found else ": the same bytes")
    for file, own in groupby(found, key=lambda item: item.file):
        text.append(f"\n  {printable(file) or 'the archive'}", "cyan")
        for item in own:
            text.append(f"\n    {printable(item.part)}")
            text.append(f"  ({item.cause})" if item.cause else "", "yellow")
            for sign, lines, style in (("-", item.old, "red"), ("+", item.new, "green")):
                for line in lines:
                    text.append(f"\n      {sign} {printable(line)}", style)
    for title, items in (("made from other things", materials), ("not from the recipe", taken)):
        text.append(f"\n  {title}" if items else "", "cyan")
        for line in items:
            text.append(f"\n    {printable(line)}")
    text.append(f"\n  not compared: {'; '.join(map(printable, not_compared))}" if not_compared else "", "yellow")
    return text
