"""Journals of runs that never happened, with the sizes of their wheels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bakery.core.target_kinds import Kind
from bakery.plan.model import Plan
from bakery.runs import cell_inputs
from bakery.runs.cell_tasks import cell_tasks
from bakery.runs.journal import Record, RecordedWheel, Result, open_journal


def record_run(state: Path, plan: Plan, built: Mapping[str, tuple[int, ...]], *others: Record) -> None:
    """Write the journal of a run that baked the cells of ``built``, whose wheels have these sizes."""
    tags = {cell: cell.partition("-")[0] for cell in built}
    records = [
        Record(
            cell,
            "key",
            Result.DONE,
            wheels=tuple(
                RecordedWheel(f"demo-{number}-{tags[cell]}-{tags[cell]}-linux_x86_64.whl", "0" * 64, size)
                for number, size in enumerate(sizes)
            ),
        )
        for cell, sizes in built.items()
    ]
    journal = open_journal(state, plan.recipe, [*others, *records])
    tasks = [cell_tasks([target])[target.cell.id] for target in plan.targets() if target.kind is Kind.WHEEL]
    inputs = cell_inputs.inputs_of(plan, [task for task in tasks if task.name in built], {})
    cell_inputs.write(journal.path, "run", {}, inputs)
