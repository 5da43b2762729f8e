"""``wheel-bakery builders``: builders with several nodes, from ``[builders.NAME]``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import parameters
from bakery.cli.command_group import PlainGroup
from bakery.cli.console import echo, echo_json, out, say

if TYPE_CHECKING:
    from bakery.engine.nodes import Client

app = typer.Typer(
    cls=PlainGroup,
    help="Manage builders with several nodes: [builders.NAME] in bakery.toml, or [tool.wheel-bakery.builders.NAME] in "
    "pyproject.toml. To bake on one, use --builder NAME.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(help="The builder's name in the configuration.", metavar="NAME")]


def node_client() -> Client:
    """Return a client for nodes. It needs docker and buildx, but no engine here. Raises EngineError without them."""
    from bakery.engine.discover import find_client
    from bakery.engine.nodes import Client

    return Client(find_client(os.environ))


@app.command()
def up(name: Name) -> None:
    """Create a builder of buildx for each node, and show which nodes answer. Builders that are up to date are kept.

    Commands with `--builder NAME` do this, too.
    """
    from bakery.engine.builder_config import require_nodes
    from bakery.engine.nodes import gather

    nodes = require_nodes(name, Path.cwd())
    client = node_client()
    gather(name, nodes, client, say)
    for builder in sorted({*client.created(name)} - {node.builder for node in nodes}):
        client.down(builder)
        say(f"removed {builder}: it is no longer in the configuration")


@app.command()
def ls(as_json: parameters.AsJson = False) -> None:
    """Show the state of every node."""
    from bakery.cli.tables.engine import nodes_json, nodes_table
    from bakery.engine.builder_config import require_nodes
    from bakery.recipe.load import farms

    client = node_client()
    statuses = {name: client.statuses(require_nodes(name, Path.cwd()), running=True) for name in farms(Path.cwd())[0]}
    if as_json:
        echo_json(nodes_json(statuses))
    elif statuses:
        out.print(nodes_table(statuses))
    else:
        say("no builder is configured here; see docs/scale.md")


@app.command()
def rm(name: Name) -> None:
    """Remove the builders of buildx that were created for a builder, and their containers or pods.

    BuildKit servers of driver `remote` keep running.
    """
    client = node_client()
    builders = client.created(name)
    for builder in builders:
        client.down(builder)
    echo(f"removed {len(builders)} builders of buildx" if builders else "nothing to remove")
