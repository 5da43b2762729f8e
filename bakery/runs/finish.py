"""Audits the wheels of a run, writes their records and publishes them. A wheel that fails is never published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from bakery.core.errors import AuditError, OutputError
from bakery.core.inside import remove_tree
from bakery.core.target_kinds import Kind
from bakery.engine.paths import engine_paths
from bakery.plan.cells import Cell
from bakery.plan.values import Json
from bakery.resolve.device_promises import DevicePromise, device_promises
from bakery.runs.audited import AuditResult, audit
from bakery.runs.cell_inputs import inputs_of
from bakery.runs.cell_tasks import CellTask
from bakery.runs.expectations import promises
from bakery.runs.journal import Journal, Record, RecordedWheel, Result
from bakery.runs.publish import NewWheel, digest_of, publish_wheels, stage_files
from bakery.runs.rebuild_reasons import changed_since_wheel
from bakery.runs.records.recorder import Recorder
from bakery.runs.repository import was_asked
from bakery.runs.secrets.mask import Mask
from bakery.runs.secrets.read import leaks
from bakery.runs.selection import Selection
from bakery.runs.source_files import git_files
from wheel_audit.expected_wheel import SourceFiles


@dataclass
class Finisher:
    """Finishes the tasks of one run, in several threads.

    Attributes:
        folder: of the run.
        mask: the secrets that must not be in a wheel.
        recorder: None for cibuildwheel.
        times: cell → what its steps do → seconds, as they took when they last ran: in earlier runs, then in this one.
        replaced: wheel that had another content in the output folder → what changed since; empty if unknown.
        changed: files of the source that changed while the run built.
        left: sentences about other wheels of the same cells, from earlier runs, in the output folder.
    """

    chosen: Selection
    folder: Path
    journal: Journal
    mask: Mask
    recorder: Recorder | None
    times: dict[str, Mapping[str, float]]
    replaced: dict[str, str] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

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
        stage, run, recorder = self.folder / "stage", self.chosen.run, self.recorder
        cells = [task.cell for task in tasks]
        builder = next((task.cell for task in tasks if task.has(Kind.WHEEL)), None)
        cell = builder or tasks[0].cell
        # cibuildwheel builds a wheel for tests, too: it is audited, and not published.
        results = self._audited(cell, cells, stage / cell.id) if builder or (stage / cell.id).is_dir() else ()
        changed = self._changed()
        wheels: list[NewWheel] = []
        if builder:
            digests = {result.path: result.sha256 for result in results}
            run.claim(builder.id, {path.name: sha256 for path, sha256 in digests.items()})
            served, materials = [*cells, *self._alike(cells, digests)], stage / "materials" / builder.id
            records = recorder.write(builder, served, digests, metadata, materials, changed) if recorder else {}
            wheels = [NewWheel(path, sha256, records.get(path, ())) for path, sha256 in digests.items()]
        recorded = tuple(
            RecordedWheel(wheel.path.name, wheel.sha256, wheel.path.stat().st_size, *map(digest_of, wheel.records))
            for wheel in wheels
        )
        left = [text for task in tasks for name in task.cells for text in self._earlier(name, recorded)]
        known = recorder.materials.get(cell.id) if builder and recorder else None
        images = {f"{ref} {platform}": digest for (ref, platform), digest in known.images.items()} if known else {}
        for task in tasks:
            for name in task.cells:
                record = self.record(name, Result.DONE, peaks.get(task.name, 0), builder.id if builder else "")
                key = "" if changed else record.key
                self.journal.write(replace(record, key=key, wheels=recorded, images=images))
        if not builder:
            return ()
        replaced = publish_wheels(wheels, run.output, root=run.root)
        if replaced:
            what = self._what_changed(builder, recorder) if recorder else ""
            self.replaced |= dict.fromkeys(replaced, what)
        self.left += left
        # Removed now, so that a long run does not need the space twice.
        for task in tasks:
            remove_tree(stage / task.name)
            remove_tree(stage / "materials" / task.name)
        return results

    def record(self, cell: str, result: Result, peak: int, builder: str = "") -> Record:
        """Return the record of a cell that ended now. ``peak``: MB; ``builder``: the cell that built its wheel."""
        before, key = self.chosen.previous.get(cell), self.chosen.keys[cell]
        asked = was_asked(self.folder / "logs" / f"{Kind.WHEEL}-{builder or cell}.log") if self.recorder else None
        if asked is None and before and before.key == key and not before.repository:
            # Its steps are cached, as they were then.
            asked = False
        return Record(
            cell=cell,
            key=key,
            result=result,
            # A run whose steps are cached uses less memory than the one that ran them.
            memory=max(peak, before.memory if before else 0),
            times=self.times.get(cell, {}),
            repository="" if asked is False else self.chosen.repository,
        )

    def write(self, task: CellTask, result: Result, peak: int) -> None:
        """Write into the journal what became of a task without a wheel. Raises OutputError if that is not possible."""
        for cell in task.cells:
            self.journal.write(self.record(cell, result, peak))

    def _alike(self, cells: Sequence[Cell], wheels: Mapping[Path, str]) -> list[Cell]:
        """Return other cells that passed with the same wheels when they were built last."""
        known = {(path.name, sha256) for path, sha256 in wheels.items()}
        passed = {
            name
            for name, record in self.chosen.previous.items()
            if record.result is Result.DONE and known == {(wheel.name, wheel.sha256) for wheel in record.wheels}
        }
        return [cell for cell in self.chosen.plan.cells if cell.id in passed and cell not in cells]

    def _earlier(self, cell: str, wheels: Sequence[RecordedWheel]) -> list[str]:
        """Return sentences about other wheels that the last run of a cell left in the output folder."""
        record, names = self.chosen.previous.get(cell), {wheel.name for wheel in wheels}
        paths = [self.chosen.run.output / wheel.name for wheel in record.wheels] if record else []
        return [f"{path} is an earlier wheel of {cell}" for path in paths if path.name not in names and path.is_file()]

    def _what_changed(self, cell: Cell, recorder: Recorder) -> str:
        """Return what differs in the inputs of a cell since its last wheel; empty if unknown."""
        chosen = self.chosen
        inputs = inputs_of(chosen.plan, [chosen.tasks[cell.id]], recorder.materials)[cell.id]
        return changed_since_wheel(chosen.run.state, chosen.run.recipe, cell.id, inputs)

    def _changed(self) -> tuple[str, ...]:
        """Return what changed since the source was read: nobody knows what of it a bake was sent."""
        try:
            changed = self.chosen.source.changed()
        except OutputError as error:
            changed = (error.message,)
        self.changed |= dict.fromkeys(changed)
        return changed

    def _audited(self, cell: Cell, served: Sequence[Cell], folder: Path) -> tuple[AuditResult, ...]:
        run, paths = self.chosen.run, stage_files(folder)
        memory = engine_paths(run.environment).cache / "audited"
        promised = promises(self.chosen.plan, cell, self._devices.get(cell.id), paths, served)
        expected = [replace(promise, source=self._source) for promise in promised]
        results = tuple(audit(path, promise, memory) for path, promise in zip(paths, expected, strict=True))
        faults = [f"{item.path.name}: {fault}" for item in results for fault in item.faults]
        if not faults:
            # Only a wheel that passed the audit is unpacked once more.
            faults = [f"{path.name}: {leak}" for path in paths for leak in leaks(path, self.mask)]
        if faults:
            raise AuditError(
                f"{cell.id}: a wheel did not pass the audit; it was not published to {run.output}",
                details=faults,
                hint="each line says what to change; `wheel-bakery audit WHEEL` audits any wheel",
            )
        return results

    @cached_property
    def _source(self) -> SourceFiles | None:
        """What git says of the files that were sent; None without a project, or without git."""
        sent = self.chosen.plan.source_context
        if not (self.recorder and sent.folder and self.chosen.source.entries):
            return None
        return git_files(self.chosen.source, sent.accepted, sent.folder)

    @cached_property
    def _devices(self) -> Mapping[str, DevicePromise]:
        return device_promises(self.chosen.plan) if self.recorder else {}
