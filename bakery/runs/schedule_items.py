"""The tasks of a run as items of the schedule: what they wait for, and the memory that they need."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from bakery.core.names import Kind
from bakery.plan.model import Plan
from bakery.runs.cell_tasks import CellTask
from bakery.runs.scheduler import Item

USABLE = 0.85
"""The share of an engine's memory that compilers may use; ``with-jobs`` and ``slot.py`` have the same."""


def schedule_items(
    plan: Plan,
    tasks: Iterable[CellTask],
    cores: int,
    memory: int,
    peaks: Mapping[str, int],
    cached: Collection[str] = (),
) -> list[Item]:
    """Return the items of tasks, for an engine with ``memory`` usable bytes; ``peaks``: cell → MB in an earlier run.

    Args:
        cached: tasks whose steps are expected in the engine's build cache. Those that wait for another one are baked
            by themselves.
    """
    tasks = list(tasks)
    builders = {task.name for task in tasks if task.has(Kind.WHEEL)}
    # Compilers that share slots wait for memory themselves; each cell must be able to run one.
    limits = plan.facts.limits
    declared = limits.memory if plan.shares_slots else limits.needed(cores, memory)
    first = {task.name: task.cell.built_by for task in tasks}
    after = {name: builder if builder != name and builder in builders else "" for name, builder in first.items()}
    return [
        Item(
            name=task.name,
            after=after[task.name],
            memory=declared or peaks.get(task.name, 0) * 10**6,
            platform=task.cell.platform,
            group=json.dumps([value for axis, value in sorted(task.cell.axes.items()) if axis != "python"]),
            cached=task.name in cached and not after[task.name],
        )
        for task in tasks
    ]
