"""What the doctor found: for people on terminals of any width, and as JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bakery.core.text import printable
from bakery.engine.doctor import Diagnosis
from bakery.engine.doctor_checks import State

VERSION = 1
"""Of the JSON; raised when a key changes its meaning."""

_SYMBOLS = {
    State.OK: ("✓", "green"),
    State.WARN: ("!", "yellow"),
    State.FAIL: ("✗", "bold red"),
    State.SKIP: ("–", "dim"),
}
_VERDICTS = {
    State.FAIL: ("wheels cannot be baked here as it is", "bold red"),
    State.WARN: ("wheels can be baked here; see the advice", "yellow"),
    State.OK: ("wheels can be baked here", "green"),
}


def render(found: Sequence[Diagnosis]) -> RenderableType:
    """Return the findings as a rich renderable, each with its advice below it."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for item in found:
        symbol, style = _SYMBOLS[item.state]
        # Only the first column has a colour of its own, so a terminal without colours loses nothing.
        table.add_row(Text(symbol, style), item.name, _text(item))
    return Group(table, _verdict(item.state for item in found))


def _text(item: Diagnosis) -> Text:
    text = Text(printable(item.found), "dim" if item.state is State.SKIP else "")
    if item.advice:
        text.append("\n→ ", "cyan")
        text.append(printable(item.advice))
    return text


def _verdict(states: Iterable[State]) -> Text:
    seen = set(states)
    return Text(*next((words for state, words in _VERDICTS.items() if state in seen), _VERDICTS[State.OK]))


def to_json(found: Sequence[Diagnosis]) -> str:
    """Return the findings as JSON."""
    return json.dumps({"version": VERSION, "checks": [asdict(item) for item in found]}, indent=2, ensure_ascii=False)
