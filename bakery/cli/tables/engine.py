"""The findings of the doctor and the state of nodes, for people and for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from bakery.engine.doctor import Diagnosis, State
from bakery.engine.nodes import NodeStatus
from bakery.plan.values import Json
from wheel_audit.tables import plain_table
from wheel_audit.text import printable

VERSION = 1
"""Version of both JSON documents. It is raised when a key changes its meaning."""

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


def findings_report(findings: Sequence[Diagnosis]) -> RenderableType:
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
    return text.append("\n→ ", "cyan").append(printable(item.advice)) if item.advice else text


def findings_json(findings: Sequence[Diagnosis]) -> dict[str, object]:
    """Return the findings as JSON."""
    return {"version": VERSION, "checks": [asdict(item) for item in findings]}


def nodes_table(statuses: Mapping[str, Sequence[NodeStatus]]) -> Table:
    """Return a table of builders and their nodes."""
    columns = ("builder", "node", "", "BuildKit", "slots", "running")
    table = plain_table(*(Column(name, no_wrap=True) for name in columns), Column("platforms", overflow="fold"))
    for name, nodes in statuses.items():
        for status in nodes:
            table.add_row(
                name,
                status.node.name,
                Text("down", style="bold red") if status.fault else Text("up", style="green"),
                status.version,
                str(status.node.slots),
                "" if status.fault else str(status.running),
                Text(status.fault or ", ".join(status.platforms)),
            )
    return table


def nodes_json(statuses: Mapping[str, Sequence[NodeStatus]]) -> dict[str, Json]:
    """Return the builders and their nodes as JSON."""
    return {
        "version": VERSION,
        "builders": {
            name: [
                {
                    "node": status.node.name,
                    "builder": status.node.builder,
                    "driver": status.node.driver,
                    "endpoint": status.node.endpoint,
                    "up": not status.fault,
                    "fault": status.fault,
                    "buildkit": status.version,
                    "platforms": list(status.platforms or status.node.platforms),
                    "slots": status.node.slots,
                    "running": status.running,
                }
                for status in nodes
            ]
            for name, nodes in statuses.items()
        },
    }
