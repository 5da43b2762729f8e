"""The nodes of a builder. Each node has its own builder of buildx, so that bakery can choose the node of each cell.

With one builder for all nodes, buildx sends everything of a platform to the first one (buildx#1081).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from bakery.core.errors import EngineError
from bakery.engine.client import ClientError, Engine
from wheel_audit.readers import json_of

PREFIX = "bakery-"
"""Prefix of the names of bakery's builders in buildx."""

QUERY_S = 90.0
"""Seconds that a query of a node may take. buildx gives up after 20 (commands/inspect.go), so this only ends a client
that hangs."""

BOOT_S = 600.0
"""Seconds that a container or a pod may take to start, which includes pulling its image."""

_OPTION = re.compile(r'([^\s="]+)=("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a builder. `name` is in the builder's configuration; `builder` is the node's own builder in buildx.

    `platforms` are those to build on it, empty for those that it reports; `slots`, the number of cells in parallel;
    `options`, those of the driver.
    """

    name: str
    builder: str
    driver: str
    endpoint: str = ""
    platforms: tuple[str, ...] = ()
    slots: int = 2
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The state of a node; `fault` is empty if it answers. `version` of Debian's BuildKit is ``v0.0.0+unknown``."""

    node: Node
    fault: str = ""
    version: str = ""
    platforms: tuple[str, ...] = ()
    running: int = 0


def builder_of(name: str, node: str) -> str:
    """Return the name in buildx for a node of the builder ``name``. Names have no double dash."""
    return f"{PREFIX}{name}--{node}"


class Client:
    """Reaches nodes through the docker client. Methods raise EngineError if there is none, or buildx fails."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._engine = Engine(environment)

    def status(self, node: Node, *, running: bool = False) -> NodeStatus:
        """Query the state of a node, with ``running`` also the number of its running builds."""
        try:
            fields = self._inspect(node)
        except ClientError as error:
            if error.is_missing:
                raise
            return NodeStatus(node, error.reason)
        if (state := fields.get("Status")) != "running":
            return NodeStatus(node, fields.get("Error") or f"it does not answer ({state or 'no status'})")
        platforms = tuple(name.strip(" *") for name in fields.get("Platforms", "").split(",") if name.strip())
        status = NodeStatus(node, "", fields.get("BuildKit version", ""), node.platforms or platforms)
        return replace(status, running=self._builds(node)) if running else status

    def statuses(self, nodes: Sequence[Node], *, running: bool = False) -> list[NodeStatus]:
        """Query the state of all nodes, in parallel."""
        with ThreadPoolExecutor(max(1, len(nodes))) as pool:
            return list(pool.map(partial(self.status, running=running), nodes))

    def up(self, node: Node) -> bool:
        """Create buildx's builder for a node, unless it exists with the same options; return whether it was created."""
        try:
            fields = self._inspect(node)
        except ClientError as error:
            if error.is_missing:
                raise
            fields = {}
        is_new = not fields or not _is_same(fields, node)
        if is_new and fields:
            self._change(node.name, "rm", "--force", "--keep-state", node.builder)
        if is_new:
            self._change(node.name, *create_arguments(node))
        if node.driver != "remote" and (is_new or fields.get("Status") != "running"):
            with _changing(node.name), self._engine.docker(timeout_s=BOOT_S) as docker:
                docker.buildx.inspect(node.builder, bootstrap=True)
        return is_new

    def down(self, builder: str) -> None:
        """Remove a builder of buildx, with its container or pod and their caches."""
        with _changing(builder), self._engine.docker(timeout_s=BOOT_S) as docker:
            docker.buildx.remove(builder)

    def created(self, name: str) -> list[str]:
        """Return buildx's builders of the builder ``name``, including nodes that were in its configuration earlier."""
        with self._engine.docker(timeout_s=QUERY_S) as docker:
            names = {builder.name or "" for builder in docker.buildx.list()}
        return sorted(item for item in names if item.startswith(builder_of(name, "")))

    def _inspect(self, node: Node) -> dict[str, str]:
        return _fields(self._engine.run("buildx", "inspect", node.builder, timeout_s=QUERY_S))

    def _builds(self, node: Node) -> int:
        words = ["history", "ls", "--builder", node.builder, "--filter", "status=running", "--format", "{{json .}}"]
        lines = self._engine.run_or_empty("buildx", *words, timeout_s=QUERY_S).splitlines()
        return sum(line.startswith("{") for line in lines)

    def _change(self, node: str, *words: str) -> None:
        with _changing(node):
            self._engine.run("buildx", *words, timeout_s=QUERY_S)


@contextmanager
def _changing(node: str) -> Iterator[None]:
    """Name the node in the error of a call that changes it."""
    try:
        yield
    except ClientError as error:
        hint = "`wheel-bakery builders ls` shows the state of each node"
        raise EngineError(error.reason, subject=f"node {node}", hint=hint) from error


def create_arguments(node: Node) -> list[str]:
    """Return the arguments of ``docker buildx`` that create the builder of a node."""
    options = [f"--driver-opt={_csv(f'{key}={value}')}" for key, value in sorted(node.options.items())]
    endpoint = [node.endpoint] if node.endpoint else []
    names = [f"--name={node.builder}", f"--node={node.builder}", f"--driver={node.driver}"]
    return ["create", *names, *options, *endpoint]


def _csv(text: str) -> str:
    """Quote a text as one CSV field, because buildx splits options at commas."""
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow([text])
    return row.getvalue()


def _fields(text: str) -> dict[str, str]:
    """Read the output of ``docker buildx inspect``: the driver of a builder, and its only node."""
    pairs = (line.partition(":") for line in text.splitlines() if line and not line[0].isspace())
    return {name: value.strip() for name, colon, value in pairs if colon}


def _is_same(fields: Mapping[str, str], node: Node) -> bool:
    options = {key: json_of(value) for key, value in _OPTION.findall(fields.get("Driver Options", ""))}
    # A pod's endpoint is what the driver makes of its name.
    is_there = node.driver == "kubernetes" or not node.endpoint or fields.get("Endpoint") == node.endpoint
    return fields.get("Driver") == node.driver and options == dict(node.options) and is_there


WATCH_S = 30.0
"""Seconds between two queries of a busy node."""

SILENT = 2
"""Failed queries in a row after which a node counts as lost, even if its connections are still open."""


@dataclass
class Watch:
    """Queries busy nodes in threads, because a node that loses its network does not close its connections."""

    query: Callable[[str], str]  # node → why it cannot be used; empty if it answers
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(thread_name_prefix="watch"))
    _queries: dict[str, Future[str]] = field(default_factory=dict, init=False)
    _queried: dict[str, float] = field(default_factory=dict, init=False)
    _silent: dict[str, int] = field(default_factory=dict, init=False)
    _doubted: set[str] = field(default_factory=set, init=False)

    def doubt(self, node: str) -> None:
        """Query a node at once; it counts as lost if this query fails."""
        self._doubted.add(node)
        self._queried.pop(node, None)

    def doubts(self, node: str) -> bool:
        """Whether the query of a doubted node is not finished."""
        return node in self._doubted

    def turn(self, busy: Iterable[str], now: float) -> dict[str, str]:
        """Start the queries of busy nodes that are due at ``now`` (seconds); return lost node → reason."""
        lost = {}
        for node in [node for node, answer in self._queries.items() if answer.done()]:
            fault = self._queries.pop(node).result()
            self._silent[node] = self._silent.get(node, 0) + 1 if fault else 0
            if fault and (node in self._doubted or self._silent[node] >= SILENT):
                lost[node] = fault
            self._doubted.discard(node)
        for node in {*busy, *self._doubted} - {*self._queries, *lost}:
            if now - self._queried.get(node, float("-inf")) >= WATCH_S:
                self._queried[node] = now
                self._queries[node] = self.pool.submit(self.query, node)
        return lost

    def end(self) -> None:
        """Stop all queries."""
        self.pool.shutdown(wait=False, cancel_futures=True)


