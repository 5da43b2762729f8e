"""Audits the wheels of a run, writes their records and publishes them. A wheel that fails is never published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from bakery.core.errors import AuditError, OutputError
from bakery.core.inside import remove_tree
from bakery.core.names import Kind
from bakery.engine.paths import engine_paths
from bakery.plan.cells import Cell
from bakery.plan.values import Json
from bakery.resolve.rules.device import DevicePromise, device_promises
from bakery.runs.audited import AuditResult, audit
from bakery.runs.cell_inputs import inputs_of
from bakery.runs.cell_tasks import CellTask
from bakery.runs.context import RunContext
from bakery.runs.expectations import promises
from bakery.runs.journal import Journal, Record, RecordedWheel, Result
from bakery.runs.publish import digest_of, stage_files
from bakery.runs.publish_wheels import NewWheel, publish_wheels
from bakery.runs.rebuild_reasons import changed_since_wheel
from bakery.runs.records.recorder import Recorder
from bakery.runs.repository import was_asked
from bakery.runs.secrets.read import leaks
from bakery.runs.source_files import git_files
from wheel_audit.source_files import SourceFiles
from wheel_audit.text import listed

_SHOWN = 5


def changed_while_built(changed: Iterable[str]) -> str:
    """Return the sentence about files of the source that changed during a run."""
    return (
        f"the source changed while it was built: {listed(changed, _SHOWN)}; wheels that end after that have no "
        "commit in their records, and the next run builds them again"
    )


@dataclass
class Finisher:
    """Finishes the tasks of one run, in several threads; there is no ``recorder`` for cibuildwheel."""

    context: RunContext
    journal: Journal
    recorder: Recorder | None
    replaced: dict[str, str] = field(default_factory=dict)
    """Wheel that had another content in the output folder → what changed since; empty if unknown."""
    changed: dict[str, None] = field(default_factory=dict)
    """Files of the source that changed while the run built."""
    left: list[str] = field(default_factory=list)
    """Sentences about other wheels of the same cells, from earlier runs, in the output folder."""

    def __post_init__(self) -> None:
        self.context.claim_finished()

    def finish(
        self, tasks: Sequence[CellTask], peaks: Mapping[str, int], metadata: Mapping[str, Json]
    ) -> tuple[AuditResult, ...]:
        """Audit the wheel that tasks share, publish it with its records, write the journal, and return the wheels.

        The journal is written before the wheel is published, because later runs check the output folder, too.

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
        changed = self._changed()
        wheels: list[NewWheel] = []
        if builder:
            digests = {result.path: result.sha256 for result in results}
            self.context.claim(builder.id, {path.name: sha256 for path, sha256 in digests.items()})
            served, materials = [*cells, *self._alike(cells, digests)], stage / "materials" / builder.id
            records = (
                self.recorder.write(builder, served, digests, metadata, materials, changed) if self.recorder else {}
            )
            wheels = [NewWheel(path, sha256, records.get(path, ())) for path, sha256 in digests.items()]
        recorded = tuple(
            RecordedWheel(wheel.path.name, wheel.sha256, wheel.path.stat().st_size, *map(digest_of, wheel.records))
            for wheel in wheels
        )
        earlier = {cell: self._earlier(cell, recorded) for task in tasks for cell in task.cells}
        for task in tasks:
            images = self._images(builder) if builder else {}
            name = builder.id if builder else ""
            self._write(
                task, Result.DONE, peaks.get(task.name, 0), recorded, images, builder=name, changed=bool(changed)
            )
        if not builder:
            return ()
        replaced = publish_wheels(wheels, self.context.output, root=self.context.root)
        if replaced:
            self.replaced |= dict.fromkeys(
                replaced, self._what_changed(builder, self.recorder) if self.recorder else ""
            )
        self.left += [f"{path} is an earlier wheel of {cell}" for cell, paths in earlier.items() for path in paths]
        # Removed now, so that a long run does not need the space twice.
        for task in tasks:
            remove_tree(stage / task.name)
            remove_tree(stage / "materials" / task.name)
        return results

    def _alike(self, cells: Sequence[Cell], wheels: Mapping[Path, str]) -> list[Cell]:
        """Return other cells that passed with the same wheels when they were built last."""
        known = {(path.name, sha256) for path, sha256 in wheels.items()}
        passed = {
            name
            for name, record in self.context.previous.items()
            if record.result is Result.DONE and known == {(wheel.name, wheel.sha256) for wheel in record.wheels}
        }
        return [cell for cell in self.context.plan.cells if cell.id in passed and cell not in cells]

    def _earlier(self, cell: str, wheels: Sequence[RecordedWheel]) -> list[Path]:
        """Return other wheels that the last run of a cell left in the output folder."""
        record, names = self.context.previous.get(cell), {wheel.name for wheel in wheels}
        paths = [self.context.output / wheel.name for wheel in record.wheels] if record else []
        return [path for path in paths if path.name not in names and path.is_file()]

    def _what_changed(self, cell: Cell, recorder: Recorder) -> str:
        """Return what differs in the inputs of a cell since its last wheel; empty if unknown."""
        context = self.context
        inputs = inputs_of(context.plan, [context.tasks[cell.id]], recorder.materials)[cell.id]
        return changed_since_wheel(context.state_folder, context.plan.recipe, cell.id, inputs)

    def failed(self, task: CellTask, peak: int) -> None:
        """Record in the journal that a task failed. Raises OutputError if the journal cannot be written."""
        self._write(task, Result.FAILED, peak)

    def held_back(self, task: CellTask, peak: int) -> None:
        """Record in the journal that a task's wheel waits for another task. Raises OutputError as `failed`."""
        self._write(task, Result.CANCELED, peak)

    def _changed(self) -> tuple[str, ...]:
        """Return what changed since the source was read: nobody knows what of it a bake was sent."""
        try:
            changed = self.context.source.changed()
        except OutputError as error:
            changed = (error.message,)
        self.changed |= dict.fromkeys(changed)
        return changed

    def _write(
        self,
        task: CellTask,
        result: Result,
        peak: int,
        wheels: tuple[RecordedWheel, ...] = (),
        images: Mapping[str, str] = MappingProxyType({}),
        *,
        builder: str = "",
        changed: bool = False,
    ) -> None:
        for cell in task.cells:
            # A run whose steps are cached uses less memory than the one that ran them.
            memory = max(peak, self.context.peaks.get(cell, 0))
            key = "" if changed else self.context.keys[cell]
            times = self.context.times.get(cell, {})
            asked = self._asked(cell, key, builder)
            self.journal.write(Record(cell, key, result, memory, wheels, times, dict(images), repository=asked))

    def _asked(self, cell: str, key: str, builder: str) -> str:
        """Return the digest of the repository if the build of a cell asked it or may have asked it, for `Record`."""
        logs = self.context.folder / "logs"
        asked = was_asked(logs / f"{Kind.WHEEL}-{builder or cell}.log") if self.recorder else None
        before = self.context.previous.get(cell)
        if asked is None and before and before.key == key and not before.repository:
            # Its steps are cached, as they were then.
            asked = False
        return "" if asked is False else self.context.repository

    def _images(self, builder: Cell) -> Mapping[str, str]:
        """Return the digests of the base images that the wheel of a cell was built from, for `Record`."""
        known = self.recorder.materials.get(builder.id) if self.recorder else None
        return {f"{ref} {platform}": digest for (ref, platform), digest in known.images.items()} if known else {}

    def _audited(self, cell: Cell, served: Sequence[Cell], folder: Path) -> tuple[AuditResult, ...]:
        paths = stage_files(folder)
        memory = engine_paths(self.context.environment).cache / "audited"
        promised = promises(self.context.plan, cell, self._devices.get(cell.id), paths, served)
        expected = [replace(promise, source=self._source) for promise in promised]
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
    def _source(self) -> SourceFiles | None:
        """What git says of the files that were sent; None without a project, or without git."""
        sent = self.context.plan.source_context
        if not (self.recorder and sent.folder and self.context.source.entries):
            return None
        return git_files(self.context.source, sent.accepted, sent.folder)

    @cached_property
    def _devices(self) -> Mapping[str, DevicePromise]:
        return device_promises(self.context.plan) if self.recorder else {}
