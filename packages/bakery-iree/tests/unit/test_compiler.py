"""What came out of a compile: its errors in the user's words, and nothing taken that is no module."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bakery.core.errors import BakeryError
from bakery.engine.session import EngineSession
from bakery.runs.buildx.bake_outcome import BakeOutcome, Failure
from bakery.runs.buildx.board import Listener
from bakery.runs.buildx.failures import BakeFailure
from bakery.runs.journal import Record, RecordedWheel, Result, newest_records, open_journal
from bakery_iree.compiler import (
    JOURNAL,
    CompileOptions,
    _key,
    _output,
    _Run,
    compile_job,
    failure,
    reusable_record,
    with_users_paths,
)
from bakery_iree.emit import cell_stage, cell_target, compile_stage, input_target
from bakery_iree.errors import CompilerError, ModuleError
from bakery_iree.job.load import from_inputs
from bakery_iree.job.resolve import resolve
from bakery_iree.plan import JobPlan
from bakery_iree.report import ModuleReport, conclusion

DATA = Path(__file__).parents[1] / "data" / "mlir"
MODULES = DATA.parent / "modules"
CRASH = """\
Please report issues to https://github.com/iree-org/iree/issues and include the crash backtrace.
Stack dump:
0.\tProgram arguments: iree-compile module.mlir
 #0 0x00007f1e llvm::sys::PrintStackTrace
"""


def planned(folder: Path, targets: list[str], *names: str) -> JobPlan:
    """Return the plan of a job for modules of ``DATA``."""
    for name in names:
        shutil.copy(DATA / name, folder)
    return resolve(from_inputs(names, folder), targets, folder / "out")


@pytest.fixture
def plan(tmp_path: Path) -> JobPlan:
    (tmp_path / "my model.mlir").write_text((DATA / "matmul.mlir").read_text())
    return resolve(from_inputs(["my model.mlir"], tmp_path), ["cuda:sm_80"], tmp_path / "out")


def test_places_are_those_of_the_users_own_file(plan: JobPlan) -> None:
    said = 'module.mlir:2:3: error: x\nloc("module.mlir":2:3)\n/in/module.mlir:1:1\nmodule.mlirbc:1'
    assert with_users_paths(plan.cells[0], said).splitlines() == [
        "my model.mlir:2:3: error: x",
        'loc("my model.mlir":2:3)',
        "/in/module.mlir:1:1",
        "module.mlirbc:1",
    ]


def test_failures_are_told_apart(plan: JobPlan) -> None:
    (cell,) = plan.cells
    refused = failure(cell, 1, "m.mlir:2:3: error: unknown op\nm.mlir:2:3: note: see\n", Path("log"))
    assert isinstance(refused, ModuleError)
    assert "m.mlir:2:3: error: unknown op" in refused.message
    argument = failure(cell, 74, "error: bad cpu", Path("log"))
    assert isinstance(argument, ModuleError)
    assert "refused an argument" in argument.message
    crash = failure(cell, 139, "module.mlir:3:4: error: op x\n" + CRASH, Path("log"))
    assert isinstance(crash, CompilerError)
    assert "crashed (SIGSEGV): module.mlir:3:4: error: op x" in crash.message
    assert "no output" in failure(cell, 134, "", Path("log")).message
    assert {refused.exit_code, crash.exit_code} == {14, 17}


def made(plan: JobPlan) -> Path:
    """Write what a compile of the plan's only cell would leave; return the module."""
    (cell,) = plan.cells
    plan.output.mkdir()
    module = plan.output / f"{cell.id}.vmfb"
    module.write_bytes(b"x")
    record = {
        "version": 1,
        "name": cell.name,
        "compiler": plan.compiler,
        "runtime": plan.runtime,
        "target": {"name": "cuda:sm_80", "backend": "cuda", "architecture": "sm_80", "device": "cuda"},
        "flags": list(cell.flags),
        "input": {"name": "my model.mlir", "sha256": cell.source.sha256, "size": cell.source.size},
        "output": {
            "name": module.name,
            "sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
            "size": 1,
        },
        "functions": [],
    }
    (plan.output / f"{cell.id}.json").write_text(json.dumps(record))
    return module


