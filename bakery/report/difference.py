"""Where two builds of a wheel differ, for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

from bakery.audit.difference import Difference
from bakery.report.audit import plain


def render(name: str, found: Sequence[Difference], materials: Sequence[str]) -> Text:
    """Return one paragraph for each file that differs; one line where nothing does.

    Args:
        name: the wheel's file name.
        materials: what the two were made from, where that differs.
    """
    if not found:
        return Text.assemble((name, "bold"), ": the same bytes")
    text = Text.assemble((name, "bold"), f": {len(found)} differences")
    for file, items in groupby(found, key=lambda item: item.file):
        text.append(f"\n  {plain(file) or 'the archive'}", "cyan")
        for item in items:
            text.append(f"\n    {plain(item.part)}")
            text.append(f"  ({item.cause})" if item.cause else "", "yellow")
            for sign, lines, style in (("-", item.old, "red"), ("+", item.new, "green")):
                for line in lines:
                    text.append(f"\n      {sign} {plain(line)}", style)
    if materials:
        text.append("\n  made from other things", "cyan")
        for line in materials:
            text.append(f"\n    {plain(line)}")
    return text
