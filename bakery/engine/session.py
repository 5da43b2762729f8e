"""The engine of a run, and the settings of this machine that builds need."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from bakery.core.cell_ids import platform_of
from bakery.engine import package_index
from bakery.engine.builder_config import nodes_of
from bakery.engine.client import EXECUTION, Engine, EngineInfo
from bakery.engine.debian_rootfs import Bases
from bakery.engine.discover import EngineAddress, find, require_builder
from bakery.engine.nodes import Client, Nodes, gather
from bakery.engine.oci_layouts import Layouts
from bakery.engine.paths import engine_paths


def _warm_up() -> None:
    """Import slow packages that a bake needs, while the engine answers."""
    for name in ("python_on_whales", "pip._internal.configuration"):
        importlib.import_module(name)


class EngineSession:
    """The engine, and the settings of this machine for builds. `nodes`, if any, bake instead of the engine.

    `buildx` is the version of the client's plugin.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        buildx: str,
        ca_bundle: Path | None,
        say: Callable[[str], None],
        nodes: Nodes | None = None,
    ) -> None:
        self.environment = environment
        self.buildx = buildx
        self.ca_bundle = ca_bundle
        self.say = say
        self.bases = Bases(environment, say)
        self.paths = engine_paths(environment)
        self.index = package_index.configured()
        self.nodes = nodes
        self.layouts = Layouts(environment, self.paths.cache / "layouts")

    @cached_property
    def info(self) -> EngineInfo:
        """The output of ``docker info``, queried once. Raises EngineError if the engine does not answer."""
        return Engine(self.environment).info()

    @cached_property
    def offers_execution(self) -> bool:
        """Whether buildx can go on with the other targets of a bake when one fails (buildx#3297), queried once."""
        return Engine(self.environment).bake_offers(EXECUTION)

    @cached_property
    def platforms(self) -> tuple[str, ...]:
        """The native platforms of the nodes or the engine. Raises EngineError if the engine does not answer."""
        if self.nodes:
            return tuple(dict.fromkeys(member.platforms[0] for member in self.nodes.alive if member.platforms))
        return (platform_of(self.info.architecture),)


def open_engine(
    environ: Mapping[str, str],
    ca_bundle: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    *,
    builder: str | None = None,
    folder: Path = Path(),
    find_engine: Callable[[Mapping[str, str]], EngineAddress] = find,
) -> EngineSession:
    """Find the engine with ``find_engine``, and return a session on it or on the nodes of ``builder`` (see `nodes_of`).

    Raises EngineError if there is no engine, no such builder, or no node of the builder answers; RecipeError if the configuration of
    builders is malformed; UsageError if a file that it names is missing.
    """
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_warm_up)
        address = find_engine(environ)
    environment = {**environ, **address.environment}
    configured = nodes_of(builder, folder) if builder else ()
    nodes = gather(builder, configured, Client(environment), say) if builder and configured else None
    if not nodes and (name := builder or environment.get("BUILDX_BUILDER")):
        require_builder(environment, name)
    return EngineSession(environment, address.buildx, ca_bundle, say, nodes)
