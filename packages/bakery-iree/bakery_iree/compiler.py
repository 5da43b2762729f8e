"""Compiles the plan of a job: makes the image with the compiler, bakes batches of cells, publishes the modules."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.core.cell_ids import MACHINES
from bakery.core.errors import AuditError, BakeryError, OutputError, PlanError
from bakery.core.files import write
from bakery.core.inside import Inside, remove_tree
from bakery.core.target_kinds import Kind
from bakery.engine.cache_scope import cache_scope
from bakery.engine.host import cpu
from bakery.engine.index_credentials import PROXY, of_docker
from bakery.engine.memory_peaks import is_here
from bakery.plan.cells import Cell, Target
from bakery.runs.bake_session import write_programs
from bakery.runs.buildx.bake import BakeRequest, open_bakes
from bakery.runs.buildx.bake_outcome import BakeOutcome
from bakery.runs.buildx.board import Board, Listener
from bakery.runs.buildx.failures import BakeFailure
from bakery.runs.journal import Journal, Record, RecordedWheel, Result, newest_records, open_journal
from bakery.runs.processes import caught
from bakery.runs.publish import check_output, holds, publish
from bakery.runs.run_folders import run_folder
from bakery.runs.secrets.mask import Mask
from bakery_iree import programs
from bakery_iree.emit import (
    BAKEFILE,
    CONTEXT,
    PROGRAM,
    PROGRAMS,
    batch_names,
    cell_stage,
    cell_target,
    compile_stage,
    generate_job,
    input_name,
    input_target,
    result_folders,
)
from bakery_iree.errors import CompilerError, ModuleError
from bakery_iree.mlir import LARGEST_INPUT
from bakery_iree.models.module import LARGEST_RECORD, FileRecord, FunctionRecord, ModuleRecord, TargetRecord
from bakery_iree.modules import record_text
from bakery_iree.plan import JobPlan, ModuleCell
from bakery_iree.report import ModuleReport, ModuleRun
from bakery_iree.vmfb import read_vmfb
from wheel_audit.plain_files import file_sha256, read_plain

if TYPE_CHECKING:
    from bakery.engine.session import EngineSession

LARGEST = 16 * 1024**3
"""Maximum size of a compiled module, in bytes."""

JOURNAL = "iree.modules"
"""The journal of compiled modules; no recipe has a dot in its name."""

_PARALLEL = 2
"""Batches that are baked at the same time."""

_LOG = 4 * 1024**2
"""Bytes of a compiler's log that are kept."""

_SHOWN = 20
"""Lines of a log that an error shows."""

_BAD_ARGUMENT = 74
"""The exit code of iree-compile for an argument that LLVM refuses, such as an unknown CPU."""

_NOISE = re.compile(r"Please report issues|^PLEASE submit|^Stack dump|^ ?#?\d+ +0x|^\d+\.\s|^Stack dump without symbol")

