"""One job from plan to compiled modules: the image with the compiler, batches of cells, results into the output folder."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.build.buildx.bake import BakeRequest, Bakes
from bakery.build.buildx.listener import Listener
from bakery.build.buildx.log_files import LogFiles
from bakery.build.buildx.outcome import BakeFailure, BakeOutcome, Result
from bakery.build.buildx.progress import Board
from bakery.build.journal import Journal, KeptWheel, Record, last_run, open_journal
from bakery.build.processes import Children
from bakery.build.publish import check_output, holds, publish
from bakery.build.run_folders import run_folder
from bakery.build.signals import caught
from bakery.core.errors import BakeryError, CompilerError, ModuleError, OutputError, PlanError
from bakery.core.files import write
from bakery.core.names import Kind
from bakery.core.plain_files import read_plain
from bakery.engine.cache_scope import cache_scope
from bakery.engine.host import cpu
from bakery.engine.memory_peaks import is_here
from bakery.iree.emit_job import BAKEFILE, CONTEXT, batch_names, cell_stage, cell_target, generate_job, input_name
from bakery.iree.models.module import LARGEST_RECORD, FileRecord, FunctionRecord, ModuleRecord, TargetRecord, TypeRecord
from bakery.iree.plan import JobPlan, ModuleCell
from bakery.iree.report import ModuleReport, ModuleRun
from bakery.plan.cells import Cell, Target

if TYPE_CHECKING:
    from bakery.engine.session import EngineSession

LARGEST = 16 * 1024**3
"""Bytes that a compiled module may have."""

JOURNAL = "iree.modules"
"""The journal of compiled modules; no recipe has a dot in its name."""

_LOG = 4 * 1024**2
"""Bytes of a compiler's log that are read."""

_SHOWN = 20
_BAD_ARGUMENT = 74
"""What iree-compile exits with for an argument that LLVM refuses, such as an unknown CPU."""
_STAGE = re.compile(r"\[(?:\S+ )?(cell-\S+) ")
_NOISE = re.compile(r"Please report issues|^PLEASE submit|^Stack dump|^ ?#?\d+ +0x|^\d+\.\s|^Stack dump without symbol")


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What the command line says of a run.

    Attributes:
        state: the project's state folder: it says which modules were compiled here.
        again: compile also what the output folder has already.
        parallel: batches that are baked at once; 0 for two.
        timeout_s: seconds that a batch may take, None for any.
    """

    state: Path
    again: bool = False
    parallel: int = 0
    timeout_s: float | None = None
    no_cache: bool = False
    builder: str | None = None


@dataclass(slots=True)
class _Told:
    """What became of a cell."""

    result: str = "canceled"
    error: BakeryError | None = None
    seconds: float = 0.0
    record: ModuleRecord | None = None
    log: Path | None = None


def compile_job(
    root: Path, plan: JobPlan, options: CompileOptions, engine: Callable[[], EngineSession], listener: Listener
) -> ModuleRun:
    """Compile the cells of a plan; each batch's modules are published as soon as it is finished.

    Args:
        root: the folder whose ``.bakery`` holds logs.
        engine: finds the engine; it is asked only where something is to be compiled.

    Returns:
        The report, also of cells that failed and of a run that a signal ended.

    Raises:
        BakeryError: what ends all cells. Modules that were published by then stay.
    """
    began = time.monotonic()
    check_output(plan.output, plan.root)
    known = last_run(options.state, JOURNAL)
    told = {cell.id: _before(plan, cell, options, known.get(_place(plan, cell))) for cell in plan.cells}
    rest = [cell for cell in plan.cells if told[cell.id].result == "canceled"]
    with run_folder(root) as state:
        stopped = _Run(plan, rest, options, engine(), state, known, told).go(listener) if rest else ""
    return ModuleRun(
        modules=tuple(_report(plan, cell, told[cell.id]) for cell in plan.cells),
        output=plan.output,
        state=state,
        seconds=time.monotonic() - began,
        stopped=stopped,
    )


def _before(plan: JobPlan, cell: ModuleCell, options: CompileOptions, known: Record | None) -> _Told:
    """Return what is known of a cell before an engine is asked."""
    if cell.source.problem:
        return _Told("failed", ModuleError(f"{cell.id}: {cell.source.problem}"))
    record = None if options.again or options.no_cache else kept(plan, cell, known)
    return _Told("kept", record=record) if record else _Told()


def kept(plan: JobPlan, cell: ModuleCell, known: Record | None) -> ModuleRecord | None:
    """Return the record of a cell whose result is in the output folder, compiled here of the same; None where it is not.

    What depends on the machine that compiles is never taken for the same.

    Args:
        known: what this machine remembers of the cell; what is written beside a module may be anybody's.
    """
    if cell.target.is_local or known is None or known.key != _key(plan, cell):
        return None
    if not all(holds(plan.output, item.name, item.sha256) for item in known.wheels):
        return None
    try:
        record = ModuleRecord.model_validate_json(read_plain(plan.output / f"{cell.id}.json", LARGEST_RECORD))
    except (OSError, ValueError):
        return None
    same = (record.compiler, record.flags, record.input.sha256, record.output.sha256, record.target.name)
    digest = known.wheels[0].sha256 if known.wheels else ""
    return record if same == (plan.compiler, cell.flags, cell.source.sha256, digest, cell.target.name) else None


def _key(plan: JobPlan, cell: ModuleCell) -> str:
    """Return a digest of all that defines a cell."""
    parts = [plan.compiler, list(cell.flags), cell.source.sha256, cell.target.name]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _place(plan: JobPlan, cell: ModuleCell) -> str:
    """Return where a cell's result lies: jobs of one project may have cells of one name."""
    return str(plan.output.resolve() / f"{cell.id}.vmfb")


