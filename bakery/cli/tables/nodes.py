"""The state of the nodes of builders, for people and for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Column, Table
from rich.text import Text

from bakery.cli.tables import plain_table
from bakery.engine.nodes import NodeStatus
from bakery.plan.values import Json

VERSION = 1
"""Version of the JSON."""


def render(statuses: Mapping[str, Sequence[NodeStatus]]) -> Table:
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


def to_json(statuses: Mapping[str, Sequence[NodeStatus]]) -> dict[str, Json]:
    """Return the state for machines."""
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