@dataclass
class Nodes:
    """The nodes of a builder, for a whole command: `members` answered at its start, `lost` has node → reason."""

    name: str
    client: Client
    members: tuple[NodeStatus, ...]
    lost: dict[str, str]

    @property
    def alive(self) -> tuple[NodeStatus, ...]:
        """The nodes that are not lost."""
        return tuple(member for member in self.members if member.node.name not in self.lost)

    def fault(self, name: str) -> str:
        """Return why a node cannot be used; empty if it answers."""
        try:
            return self.client.status(self.node(name)).fault
        except EngineError as error:
            return error.message

    def node(self, name: str) -> Node:
        """Return a node by its name."""
        return next(member.node for member in self.members if member.node.name == name)

    def require(self, platforms: Iterable[str]) -> None:
        """Check that each platform has a node. Raises EngineError if no node answers for one of them."""
        offered = {platform for member in self.alive for platform in member.platforms}
        missing = [platform for platform in dict.fromkeys(platforms) if platform not in offered]
        if missing:
            alive = [f"{member.node.name}: {', '.join(member.platforms)}" for member in self.alive]
            raise EngineError(
                f"builder {self.name} has no reachable node for {' and '.join(missing)}",
                hint="start one, add the platform to a node's platforms, or skip its cells with --only",
                details=[*alive, *_lines(self.lost)],
            )


def gather(name: str, nodes: Sequence[Node], client: Client, say: Callable[[str], None]) -> Nodes:
    """Create missing builders of nodes, and return the nodes that answer. Raises EngineError if none does."""

    def start(node: Node) -> NodeStatus:
        try:
            client.up(node)
        except EngineError as error:
            return NodeStatus(node, error.reason)
        return client.status(node)

    with ThreadPoolExecutor(len(nodes)) as pool:
        statuses = list(pool.map(start, nodes))
    lost = {status.node.name: status.fault for status in statuses if status.fault}
    if len(lost) == len(nodes):
        raise EngineError(
            f"builder {name}: no node answers",
            hint=f"start BuildKit on them, or check [builders.{name}]; `wheel-bakery builders ls` shows their state",
            details=_lines(lost),
        )
    for line in _lines(lost):
        say(f"builder {name}: skipped: {line}")
    members = native_first([status for status in statuses if not status.fault])
    slots = sum(member.node.slots for member in members)
    say(f"builder {name}: up to {slots} cells in parallel on {', '.join(member.node.name for member in members)}")
    return Nodes(name, client, members, lost)


def native_first(statuses: Sequence[NodeStatus]) -> tuple[NodeStatus, ...]:
    """Remove from each node the platforms that it emulates and another node has.

    BuildKit lists its own platform first. Platforms of the configuration stay.
    """
    native = {platform for status in statuses for platform in (status.node.platforms or status.platforms[:1])}

    def reduced(status: NodeStatus) -> NodeStatus:
        first, *others = status.platforms
        return replace(status, platforms=(first, *(item for item in others if item not in native)))

    return tuple(status if status.node.platforms or not status.platforms else reduced(status) for status in statuses)


def _lines(lost: Mapping[str, str]) -> list[str]:
    return [f"{node}: {why}" for node, why in lost.items()]