def remembered(plan: JobPlan, state: Path) -> None:
    """Write down that this machine compiled what `made` wrote."""
    (cell,) = plan.cells
    wheel = RecordedWheel(f"{cell.id}.vmfb", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", 1)
    open_journal(state, JOURNAL, [Record(_output(plan, cell), _key(plan, cell), Result.DONE, wheels=(wheel,))])


def test_a_result_is_kept_only_if_it_was_compiled_here_of_the_same(plan: JobPlan, tmp_path: Path) -> None:
    (cell,) = plan.cells
    module = made(plan)
    # What a checkout brings: a module, and a record that says all the right things.
    assert reusable_record(plan, cell, None) is None
    remembered(plan, tmp_path / "state")
    known = newest_records(tmp_path / "state", JOURNAL)[_output(plan, cell)]
    assert reusable_record(plan, cell, known) is not None
    assert reusable_record(replace(plan, compiler="3.12.0"), cell, known) is None
    assert reusable_record(plan, replace(cell, flags=(*cell.flags, "--x")), known) is None
    assert reusable_record(plan, replace(cell, source=replace(cell.source, sha256="0" * 64)), known) is None
    assert reusable_record(plan, replace(cell, target=cell.target.model_copy(update={"is_local": True})), known) is None
    module.write_bytes(b"y")
    assert reusable_record(plan, cell, known) is None


def test_what_is_all_there_needs_no_engine(plan: JobPlan, tmp_path: Path) -> None:
    class EngineAsked(Exception):
        pass

    def engine() -> EngineSession:
        raise EngineAsked

    module = made(plan)
    state = tmp_path / "state"
    with pytest.raises(EngineAsked):
        compile_job(plan, CompileOptions(state), engine, Listener())
    remembered(plan, state)
    run = compile_job(plan, CompileOptions(state), engine, Listener())
    assert [(item.result, item.path) for item in run.modules] == [("kept", module)]
    assert conclusion(run) is None
    for asked in (CompileOptions(state, again=True), CompileOptions(state, no_cache=True)):
        with pytest.raises(EngineAsked):
            compile_job(plan, asked, engine, Listener())
    module.write_bytes(b"y")
    with pytest.raises(EngineAsked):
        compile_job(plan, CompileOptions(state), engine, Listener())


def test_a_broken_input_fails_without_a_compiler_and_the_rest_goes_on(plan: JobPlan, tmp_path: Path) -> None:
    made(plan)
    remembered(plan, tmp_path / "state")
    bad = replace(plan.cells[0], name="bad", source=replace(plan.cells[0].source, problem="bad.mlir:1:1: no"))

    def engine() -> EngineSession:
        raise AssertionError

    both = replace(plan, cells=(bad, *plan.cells))
    run = compile_job(both, CompileOptions(tmp_path / "state"), engine, Listener())
    assert [item.result for item in run.modules] == ["failed", "kept"]
    error = conclusion(run)
    assert error is not None
    assert (error.exit_code, error.details) == (11, ("bad.cuda-sm_80: bad.mlir:1:1: no",))


def test_after_a_failed_step_the_cells_of_its_input_are_compiled_alone(tmp_path: Path) -> None:
    job = planned(tmp_path, ["cuda:sm_80", "cpu:generic"], "matmul.mlir", "softmax.mlir")
    (inputs,) = job.inputs()
    reports = {cell.id: ModuleReport(cell) for cell in job.cells}
    options = CompileOptions(tmp_path)
    run = _Run(job, list(job.cells), options, cast("EngineSession", None), tmp_path, {}, reports)
    run._running["batch-1"], run._inputs["batch-1"] = job.cells, inputs

    def failed(stage: str) -> BakeOutcome:
        step = f"[{stage} 1/1] RUN …"
        return BakeOutcome({}, (Failure((), step, "exit code: 137", ("the compiler was killed",), None, ""),))

    run._finish_batch("batch-1", failed(compile_stage(inputs[1])))
    # What the other input's step compiled is in the build cache.
    waiting = run._waiting
    assert [(name, len(cells)) for name, cells in waiting] == [
        (input_target(inputs[0]), 2),
        *((cell_target(cell), 1) for cell in inputs[1]),
    ]
    (_, (alone,)) = waiting[-1]
    run._running[cell_target(alone)] = (alone,)
    run._finish_batch(cell_target(alone), failed(cell_stage(alone)))
    error = reports[alone.id].error
    assert isinstance(error, CompilerError)
    assert "the compiler was killed" in error.message

    run._running["batch-1"] = job.cells
    with pytest.raises(BakeFailure):
        run._finish_batch("batch-1", failed("skeleton"))


def test_targets_of_an_input_are_one_step_in_any_order(tmp_path: Path) -> None:
    names = ["cuda:sm_80", "cpu:generic", "cpu:host"]
    jobs = [planned(tmp_path, targets, "matmul.mlir") for targets in (names, names[::-1])]
    one, other = ({tuple(cell.id for cell in cells) for cells in job.inputs()[0]} for job in jobs)
    assert one == other
    # What depends on the machine is a step of its own.
    assert ("matmul.cpu-host",) in one


def test_a_record_says_what_was_compiled(tmp_path: Path) -> None:
    """The source has float64, and the module float32; and it was compiled for the engine's own machine."""
    text = (DATA / "matmul.mlir").read_text().replace("f32", "f64")
    (tmp_path / "matmul.mlir").write_text(text)
    job = resolve(from_inputs(["matmul.mlir"], tmp_path), ["cpu:host", "cpu:aarch64"], tmp_path / "out")
    for architecture in ("arm64", "aarch64"):
        engine = cast("EngineSession", SimpleNamespace(info=SimpleNamespace(architecture=architecture)))
        run = _Run(job, list(job.cells), CompileOptions(tmp_path), engine, tmp_path, {}, {})
        for cell in job.cells:
            (exported := tmp_path / architecture / cell.id).mkdir(parents=True)
            (exported / "ended").write_text("0 1")
            (exported / "log").write_text("")
            shutil.copy(MODULES / "matmul.cpu-aarch64.vmfb", exported / "module.vmfb")
            record = run._read_result(cell, exported).record
            assert record is not None
            assert record.target.machine == "aarch64"
            assert {item.dtype for item in record.functions[0].arguments} == {"float32"}
    (exported / "module.vmfb").write_bytes(b"x")
    assert "is not an IREE module" in str(run._read_result(job.cells[1], exported).error)


def test_links_that_a_compiler_makes_are_not_followed(tmp_path: Path) -> None:
    job = planned(tmp_path, ["cpu:generic"], "matmul.mlir")
    (cell,) = job.cells
    secret, exported = tmp_path / "secret", tmp_path / "stage" / cell.id
    secret.write_text("0 1")
    exported.mkdir(parents=True)
    run = _Run(job, [cell], CompileOptions(tmp_path), cast("EngineSession", None), tmp_path, {}, {})
    # Read through a link, and written through one with the name of the record.
    (exported / "ended").symlink_to(secret)
    assert "is a link" in str(run._read_result(cell, exported).error)
    (exported / "ended").unlink()
    (exported / "ended").write_text("0 1")
    for name in ("log", "module.vmfb"):
        (exported / name).write_text("x")
    for name in (f"{cell.id}.json", cell.file_name):
        (exported / name).symlink_to(secret)
    with contextlib.suppress(BakeryError):
        run._read_result(cell, exported)
    assert secret.read_text() == "0 1"
