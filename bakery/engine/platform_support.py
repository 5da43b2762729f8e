"""How the platforms of a plan's cells are built: natively, by a cross compiler, or by emulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bakery.plan.model import Plan

if TYPE_CHECKING:
    from bakery.engine.nodes import NodeStatus

NATIVE, CROSS, EMULATED, NONE = "native", "cross", "emulated", "none"
"""``none``: the platform can be neither run nor cross compiled."""


def here(plan: Plan, machine: str, is_emulated: Callable[[str], bool]) -> dict[str, str]:
    """Return cell → how a machine with the platform ``machine`` builds the cell's platform."""
    support = {}
    for platform in dict.fromkeys(cell.platform for cell in plan.cells):
        emulated = is_emulated(platform)
        if platform == machine:
            support[platform] = NATIVE
        elif plan.crosses:
            support[platform] = f"{CROSS}, test {EMULATED if emulated else NONE}"
        else:
            support[platform] = EMULATED if emulated else NONE
    return {cell.id: support[cell.platform] for cell in plan.cells}


def on_nodes(plan: Plan, statuses: Sequence[NodeStatus]) -> dict[str, str]:
    """Return cell → the nodes that build its platform, and how."""
    support = {}
    for platform in dict.fromkeys(cell.platform for cell in plan.cells):
        # BuildKit lists its own platform first. Platforms of the configuration count as native.
        native = [
            status.node.name for status in statuses if platform in (status.node.platforms or status.platforms[:1])
        ]
        others = [status.node.name for status in statuses if platform in status.platforms]
        if native:
            support[platform] = f"node {', '.join(native)}"
        elif others:
            how = f"{CROSS}, test {EMULATED}" if plan.crosses else EMULATED
            support[platform] = f"{how}: node {', '.join(others)}"
        else:
            support[platform] = NONE
    return {cell.id: support[cell.platform] for cell in plan.cells}
