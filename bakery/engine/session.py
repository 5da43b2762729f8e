"""The engine of a run, and the settings of this machine that builds need."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from bakery.core.names import platform_of
from bakery.engine import package_index
from bakery.engine.base_images import Bases
from bakery.engine.builder_config import nodes_of
from bakery.engine.client import EXECUTION, Engine, EngineInfo
from bakery.engine.discover import EngineAddress, find
from bakery.engine.nodes import Nodes, gather
from bakery.engine.oci_layouts import Layouts
from bakery.engine.paths import engine_paths


def warm_up() -> None:
    """Import what a bake needs and what is slow to import; called while the engine is asked who it is."""
    for name in ("python_on_whales", "pip._internal.configuration"):
        importlib.import_module(name)


class EngineSession:
    """The engine, and what this machine gives it; one serves any number of recipes.

    Attributes:
        environment: the process' environment with what leads to the engine.
        ca_bundle: a PEM file that build steps shall trust; None for none.
        say: tells a person one line.
        bases: the base images it has.
        nodes: what bakes it in the engine's place; None for the engine itself.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        ca_bundle: Path | None,
        say: Callable[[str], None],
        nodes: Nodes | None = None,
    ) -> None:
        self.environment = environment
        self.ca_bundle = ca_bundle
        self.say = say
        self.bases = Bases(environment, say)
        self.paths = engine_paths(environment)
        self.index = package_index.configured()
        self.nodes = nodes
        self.layouts = Layouts(environment, self.paths.cache / "layouts")

    @cached_property
    def info(self) -> EngineInfo:
        """What the engine says of itself, asked once. Raises EngineError if the engine does not answer."""
        return Engine(self.environment).info()

    @cached_property
    def offers_execution(self) -> bool:
        """Whether its buildx can go on with the other targets of a bake when one fails (buildx#3297), asked once.

        Raises EngineError if buildx does not answer.
        """
        return Engine(self.environment).bake_offers(EXECUTION)

    @cached_property
    def platforms(self) -> tuple[str, ...]:
        """The own platforms of what builds: of the nodes, or of the engine.

        Raises EngineError if the engine does not answer.
        """
        if self.nodes:
            return tuple(dict.fromkeys(seat.platforms[0] for seat in self.nodes.alive if seat.platforms))
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
    """Find the engine and return a session on it.

    Raises EngineError if there is no engine, or no node of the builder answers; RecipeError if the configuration of
    builders is malformed; UsageError if a file that it names is missing.

    Args:
        environ: leads to the engine; usually ``os.environ``.
        builder: if the configuration in ``folder`` has a builder of this name, its nodes bake instead of the engine.
        find_engine: finds the engine, or starts one.
    """
    with ThreadPoolExecutor(1) as pool:
        pool.submit(warm_up)
        environment = {**environ, **find_engine(environ).environment}
    nodes = nodes_of(builder, folder) if builder else ()
    return EngineSession(
        environment, ca_bundle, say, gather(builder, nodes, environment, say) if builder and nodes else None
    )