_STAGE = re.compile(r"\[(?:\S+ )?((?:cell|input)-\S+) ")


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The options of a run: the project's state folder, with the journal of compiled modules; with ``again``, modules that the
    output folder already has are compiled, too.
    """

    state: Path
    again: bool = False
    no_cache: bool = False
    builder: str | None = None


def compile_job(
    plan: JobPlan, options: CompileOptions, engine: Callable[[], EngineSession], listener: Listener
) -> ModuleRun:
    """Compile the cells of a plan. The modules of a batch are published as soon as it is finished.

    A run that a signal ended, or whose cells failed, has a report, too. ``engine`` finds the engine, and is called
    only if a cell must be compiled. Raises BakeryError for a failure of all cells; modules that were published before
    remain.
    """
    began = time.monotonic()
    check_output(plan.output, plan.root)
    journal = newest_records(options.state, JOURNAL)
    reports = {cell.id: _initial_report(plan, cell, options, journal.get(_output(plan, cell))) for cell in plan.cells}
    cells = [cell for cell in plan.cells if reports[cell.id].result == "canceled"]
    with run_folder(options.state) as state:
        stopped = _Run(plan, cells, options, engine(), state, journal, reports).run(listener) if cells else ""
    return ModuleRun(
        modules=tuple(reports[cell.id] for cell in plan.cells),
        output=plan.output,
        state=state,
        seconds=time.monotonic() - began,
        stopped=stopped,
    )


def _initial_report(plan: JobPlan, cell: ModuleCell, options: CompileOptions, entry: Record | None) -> ModuleReport:
    if cell.source.problem:
        return ModuleReport(cell, "failed", ModuleError(cell.source.problem, subject=cell.id))
    record = None if options.again or options.no_cache else reusable_record(plan, cell, entry)
    return (
        ModuleReport(cell, "kept", record=record, path=plan.output / cell.file_name) if record else ModuleReport(cell)
    )


def reusable_record(plan: JobPlan, cell: ModuleCell, entry: Record | None) -> ModuleRecord | None:
    """Return the record of a cell if the output folder has its module, compiled on this machine from the same inputs.

    ``entry`` is the journal's for the cell: the record next to a module alone proves nothing, since anybody can write
    it. A module that depends on the compiling machine is never reused.
    """
    if cell.target.is_local or entry is None or entry.key != _key(plan, cell):
        return None
    if not all(holds(plan.output, item.name, item.sha256) for item in entry.wheels):
        return None
    try:
        record = ModuleRecord.model_validate_json(read_plain(plan.output / f"{cell.id}.json", LARGEST_RECORD))
    except (OSError, ValueError):
        return None
    actual = (record.compiler, record.flags, record.input.sha256, record.output.sha256, record.target.name)
    digest = entry.wheels[0].sha256 if entry.wheels else ""
    return record if actual == (plan.compiler, cell.flags, cell.source.sha256, digest, cell.target.name) else None


def _key(plan: JobPlan, cell: ModuleCell) -> str:
    """Return a digest of the inputs of a cell."""
    parts = [plan.compiler, list(cell.flags), cell.source.sha256, cell.target.name]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _output(plan: JobPlan, cell: ModuleCell) -> str:
    """Return the path of a cell's module. The journal needs it: two jobs of a project may have cells of the same name."""
    return str(plan.output.resolve() / cell.file_name)


