"""How the platforms of a plan's cells are had: by a machine that has them, by a cross compiler, or by emulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bakery.plan.model import Plan

if TYPE_CHECKING:
    from bakery.engine.nodes import Look

NATIVE, CROSS, EMULATED, NONE = "native", "cross", "emulated", "none"
"""``none``: programs of the platform do not run there, and nothing compiles for it."""


def here(plan: Plan, own: str, is_emulated: Callable[[str], bool]) -> dict[str, str]:
    """Return cell → how one machine has its platform.

    Args:
        own: the machine's platform.
        is_emulated: whether it runs programs of another platform.
    """
    found = {}
    for platform in dict.fromkeys(cell.platform for cell in plan.cells):
        emulated = is_emulated(platform)
        if platform == own:
            found[platform] = NATIVE
        elif plan.crosses:
            found[platform] = f"{CROSS}, test {EMULATED if emulated else NONE}"
        else:
            found[platform] = EMULATED if emulated else NONE
    return {cell.id: found[cell.platform] for cell in plan.cells}


def on_nodes(plan: Plan, looks: Sequence[Look]) -> dict[str, str]:
    """Return cell → which nodes have its platform, and how where they have not got it themselves."""
    found = {}
    for platform in dict.fromkeys(cell.platform for cell in plan.cells):
        # BuildKit names its own platform first; what a node's table says is taken for its own, too.
        own = [look.node.name for look in looks if platform in (look.node.platforms or look.platforms[:1])]
        others = [look.node.name for look in looks if platform in look.platforms]
        if own:
            found[platform] = f"node {', '.join(own)}"
        elif others:
            how = f"{CROSS}, test {EMULATED}" if plan.crosses else EMULATED
            found[platform] = f"{how}: node {', '.join(others)}"
        else:
            found[platform] = NONE
    return {cell.id: found[cell.platform] for cell in plan.cells}
