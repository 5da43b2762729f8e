"""Reads ``[builders.NAME]``: the nodes of a builder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bakery.core.errors import UsageError
from bakery.engine.nodes import Node, builder_of
from bakery.recipe.load import farms
from bakery.recipe.models import Farm, Tls
from bakery.recipe.models import Node as Table
from bakery.recipe.problems import nearest

SLOTS = 2
"""Default number of parallel cells on a node: while one links or installs, the other compiles."""


def nodes_of(name: str, cwd: Path) -> tuple[Node, ...]:
    """Return the nodes of a builder in the configuration of ``cwd``; none if it has no builder of that name.

    Raises RecipeError if the table is malformed, UsageError if a file that it names is missing.
    """
    builders, folder = farms(cwd)
    return _nodes(name, builders[name], folder) if name in builders else ()


def require_nodes(name: str, cwd: Path) -> tuple[Node, ...]:
    """Return the nodes of a builder, as `nodes_of`. Raises UsageError if there is no such builder."""
    nodes = nodes_of(name, cwd)
    if not nodes:
        close = nearest(name, farms(cwd)[0])
        hint = f"did you mean {close!r}?" if close else f"write [builders.{name}]; docs/scale.md shows how"
        raise UsageError(f"no builder {name!r} is configured here", hint=hint)
    return nodes


def _nodes(name: str, farm: Farm, folder: Path) -> tuple[Node, ...]:
    nodes = []
    for table in farm.nodes:
        for number in range(1, (table.replicas or 1) + 1):
            node_name = f"{table.name}-{number}" if table.replicas else table.name
            nodes.append(
                Node(
                    name=node_name,
                    builder=builder_of(name, node_name),
                    driver=farm.driver,
                    endpoint=table.endpoint or "",
                    platforms=table.platforms or (),
                    slots=table.slots or SLOTS,
                    options=_options(farm, table, folder),
                )
            )
    files = {item for node in nodes for item in node.options.items() if item[0] in ("cacert", "cert", "key")}
    if missing := sorted(f"{key}: {path}" for key, path in files if not Path(path).is_file()):
        raise UsageError(f"builder {name}: a TLS file is missing", details=missing)
    return tuple(nodes)


def _options(farm: Farm, table: Table, folder: Path) -> Mapping[str, str]:
    tls = table.tls or farm.tls
    is_tcp = (table.endpoint or "").startswith("tcp://")
    return {**(farm.options or {}), **(table.options or {}), **(_tls(tls, folder) if tls and is_tcp else {})}


def _tls(tls: Tls, folder: Path) -> dict[str, str]:
    """Return the TLS options of the remote driver. Their paths must be absolute (buildx driver/remote/factory.go)."""
    files = {"cacert": tls.ca, "cert": tls.cert, "key": tls.key}
    paths = {key: str((folder / Path(path).expanduser()).absolute()) for key, path in files.items() if path}
    return {**paths, **({"servername": tls.server_name} if tls.server_name else {})}
