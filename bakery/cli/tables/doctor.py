"""Findings of ``wheel-bakery doctor``: for people on terminals of any width, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from bakery.core.text import printable
from bakery.engine.doctor import Diagnosis
from bakery.engine.doctor_checks import State

VERSION = 1
"""Version of the JSON. It is raised when a key changes its meaning."""

_SYMBOLS = {
    State.OK: ("✓", "green"),
    State.WARN: ("!", "yellow"),
    State.FAIL: ("✗", "bold red"),
    State.SKIP: ("–", "dim"),
}
_VERDICTS = {
    State.FAIL: ("this machine cannot bake wheels yet", "bold red"),
    State.WARN: ("this machine can bake wheels; see the advice above", "yellow"),
    State.OK: ("this machine can bake wheels", "green"),
}


def render(findings: Sequence[Diagnosis]) -> RenderableType:
    """Return the findings, each with its advice below it, and the verdict."""
    # Only the first column has a color of its own, so a terminal without colors loses nothing.
    table = Table.grid(
        Column(no_wrap=True), Column(no_wrap=True, style="bold"), Column(overflow="fold"), padding=(0, 1)
    )
    for item in findings:
        symbol, style = _SYMBOLS[item.state]
        table.add_row(Text(symbol, style), item.name, _text(item))
    states = {item.state for item in findings}
    return Group(
        table, Text(*next((words for state, words in _VERDICTS.items() if state in states), _VERDICTS[State.OK]))
    )


def _text(item: Diagnosis) -> Text:
    text = Text(printable(item.found), "dim" if item.state is State.SKIP else "")
    if item.advice:
        text.append("\n→ ", "cyan")
        text.append(printable(item.advice))
    return text


def to_json(findings: Sequence[Diagnosis]) -> dict[str, object]:
    """Return the findings for machines."""
    return {"version": VERSION, "checks": [asdict(item) for item in findings]}
