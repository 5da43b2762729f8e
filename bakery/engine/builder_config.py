"""``[builders.NAME]`` → the nodes that the driver reaches."""

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
"""Cells at a time on a node that does not say: while one links or installs, the other compiles."""


def nodes_of(name: str, cwd: Path) -> tuple[Node, ...]:
    """Return the nodes of a builder of the configuration in ``cwd``; none where it has no builder of that name.

    Raises:
        RecipeError: the table is malformed.
        UsageError: a file that it names is missing.
    """
    found, folder = farms(cwd)
    return _nodes(name, found[name], folder) if name in found else ()


def require_nodes(name: str, cwd: Path) -> tuple[Node, ...]:
    """Return the nodes of a builder, which must be there.

    Raises:
        RecipeError: the table is malformed.
        UsageError: there is no such builder, or a file that it names is missing.
    """
    nodes = nodes_of(name, cwd)
    if not nodes:
        known, _ = farms(cwd)
        close = nearest(name, known)
        hint = f"did you mean {close!r}?" if close else f"write [builders.{name}]; docs/scale.md shows how"
        raise UsageError(f"no builder {name!r} is configured here", hint=hint)
    return nodes


def _nodes(name: str, farm: Farm, folder: Path) -> tuple[Node, ...]:
    made = []
    for table in farm.nodes:
        for number in range(1, (table.replicas or 1) + 1):
            own = f"{table.name}-{number}" if table.replicas else table.name
            made.append(
                Node(
                    name=own,
                    builder=builder_of(name, own),
                    driver=farm.driver,
                    endpoint=table.endpoint or "",
                    platforms=table.platforms or (),
                    slots=table.slots or SLOTS,
                    options=_options(farm, table, folder),
                )
            )
    missing = sorted(
        {
            f"{key}: {value}"
            for node in made
            for key, value in node.options.items()
            if key in ("cacert", "cert", "key") and not Path(value).is_file()
        }
    )
    if missing:
        raise UsageError(f"builder {name}: a file of its tls is missing", details=missing)
    return tuple(made)


def _options(farm: Farm, table: Table, folder: Path) -> Mapping[str, str]:
    tls = table.tls or farm.tls
    is_tcp = (table.endpoint or "").startswith("tcp://")
    return {**(farm.options or {}), **(table.options or {}), **(_tls(tls, folder) if tls and is_tcp else {})}


def _tls(tls: Tls, folder: Path) -> dict[str, str]:
    """Return TLS as options of the remote driver, whose paths must be absolute (buildx driver/remote/factory.go)."""
    files = {"cacert": tls.ca, "cert": tls.cert, "key": tls.key}
    found = {key: str((folder / Path(path).expanduser()).absolute()) for key, path in files.items() if path}
    return {**found, **({"servername": tls.server_name} if tls.server_name else {})}
