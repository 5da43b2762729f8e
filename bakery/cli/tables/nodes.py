"""The state of the nodes of builders, for people and for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Column, Table
from rich.text import Text

from bakery.cli.tables import plain_table
from bakery.engine.nodes import Look
from bakery.plan.values import Json

VERSION = 1
"""Version of the JSON."""


def render(looks: Mapping[str, Sequence[Look]]) -> Table:
    """Return a table of builders and their nodes."""
    columns = ("builder", "node", "", "BuildKit", "slots", "running")
    table = plain_table(*(Column(name, no_wrap=True) for name in columns), Column("platforms", overflow="fold"))
    for name, nodes in looks.items():
        for look in nodes:
            table.add_row(
                name,
                look.node.name,
                Text("down", style="bold red") if look.fault else Text("up", style="green"),
                look.version,
                str(look.node.slots),
                "" if look.fault else str(look.running),
                Text(look.fault or ", ".join(look.platforms)),
            )
    return table


def to_json(looks: Mapping[str, Sequence[Look]]) -> dict[str, Json]:
    """Return the state for machines."""
    return {
        "version": VERSION,
        "builders": {
            name: [
                {
                    "node": look.node.name,
                    "builder": look.node.builder,
                    "driver": look.node.driver,
                    "endpoint": look.node.endpoint,
                    "up": not look.fault,
                    "fault": look.fault,
                    "buildkit": look.version,
                    "platforms": list(look.platforms or look.node.platforms),
                    "slots": look.node.slots,
                    "running": look.running,
                }
                for look in nodes
            ]
            for name, nodes in looks.items()
        },
    }
