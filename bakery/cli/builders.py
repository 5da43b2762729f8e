"""``wheel-bakery builders``: builders of many nodes, from ``[builders.NAME]``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import options
from bakery.cli.console import out, say

if TYPE_CHECKING:
    from bakery.engine.nodes import Client

app = typer.Typer(
    help="Builders of many nodes: \\[builders.NAME] in bakery.toml or \\[tool.bakery.builders.NAME] in pyproject.toml. "
    "Bake on one with --builder NAME.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="The builder's name in the configuration.", metavar="NAME")]


def _client() -> Client:
    """Return the docker client, which needs no engine of its own for this.

    Raises:
        EngineError: there is none with buildx.
    """
    from bakery.engine.discover import find_client
    from bakery.engine.nodes import Client

    return Client({**os.environ, **find_client(os.environ)})


@app.command()
def up(name: Name) -> None:
    """Make the builders of buildx, one for each node, and say how each node is. What is there as it should be, stays.

    `--builder NAME` does it, too.
    """
    from bakery.engine.builder_config import require_nodes
    from bakery.engine.discover import find_client
    from bakery.engine.nodes import gather

    nodes = require_nodes(name, Path.cwd())
    client = _client()
    gather(name, nodes, {**os.environ, **find_client(os.environ)}, say)
    for builder in sorted({*client.created(name)} - {node.builder for node in nodes}):
        client.down(builder)
        say(f"removed {builder}, which the configuration no longer has")


@app.command()
def ls(as_json: options.AsJson = False) -> None:
    """Say of each node of each builder how it is."""
    import json

    from bakery.cli.tables.nodes import render, to_json
    from bakery.engine.builder_config import require_nodes
    from bakery.recipe.load import farms

    client = _client()
    looks = {name: client.look_at_all(require_nodes(name, Path.cwd()), running=True) for name in farms(Path.cwd())[0]}
    if as_json:
        out.print(json.dumps(to_json(looks), indent=2), markup=False, soft_wrap=True)
    elif looks:
        out.print(render(looks))
    else:
        say("no builder is configured here; docs/scale.md shows how")


@app.command()
def rm(name: Name) -> None:
    """Remove the builders of buildx that were made for a builder, and their containers or pods.

    BuildKit that was there before (driver remote) stays as it is.
    """
    client = _client()
    builders = client.created(name)
    for builder in builders:
        client.down(builder)
    out.print(f"removed {len(builders)} of buildx's builders" if builders else "there was nothing to remove")