@dataclass(slots=True)
class _Run:
    """One run in its folder."""

    plan: JobPlan
    cells: list[ModuleCell]
    options: CompileOptions
    engine: EngineSession
    state: Path
    known: Mapping[str, Record]
    told: dict[str, _Told]
    _waiting: list[tuple[str, tuple[ModuleCell, ...]]] = field(default_factory=list)
    _running: dict[str, tuple[ModuleCell, ...]] = field(default_factory=dict)
    _journal: Journal = field(init=False)

    def go(self, listener: Listener) -> str:
        """Bake all batches; return the name of the signal that ended the run, empty for none."""
        # Here, so that a run whose results are all there loads none of what bakes images.
        from bakery.iree.tool_image import tool_image

        image = tool_image(self.engine, listener, self.plan.compiler)
        part = replace(self.plan, cells=tuple(self.cells))
        self._inputs()
        write(self.state, generate_job(part, image, self._host()))
        self._waiting = list(zip(batch_names(part), part.batches(), strict=True))
        fresh = {_place(self.plan, cell) for cell in self.cells}
        others = [record for place, record in self.known.items() if place not in fresh and Path(place).exists()]
        self._journal = open_journal(self.options.state, JOURNAL, others)
        board = Board([name for name, _ in self._waiting])
        with caught() as signals, LogFiles(self.state / "logs") as logs, Children(signals) as children:
            bakes = Bakes(children, logs, board, listener)
            listener.start(board)
            try:
                while (self._waiting or self._running) and not (signals.arrived and not self._running):
                    while self._waiting and not signals.arrived and len(self._running) < (self.options.parallel or 2):
                        name, cells = self._waiting.pop(0)
                        self._running[name] = cells
                        bakes.start(self._request(name))
                    for baking, outcome in bakes.turn():
                        self._ended(baking.request.targets[0].name, outcome)
            finally:
                listener.finish()
        return signals.name

    def _host(self) -> str:
        """Return what names the machine that compiles.

        Raises:
            PlanError: a cell needs it, and the engine is on another machine.
        """
        if not any(cell.target.is_local for cell in self.cells):
            return ""
        if not is_here(self.engine.environment):
            raise PlanError("target cpu:host is that of the engine, which is another machine", hint="name its CPU")
        return hashlib.sha256(cpu().encode()).hexdigest()

    def _inputs(self) -> None:
        folder = self.state / CONTEXT
        folder.mkdir(mode=0o700, parents=True)
        for cell in self.cells:
            target = folder / input_name(cell)
            if target.exists():
                continue
            try:
                data = cell.source.path.read_bytes()
                target.write_bytes(data)
            except OSError as error:
                raise OutputError(f"cannot copy {cell.source.shown}: {error.strerror or error}") from error
            if hashlib.sha256(data).hexdigest() != cell.source.sha256:
                raise ModuleError(f"{cell.source.shown} changed while it was read", hint="compile again")

    def _request(self, name: str) -> BakeRequest:
        target = Target(name, Kind.MODULE, Cell(name, {"platform": ""}, {}), name)
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
            timeout_s=self.options.timeout_s,
        )

    def _ended(self, name: str, outcome: BakeOutcome) -> None:
        """Take what a bake made, or what it failed of."""
        cells = self._running.pop(name)
        if not outcome.failures:
            if all(target.result == "done" for target in outcome.targets.values()):
                single = name.startswith("module-")
                self._collect(cells, self.state / "stage" / (cells[0].id if single else name), single=single)
            return
        by_stage = {cell_stage(cell): cell for cell in cells}
        blamed: dict[str, BakeryError] = {}
        for item in outcome.failures:
            match = _STAGE.match(item.step)
            cell = by_stage.get(match[1]) if match else None
            if cell is not None:
                how = item.tail[-1] if item.tail else "the step failed"
                blamed[cell.id] = CompilerError(
                    f"{cell.id}: {how}",
                    hint=item.hint or "compile it alone, or with more memory",
                    details=item.tail,
                )
        if not blamed:
            whole = BakeFailure(outcome)
            if len(cells) > 1:
                raise whole
            blamed[cells[0].id] = whole
        for cell_id, error in blamed.items():
            self.told[cell_id] = _Told("failed", error, log=self.state / "logs" / f"{name}.log")
        # What the others made is cached; each is asked for alone now, so that none ends another.
        self._waiting += [(cell_target(cell), (cell,)) for cell in cells if cell.id not in blamed]

    def _collect(self, cells: Sequence[ModuleCell], stage: Path, *, single: bool) -> None:
        files: list[Path] = []
        fresh: dict[str, _Told] = {}
        for cell in cells:
            folder = stage if single else stage / cell.id
            told = self._taken(cell, folder)
            fresh[cell.id] = told
            if told.record:
                files += [folder / f"{cell.id}.vmfb", folder / f"{cell.id}.json"]
        if files:
            publish(files, self.plan.output, root=self.plan.root)
        for cell in cells:
            if record := fresh[cell.id].record:
                made = KeptWheel(record.output.name, record.output.sha256, record.output.size)
                self._journal.write(Record(_place(self.plan, cell), _key(self.plan, cell), Result.DONE, wheels=(made,)))
        self.told.update(fresh)

    def _taken(self, cell: ModuleCell, folder: Path) -> _Told:
        """Return what a compile came to; of a module that was made, the files are ready to be published."""
        try:
            code, milliseconds = map(int, _read(folder / "ended", 64).split())
            log = self._log(cell, _read(folder / "log", _LOG))
            seconds = milliseconds / 1000
            if code:
                return _Told("failed", failure(cell, code, log.read_text(errors="replace"), log), seconds, log=log)
            module = folder / "module.vmfb"
            _plain(module)
            final = folder / f"{cell.id}.vmfb"
            module.rename(final)
            final.chmod(0o644)
            record = _record(self.plan, cell, final)
            text = json.dumps(record.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False) + "\n"
            (folder / f"{cell.id}.json").write_text(text, encoding="utf-8")
        except (OSError, ValueError) as error:
            return _Told("failed", CompilerError(f"{cell.id}: what came out of the compile is none: {error}"))
        return _Told("done", None, seconds, record, log)

    def _log(self, cell: ModuleCell, text: str) -> Path:
        path = self.state / "logs" / f"{cell.id}.log"
        path.write_text(in_words_of(cell, text), encoding="utf-8", errors="replace")
        return path