@dataclass(slots=True)
class _Run:
    """Compiles cells in a run's folder."""

    plan: JobPlan
    cells: list[ModuleCell]
    options: CompileOptions
    engine: EngineSession
    state: Path
    journal: Mapping[str, Record]
    reports: dict[str, ModuleReport]
    _waiting: list[tuple[str, tuple[ModuleCell, ...]]] = field(default_factory=list)
    _running: dict[str, tuple[ModuleCell, ...]] = field(default_factory=dict)
    _inputs: dict[str, tuple[tuple[ModuleCell, ...], ...]] = field(default_factory=dict)
    """Target of several cells → these, by input."""
    _new_journal: Journal = field(init=False)

    def run(self, listener: Listener) -> str:
        """Bake all batches; return the name of the signal that ended the run, empty for none."""
        # This import is slow; a run that compiles nothing does not need it.
        from bakery_iree.tool_image import tool_image

        image = tool_image(self.engine, listener, self.plan.compiler)
        part = replace(self.plan, cells=tuple(self.cells))
        self._copy_inputs()
        write(self.state, generate_job(part, image, self._host_digest()))
        write_programs(self.state / PROGRAMS, {PROGRAM: programs.text(PROGRAM)})
        self._waiting = list(zip(batch_names(part), part.batches(), strict=True))
        self._inputs = dict(zip(batch_names(part), part.inputs(), strict=True))
        outputs = {_output(self.plan, cell) for cell in self.cells}
        self._new_journal = open_journal(
            self.options.state, JOURNAL, keeps=lambda entry: entry.cell not in outputs and Path(entry.cell).exists()
        )
        board = Board({name: name for name, _ in self._waiting})
        with caught() as signals, open_bakes(board, self.state / "logs", signals, listener) as bakes:
            while (self._waiting or self._running) and not (signals.arrived and not self._running):
                while self._waiting and not signals.arrived and len(self._running) < _PARALLEL:
                    name, cells = self._waiting.pop(0)
                    self._running[name] = cells
                    bakes.start(self._request(name))
                for baking, outcome in bakes.turn():
                    self._finish_batch(baking.request.targets[0].name, outcome)
        return signals.name

    def _host_digest(self) -> str:
        """Return a digest of this machine's CPU if a cell depends on it, else empty; raise PlanError if the engine is elsewhere."""
        if not any(cell.target.is_local for cell in self.cells):
            return ""
        if not is_here(self.engine.environment):
            raise PlanError("target cpu:host needs an engine on this machine", hint="name a CPU")
        return hashlib.sha256(cpu().encode()).hexdigest()

    def _machine(self, cell: ModuleCell) -> str:
        """Return the CPU architecture that a cell is compiled for."""
        architecture = self.engine.info.architecture if cell.target.is_local else cell.target.machine
        return MACHINES.get(f"linux/{architecture}", architecture)

    def _copy_inputs(self) -> None:
        folder = self.state / CONTEXT
        folder.mkdir(mode=0o700, parents=True)
        for cell in self.cells:
            target = folder / input_name(cell)
            if target.exists():
                continue
            try:
                data = read_plain(cell.source.path, LARGEST_INPUT, follow=True)
                target.write_bytes(data)
            except OSError as error:
                raise OutputError(f"cannot copy {cell.source.shown}: {error.strerror or error}") from error
            if hashlib.sha256(data).hexdigest() != cell.source.sha256:
                raise ModuleError(f"{cell.source.shown} changed while it was read", hint="compile again")

    def _request(self, name: str) -> BakeRequest:
        target = Target(name, Kind.OTHER, Cell(name, {"platform": ""}, {}), name)
        return BakeRequest(
            root=self.state,
            bakefile=Path(BAKEFILE),
            targets=(target,),
            environment=self.engine.environment,
            variables={"DEST": str(self.state / "stage")},
            state=self.state,
            scope=cache_scope(self.engine.environment, self.plan.root, "modules"),
            builder=self.options.builder,
            no_cache=self.options.no_cache,
            # Docker gives these to every step.
            mask=Mask({PROXY: of_docker(self.engine.environment)}),
        )

    def _finish_batch(self, name: str, outcome: BakeOutcome) -> None:
        """Publish the modules of a batch. After a failure, queue its inputs, and the cells of the one that failed."""
        cells = self._running.pop(name)
        if not outcome.failures:
            if all(target.result == "done" for target in outcome.targets.values()):
                self._collect(self._results(name, cells))
            return
        stages = {match[1]: failed for failed in outcome.failures if (match := _STAGE.match(failed.step))}
        if name == cell_target(cells[0]):
            error: BakeryError = BakeFailure(outcome)
            if failed := stages.get(cell_stage(cells[0])):
                reason = failed.tail[-1] if failed.tail else "the step failed"
                hint = failed.hint or "compile it with more memory"
                error = CompilerError(reason, subject=cells[0].id, hint=hint, details=failed.tail)
            log = self.state / "logs" / f"{name}.log"
            self.reports[cells[0].id] = ModuleReport(cells[0], "failed", error, log=log)
            return
        inputs = self._inputs[name]
        if not any(compile_stage(group) in stages for group in inputs):
            raise BakeFailure(outcome)
        for group in inputs:
            if compile_stage(group) in stages:
                # One by one, none of them can end another.
                self._waiting += [(cell_target(cell), (cell,)) for cell in group]
            else:
                # What is compiled already is cached.
                self._waiting.append((input_target(group), group))
                self._inputs[input_target(group)] = (group,)

    def _results(self, name: str, cells: Sequence[ModuleCell]) -> dict[Path, ModuleCell]:
        """Return the folder with the result of each cell that a bake target exported."""
        stage = self.state / "stage"
        if name == cell_target(cells[0]):
            return {stage / cells[0].id: cells[0]}
        tops = {
            stage / name if name == input_target(group) else stage / name / input_target(group): group
            for group in self._inputs[name]
        }
        return {top / folder: cell for top, group in tops.items() for folder, cell in result_folders(group).items()}

    def _collect(self, results: Mapping[Path, ModuleCell]) -> None:
        """Publish the modules in these folders, and write them to the journal."""
        files: list[Path] = []
        reports: dict[str, ModuleReport] = {}
        for folder, cell in results.items():
            reports[cell.id] = self._read_result(cell, folder)
            if reports[cell.id].record:
                files += [self.state / "results" / cell.id / name for name in (cell.file_name, f"{cell.id}.json")]
        if files:
            publish(files, self.plan.output, root=self.plan.root)
            remove_tree(self.state / "results")
        for cell in results.values():
            if record := reports[cell.id].record:
                module = RecordedWheel(record.output.name, record.output.sha256, record.output.size)
                key = _key(self.plan, cell)
                self._new_journal.write(Record(_output(self.plan, cell), key, Result.DONE, wheels=(module,)))
        self.reports.update(reports)

    def _read_result(self, cell: ModuleCell, folder: Path) -> ModuleReport:
        """Read the untrusted output of a compilation; write the record of the module next to it."""
        try:
            inside, own = Inside(folder), Inside(self.state)
            code, milliseconds = map(int, inside.read("ended", 64).split())
            log = self.state / "logs" / f"{cell.id}.log"
            with inside.open("log") as file:
                text = with_users_paths(cell, file.read(_LOG).decode("utf-8", "replace"))
            own.write(f"logs/{cell.id}.log", text.encode(errors="replace"))
            seconds = milliseconds / 1000
            if code:
                error = failure(cell, code, text, log)
                return ModuleReport(cell, "failed", error, seconds, log=log)
            # In a folder of its own: the container may have made links and files of any name in the other one.
            result = f"results/{cell.id}"
            with inside.open("module.vmfb") as module:
                if os.fstat(module.fileno()).st_size > LARGEST:
                    raise ValueError("the module is too large")
                own.write(f"{result}/{cell.file_name}", module)
            record = _record(self.plan, cell, self.state / result / cell.file_name, self._machine(cell))
            own.write(f"{result}/{cell.id}.json", record_text(record).encode())
        except (AuditError, OSError, ValueError) as damage:
            reason = f"the output of the compilation is damaged: {damage}"
            return ModuleReport(cell, "failed", CompilerError(reason, subject=cell.id))
        return ModuleReport(cell, "done", None, seconds, record, self.plan.output / cell.file_name, log)


