"""A baked wheel on its way out: audited, written down, published. What fails here never reaches the output folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bakery.audit.result_cache import AuditResult, audit
from bakery.build.buildx.outcome import Result
from bakery.build.cell_tasks import Work
from bakery.build.expectations import promises
from bakery.build.journal import Journal, KeptWheel, Record
from bakery.build.publish import Claims, publish, stage_files
from bakery.build.records.recorder import Recorder
from bakery.build.run_folders import remove_tree
from bakery.build.secrets.mask import Mask
from bakery.build.secrets.read import leaks
from bakery.core.errors import AuditError
from bakery.core.names import Kind
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.plan.values import Json
from bakery.resolve.rules.device import DevicePromise, device_promises


@dataclass
class Finisher:
    """Finishes the cells of one run; several threads may call it at once.

    Attributes:
        stage: where wheel targets exported to, a folder for each cell.
        memory: the folder of the audits that are known.
        keys: cell → digest of what defines it.
        learnt: cell → MB that it needed in an earlier run.
        recorder: writes down what wheels are made of.
        mask: knows the secrets that no wheel may hold.
        claims: who made which name.
        is_halted: asked while another run publishes; True ends the wait.
    """

    plan: Plan
    root: Path
    stage: Path
    output: Path
    memory: Path
    journal: Journal
    keys: Mapping[str, str]
    learnt: Mapping[str, int]
    recorder: Recorder
    mask: Mask
    is_halted: Callable[[], bool]
    claims: Claims = field(default_factory=Claims)

    def finish(
        self, members: Sequence[Work], peaks: Mapping[str, int], metadata: Mapping[str, Json]
    ) -> tuple[AuditResult, ...]:
        """Audit and publish the wheel of cells that belong together; all of them are done with it.

        It is written down before it is published: whoever goes on from there looks into the output folder, too.

        Args:
            members: the cells; at most one of them built a wheel.
            peaks: cell → MB that it needed.
            metadata: what buildx says of the wheel's target.

        Raises:
            AuditError: a wheel is not what it promises.
            OutputError: it cannot be published, or another cell made another file of that name.
            InterruptedBake: the run was ended while another one published.
        """
        builder = next((work.cell for work in members if work.has(Kind.WHEEL)), None)
        verdicts = self._audited(builder) if builder else ()
        if builder:
            own = {verdict.path: verdict.sha256 for verdict in verdicts}
            self.claims.take(builder.id, own)
            self.recorder.publish(builder, own, metadata, self.stage / "materials" / builder.id)
        kept = tuple(KeptWheel(verdict.path.name, verdict.sha256, verdict.size) for verdict in verdicts)
        for work in members:
            wheels = kept if builder and work.name == builder.id else ()
            self.journal.write(self._record(work, Result.DONE, peaks.get(work.name, 0), wheels))
        if verdicts:
            publish([verdict.path for verdict in verdicts], self.output, root=self.root, is_halted=self.is_halted)
        if builder:
            # A night's wheels need their space once, not twice.
            remove_tree(self.stage / builder.id)
            remove_tree(self.stage / "materials" / builder.id)
        return verdicts

    def failed(self, work: Work, peak: int) -> None:
        """Write down that a cell failed.

        Raises:
            OutputError: that cannot be written.
        """
        self.journal.write(self._record(work, Result.FAILED, peak))

    def _record(self, work: Work, result: Result, peak: int, wheels: tuple[KeptWheel, ...] = ()) -> Record:
        # A run that found its steps in the cache saw less than the one that ran them.
        memory = max(peak, self.learnt.get(work.name, 0))
        return Record(work.name, self.keys[work.name], result, memory, wheels)

    def _audited(self, cell: Cell) -> tuple[AuditResult, ...]:
        files = stage_files(self.stage / cell.id)
        each = promises(self.plan, cell, self._promised.get(cell.id), files)
        verdicts = tuple(audit(path, promise, self.memory) for path, promise in zip(files, each, strict=True))
        faults = [f"{item.path.name}: {fault}" for item in verdicts for fault in item.faults]
        if not faults:
            # Only what the audit found sound is unpacked once more.
            faults = [f"{path.name}: {leak}" for path in files for leak in leaks(path, self.mask)]
        if faults:
            raise AuditError(
                f"{cell.id}: a wheel is not what it promises; it was kept out of {self.output}",
                details=faults,
                hint="the audit's words say what to change; `wheel-bakery audit WHEEL` looks at any wheel",
            )
        return verdicts

    @cached_property
    def _promised(self) -> Mapping[str, DevicePromise]:
        return device_promises(self.plan)