def in_words_of(cell: ModuleCell, text: str) -> str:
    """Return a compiler's text with the user's own file in place of the name that the step gave it."""
    shown = cell.source.shown
    return re.sub(r"(?<![\w./-])module\.mlir(?=[\"':])", lambda _: shown, text)


def failure(cell: ModuleCell, code: int, log: str, place: Path) -> BakeryError:
    """Return why a compile failed.

    Args:
        code: how the compiler ended, as a shell says it: 128 and a signal's number for a crash.
        log: what it said.
        place: the file with all of it.
    """
    lines = [line for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(?:error|fatal|LLVM ERROR|Assertion)\b", line)]
    told = [line for line in lines if not _NOISE.search(line)]
    shown = [line[:400] for line in (errors or told or lines)[:_SHOWN]]
    if code > 128:
        name = signal.Signals(code - 128).name if code - 128 in set(signal.Signals) else f"signal {code - 128}"
        about = told[0][:200] if told else "it said nothing"
        return CompilerError(
            f"{cell.id}: the compiler crashed ({name}): {about}",
            hint=f"this is a defect of iree-compile, met by something in {cell.source.shown}; the whole log: {place}",
            details=shown,
        )
    first = errors[0][:300] if errors else (told or [f"iree-compile ended with exit code {code}"])[0][:300]
    what = "the compiler refused an argument" if code == _BAD_ARGUMENT else "the compiler refused it"
    return ModuleError(f"{cell.id}: {what}: {first}", hint=f"the whole log: {place}", details=shown)


def _read(path: Path, most: int) -> str:
    _plain(path)
    with path.open("rb") as file:
        return file.read(most).decode("utf-8", "replace")


def _plain(path: Path) -> None:
    """Check that a file which came out of a container is one.

    Raises:
        ValueError: it is something else, or too large.
    """
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > LARGEST:
        raise ValueError(f"{path.name} is no plain file, or too large")


def _record(plan: JobPlan, cell: ModuleCell, module: Path) -> ModuleRecord:
    with module.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = module.stat().st_size
    if not size:
        raise ValueError("the compiled module is empty")

    def types(items: Sequence[tuple[str, tuple[int | None, ...] | None, str]]) -> tuple[TypeRecord, ...]:
        return tuple(TypeRecord(text=text, shape=shape, dtype=dtype) for text, shape, dtype in items)

    target = cell.target
    about: Mapping[str, object] = {
        "name": target.name,
        "backend": target.backend,
        "architecture": target.architecture,
        "machine": target.machine,
        "device": target.device,
    }
    return ModuleRecord(
        version=1,
        name=cell.name,
        compiler=plan.compiler,
        runtime=plan.runtime,
        target=TargetRecord.model_validate(about),
        flags=cell.flags,
        input=FileRecord(name=cell.source.path.name, sha256=cell.source.sha256, size=cell.source.size),
        output=FileRecord(name=f"{cell.id}.vmfb", sha256=digest, size=size),
        functions=tuple(
            FunctionRecord(name=item.name, arguments=types(item.arguments), results=types(item.results))
            for item in cell.source.functions
        ),
    )


def _report(plan: JobPlan, cell: ModuleCell, told: _Told) -> ModuleReport:
    return ModuleReport(
        cell=cell.id,
        shown=cell.source.shown,
        target=cell.target.name,
        result=told.result,
        seconds=told.seconds,
        size=told.record.output.size if told.record else 0,
        path=plan.output / f"{cell.id}.vmfb" if told.record else None,
        log=told.log,
        error=told.error,
    )