def with_users_paths(cell: ModuleCell, text: str) -> str:
    """Return the log of a compiler with the user's file name in place of the one inside the container."""
    shown = cell.source.shown
    return re.sub(r"(?<![\w./-])module\.mlir(?=[\"':])", lambda _: shown, text)


def failure(cell: ModuleCell, code: int, log: str, log_file: Path) -> BakeryError:
    """Return why a compilation failed.

    ``code`` is the exit code of the compiler as a shell reports it: 128 plus the number of a signal for a crash.
    ``log`` is its output; all of it is in ``log_file``.
    """
    lines = [line for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(?:error|fatal|LLVM ERROR|Assertion)\b", line)]
    messages = [line for line in lines if not _NOISE.search(line)]
    details = [line[:400] for line in (errors or messages or lines)[:_SHOWN]]
    if code > 128:
        name = signal.Signals(code - 128).name if code - 128 in set(signal.Signals) else f"signal {code - 128}"
        first = messages[0][:200] if messages else "no output"
        return CompilerError(
            f"the compiler crashed ({name}): {first}",
            subject=cell.id,
            hint=f"this is a bug of iree-compile, triggered by {cell.source.shown}; the whole log: {log_file}",
            details=details,
        )
    first = (errors or messages or [f"iree-compile ended with exit code {code}"])[0][:300]
    refused = "an argument" if code == _BAD_ARGUMENT else "the module"
    return ModuleError(
        f"the compiler refused {refused}: {first}",
        subject=cell.id,
        hint=f"the whole log: {log_file}",
        details=details,
    )


def _record(plan: JobPlan, cell: ModuleCell, module: Path, machine: str) -> ModuleRecord:
    size = module.stat().st_size
    if not size:
        raise ValueError("the compiled module is empty")
    target = {name: getattr(cell.target, name) for name in TargetRecord.model_fields} | {"machine": machine}
    return ModuleRecord(
        version=1,
        name=cell.name,
        compiler=plan.compiler,
        runtime=plan.runtime,
        target=TargetRecord.model_validate(target),
        flags=cell.flags,
        input=FileRecord(name=cell.source.path.name, sha256=cell.source.sha256, size=cell.source.size),
        output=FileRecord(name=cell.file_name, sha256=file_sha256(module), size=size),
        # Not those of the source: IREE makes float32 of float64, for example.
        functions=tuple(
            FunctionRecord.model_validate(item, from_attributes=True) for item in read_vmfb(module).functions
        ),
    )
