"""What the steps of a run share, whatever builds its cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.build.buildx.outcome import Result
from bakery.build.cell_tasks import CellTask, publish_groups
from bakery.build.journal import Record
from bakery.build.options import CellSelection, Options
from bakery.build.publish import holds
from bakery.build.secrets.mask import Mask
from bakery.core.names import TARGET_KINDS
from bakery.plan.cells import Target
from bakery.plan.model import Plan

if TYPE_CHECKING:
    from bakery.engine.nodes import Nodes


@dataclass(kw_only=True)
class RunContext:
    """What the steps of a run share; each step adds its results.

    Attributes:
        environment: the process' environment, with the address of the engine.
        say: shows one line to the user.
        state_folder: the project's state folder.
        previous: cell → its record of the last run.
        targets: the selected ones.
        tasks: cell that names a task → the task; those that are finished are removed.
        finished: cell → its record, where it is not built again.
        keys: cell → digest of its inputs.
        folder: the run's folder.
    """

    root: Path
    plan: Plan
    options: Options
    environment: Mapping[str, str]
    say: Callable[[str], None]
    state_folder: Path
    previous: Mapping[str, Record]
    targets: tuple[Target, ...] = ()
    tasks: dict[str, CellTask] = field(default_factory=dict)
    finished: dict[str, Record] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    folder: Path = field(init=False)

    @property
    def output(self) -> Path:
        """The folder that receives wheels."""
        return self.options.output or self.root / self.plan.output

    @property
    def mask(self) -> Mask:
        """The secrets that no wheel and no log may have."""
        return Mask({})

    @property
    def nodes(self) -> Nodes | None:
        """The nodes of the builder; None for the one engine."""
        return None

    @property
    def peaks(self) -> dict[str, int]:
        """Cell → MB that it needed in an earlier run."""
        return {name: record.memory for name, record in self.previous.items()}

    @property
    def keeps_going(self) -> bool:
        """Whether a failed cell stops only the cells that depend on it."""
        return len(self.tasks) > 1 if self.options.keep_going is None else self.options.keep_going


def skip_finished(context: RunContext) -> None:
    """Remove the tasks that an earlier run finished; tasks that share a wheel are built together or not at all."""
    tasks, selection = context.tasks, context.options.selection
    no_record = Record("", "", Result.CANCELED)

    def is_over(name: str) -> bool:
        kinds = (target.kind for target in tasks[name].targets)
        if selection is CellSelection.UNFINISHED and any(TARGET_KINDS[kind].exporter == "docker" for kind in kinds):
            # A user may have removed the image from the engine.
            return False
        return all(
            _is_finished(selection, context.previous.get(cell), context.keys[cell], context.output)
            for cell in tasks[name].cells
        )

    groups = publish_groups(tasks)
    over = [name for name in tasks if all(is_over(member) for member in groups[name])]
    context.finished = {cell: context.previous.get(cell, no_record) for name in over for cell in tasks[name].cells}
    context.tasks = {name: task for name, task in tasks.items() if name not in over}


def _is_finished(selection: CellSelection, record: Record | None, key: str, output: Path) -> bool:
    """Return whether a cell is not built again; a wheel that the output folder lacks is."""
    if selection is CellSelection.FAILED:
        return record is None or record.result is not Result.FAILED
    return (
        selection is CellSelection.UNFINISHED
        and record is not None
        and record.result is Result.DONE
        and record.key == key
        and all(holds(output, wheel.name, wheel.sha256) for wheel in record.wheels)
    )
