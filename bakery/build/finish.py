"""Audits the wheels of a run, writes their records and publishes them. A wheel that fails is never published."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bakery.audit.result_cache import AuditResult, audit
from bakery.build.cell_inputs import inputs_of
from bakery.build.cell_tasks import CellTask
from bakery.build.context import RunContext
from bakery.build.expectations import promises
from bakery.build.journal import Journal, Record, RecordedWheel
from bakery.build.publish import Claims, publish, same_file, stage_files
from bakery.build.rebuild_reasons import changed_since_wheel
from bakery.build.records.recorder import Recorder
from bakery.build.result import Result
from bakery.build.run_folders import remove_tree
from bakery.build.secrets.read import leaks
from bakery.core.errors import AuditError, OutputError
from bakery.core.names import Kind
from bakery.engine.paths import engine_paths
from bakery.plan.cells import Cell
from bakery.plan.values import Json
from bakery.resolve.rules.device import DevicePromise, device_promises


@dataclass
class Finisher:
    """Finishes the tasks of one run, in several threads; there is no ``recorder`` for cibuildwheel."""

    context: RunContext
    journal: Journal
    recorder: Recorder | None
    is_halted: Callable[[], bool]
    claims: Claims = field(default_factory=Claims)
    replaced: dict[str, str] = field(default_factory=dict)
    """Wheel that had another content in the output folder → what changed since; empty if unknown."""

    def __post_init__(self) -> None:
        for name, record in self.context.finished.items():
            self.claims.take(name, {self.context.output / item.name: item.sha256 for item in record.wheels})

    def finish(
        self, tasks: Sequence[CellTask], peaks: Mapping[str, int], metadata: Mapping[str, Json]
    ) -> tuple[AuditResult, ...]:
        """Audit and publish the wheel that tasks share, record them as done in the journal, and return the wheels.

        The journal is written before the wheel is published, because `--resume` checks the output folder, too.

        Args:
            tasks: the first of those that build wheels built this one.
            peaks: task → peak memory in MB.
            metadata: buildx's metadata of the wheel's target.

        Raises AuditError if a wheel is not as the plan promises, OutputError if it cannot be published or another cell
        built another file of that name, and InterruptedBake if the run was ended while another one published.
        """
        stage = self.context.folder / "stage"
        cells = [task.cell for task in tasks]
        builder = next((task.cell for task in tasks if task.has(Kind.WHEEL)), None)
        cell = builder or tasks[0].cell
        # cibuildwheel builds a wheel for tests, too: it is audited, and not published.
        results = self._audited(cell, cells, stage / cell.id) if builder or (stage / cell.id).is_dir() else ()
        if builder:
            digests = {result.path: result.sha256 for result in results}
            self.claims.take(builder.id, digests)
            if self.recorder:
                self.recorder.publish(cells, digests, metadata, stage / "materials" / builder.id)
        wheels = tuple(RecordedWheel(item.path.name, item.sha256, item.size) for item in results)
        changed = self._has_changed()
        for task in tasks:
            done = (peaks.get(task.name, 0), builder.id if builder else "", wheels)
            self._write(task, Result.DONE, *done, changed=changed)
        if not builder:
            return ()
        replaced = [item.path.name for item in results if self._is_replaced(item.path)]
        publish([item.path for item in results], self.context.output, root=self.context.root, is_halted=self.is_halted)
        if replaced:
            self.replaced |= dict.fromkeys(
                replaced, self._what_changed(builder, self.recorder) if self.recorder else ""
            )
        # Removed now, so that a long run does not need the space twice.
        remove_tree(stage / builder.id)
        remove_tree(stage / "materials" / builder.id)
        return results

    def _what_changed(self, cell: Cell, recorder: Recorder) -> str:
        """Return what differs in the inputs of a cell since its last wheel; empty if unknown."""
        context = self.context
        inputs = inputs_of(context.plan, [context.tasks[cell.id]], recorder.materials)[cell.id]
        return changed_since_wheel(context.state_folder, context.plan.recipe, cell.id, inputs)

    def _is_replaced(self, wheel: Path) -> bool:
        final = self.context.output / wheel.name
        return final.is_file() and not same_file(wheel, final)

    def failed(self, task: CellTask, peak: int) -> None:
        """Record in the journal that a task failed. Raises OutputError if the journal cannot be written."""
        self._write(task, Result.FAILED, peak)

    def held_back(self, task: CellTask, peak: int) -> None:
        """Record in the journal that a task's wheel waits for another task. Raises OutputError as `failed`."""
        self._write(task, Result.CANCELED, peak)

    def _has_changed(self) -> bool:
        """Whether files changed since the keys were taken: then nobody knows which of them a bake was sent."""
        try:
            return bool(self.context.stamp) and self.context.stamp_now() != self.context.stamp
        except OutputError:
            return True

    def _write(
        self,
        task: CellTask,
        result: Result,
        peak: int,
        builder: str = "",
        wheels: tuple[RecordedWheel, ...] = (),
        *,
        changed: bool = False,
    ) -> None:
        for cell in task.cells:
            # A run whose steps are cached uses less memory than the one that ran them.
            memory = max(peak, self.context.peaks.get(cell, 0))
            own = wheels if cell == builder else ()
            shared = self.context.wheel_of.get(cell, "")
            key = "" if changed else self.context.keys[cell]
            times = self.context.times.get(cell, {})
            self.journal.write(Record(cell, key, result, memory, own, shared, times, self._images(builder)))

    def _images(self, builder: str) -> Mapping[str, str]:
        """Return the digests of the base images that the wheel of a cell was built from, for `Record`."""
        known = self.recorder.materials.get(builder) if self.recorder else None
        return {f"{ref} {platform}": digest for (ref, platform), digest in known.images.items()} if known else {}

    def _audited(self, cell: Cell, served: Sequence[Cell], folder: Path) -> tuple[AuditResult, ...]:
        paths = stage_files(folder)
        memory = engine_paths(self.context.environment).cache / "audited"
        expected = promises(self.context.plan, cell, self._devices.get(cell.id), paths, served)
        results = tuple(audit(path, promise, memory) for path, promise in zip(paths, expected, strict=True))
        faults = [f"{item.path.name}: {fault}" for item in results for fault in item.faults]
        if not faults:
            # Only a wheel that passed the audit is unpacked once more.
            faults = [f"{path.name}: {leak}" for path in paths for leak in leaks(path, self.context.mask)]
        if faults:
            raise AuditError(
                f"{cell.id}: a wheel did not pass the audit; it was not published to {self.context.output}",
                details=faults,
                hint="each line says what to change; `wheel-bakery audit WHEEL` audits any wheel",
            )
        return results

    @cached_property
    def _devices(self) -> Mapping[str, DevicePromise]:
        return device_promises(self.context.plan) if self.recorder else {}
