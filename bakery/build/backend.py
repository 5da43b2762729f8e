"""What builds the tasks of a run: ``docker buildx bake``, or cibuildwheel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from bakery.build.buildx.outcome import BakeOutcome
from bakery.build.cell_tasks import CellState, CellTask
from bakery.core.errors import BakeryError


class Backend(Protocol):
    """Builds tasks, several at once; `bakery.build.loop` calls it from one thread."""

    def start(self, task: CellTask, state: CellState) -> None:
        """Start one try of a task.

        Raises:
            BakeryError: nothing can be built: the program is missing, or the run's folder cannot be written.
        """

    def turn(self) -> list[tuple[str, BakeOutcome]]:
        """Wait for a tenth of a second at most; return the tasks that ended.

        The first signal that arrives ends all tasks.
        """

    def stop(self, names: Collection[str] | None = None) -> None:
        """End some tasks, or all of them; `turn` returns them."""

    def recover(self, state: CellState, outcome: BakeOutcome) -> str:
        """Change a task's state so that another try may pass; return what the next try does, empty for no such try."""

    def stage_keys(self, task: CellTask) -> Mapping[str, str]:
        """Return stage → digest of its inputs, for the stages of a task."""

    def error(self, task: CellTask, outcome: BakeOutcome) -> BakeryError:
        """Return the error of a task that failed."""
