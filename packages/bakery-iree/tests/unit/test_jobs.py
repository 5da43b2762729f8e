"""Jobs: what they mean, and everything that is wrong with one at once, before an engine is asked."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample import sampled
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.cli.json_schema import schema
from bakery.core.errors import UsageError
from bakery_iree.commands.compile import CompileArguments
from bakery_iree.errors import ModuleError
from bakery_iree.job.load import from_inputs, key_lines, load
from bakery_iree.job.resolve import UnknownTarget, all_targets, resolve, target
from bakery_iree.models.job import Job
from bakery_iree.models.module import TargetRecord
from bakery_iree.plan import BATCH, JobPlan

CHECK = {"inputs": ["a.npy"], "expected": ["b.npy"]}
DATA = Path(__file__).parents[1] / "data" / "mlir"
MATMUL = (DATA / "matmul.mlir").read_text()


def write(folder: Path, job: object, **files: str) -> Path:
    for name, text in {"m": MATMUL, **files}.items():
        (folder / f"{name}.mlir").write_text(text)
    path = folder / "job.json"
    path.write_text(job if isinstance(job, str) else json.dumps(job, indent=1))
    return path


def plan(folder: Path, job: object, **files: str) -> JobPlan:
    return resolve(load(write(folder, job, **files), "job.json"))


def refused(folder: Path, job: object, **files: str) -> list[str]:
    with pytest.raises(ModuleError) as caught:
        plan(folder, job, **files)
    return [line for line in (caught.value.message, *caught.value.details) if not line.startswith(" ")]


def test_cells_are_modules_times_targets(tmp_path: Path) -> None:
    own = {"input": "n.mlir", "name": "own", "targets": ["cpu:host"], "flags": ["--iree-opt-level=O3"]}
    found = plan(
        tmp_path, {"version": 1, "targets": ["cuda:sm_80", "metal"], "modules": [{"input": "m.mlir"}, own]}, n=MATMUL
    )
    assert [cell.id for cell in found.cells] == ["m.cuda-sm_80", "m.metal", "own.cpu-host"]
    assert found.cells[0].flags == ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80")
    assert found.cells[2].flags[-1] == "--iree-opt-level=O3"
    assert found.cells[2].target.is_local
    assert not found.cells[0].target.is_local
    assert (found.compiler, found.output) == ("3.13.0", tmp_path / "out")
    (function,) = found.cells[0].source.functions
    argument = function.arguments[0]
    assert (argument.text, argument.shape, argument.dtype) == ("tensor<64x64xf32>", (64, 64), "float32")
    assert [cell.id for cell in found.select(["*metal", "own.*"]).cells] == ["m.metal", "own.cpu-host"]
    with pytest.raises(UsageError):
        found.select(["x"])


def test_the_command_line_makes_the_same_job(tmp_path: Path) -> None:
    write(tmp_path, "")
    by_hand = resolve(from_inputs(["m.mlir"], tmp_path), ["metal", "metal"], Path("o"), compiler="3.12.0")
    assert [cell.id for cell in by_hand.cells] == ["m.metal"]
    assert (by_hand.compiler, by_hand.output) == ("3.12.0", Path("o"))
    with pytest.raises(UsageError):
        CompileArguments(["a.json", "b.mlir"]).job_plan()


def test_all_problems_at_once_with_their_lines(tmp_path: Path) -> None:
    job = """{
 "version": 1,
 "targets": ["cuda:sm_90", "cpu:x86-64-v3"],
 "modules": [
  {"input": "gone.mlir"},
  {"input": "bad.mlir"},
  {"input": "m.mlir", "flags": ["--iree-cuda-target=sm_80", "--mlir-print-ir-tree-dir=x"]},
  {"input": "M.mlir", "targets": ["cpu", "cuda:sm_80,sm_86"]},
  {"input": "m.mlir", "name": "b", "checks": [{"inputs": ["a.npy"], "expected": ["b.npy"]}]}
 ]
}"""
    said = refused(tmp_path, job, bad="module { func.func @main(", M=MATMUL)
    assert said[0] == "8 problems in job.json"
    places_ = [line.partition(": ")[0] for line in said[1:]]
    assert places_ == [f"job.json:{line}" for line in (3, 5, 6, 7, 7, 8, 8, 9)]
    assert "iree-org/iree#22147" in said[1]
    assert "modules[0].input: gone.mlir cannot be read" in said[2]
    assert "bad.mlir:1:25" in said[3]
    assert "sets the target" in said[4]
    assert "names files" in said[5]
    assert "names no CPU" in said[6]
    assert "is a list" in said[7]
    assert "@main takes 3 inputs" in said[8]


def test_a_broken_input_ends_its_own_cells_only(tmp_path: Path) -> None:
    job = {
        "version": 1,
        "targets": ["metal", "vulkan"],
        "modules": [{"input": "m.mlir"}, {"input": "bad.mlir"}, {"input": "gone.mlir", "checks": [CHECK]}],
    }
    found = plan(tmp_path, job, bad="module { func.func @main(")
    assert [(cell.id, bool(cell.source.problem)) for cell in found.cells] == [
        *(("m.metal", False), ("m.vulkan", False), ("bad.metal", True)),
        *(("bad.vulkan", True), ("gone.metal", True), ("gone.vulkan", True)),
    ]
    bad, gone = found.problems
    assert bad.startswith("bad.mlir:1:25: ")
    assert gone == "gone.mlir cannot be read: No such file or directory (check the path)"
    # A mistake of the job's own ends all of it, and so do inputs of which none is good.
    assert len(refused(tmp_path, {**job, "targets": ["metal", "cuda:sm_90"]}, bad="module {")) == 4
    assert len(refused(tmp_path, {**job, "modules": job["modules"][1:]}, bad="module {")) == 3


def test_shapes_of_the_file(tmp_path: Path) -> None:
    assert "missing" in refused(tmp_path, {"version": 1})[1]
    assert "one" in refused(tmp_path, {"version": 2, "modules": [{"input": "m.mlir"}]})[1]
    assert (
        "did you mean 'targets'" in refused(tmp_path, {"version": 1, "modules": [{"input": "m.mlir"}], "target": []})[1]
    )
    assert "twice" in refused(tmp_path, '{"version": 1, "version": 1}')[1]
    assert "not JSON" in refused(tmp_path, '{"version": 1,}')[1]
    assert "NaN" in refused(tmp_path, '{"version": NaN}')[1]
    assert "expected an object" in refused(tmp_path, "[]")[1]
    assert "exactly one of" in " ".join(
        refused(tmp_path, {"version": 1, "modules": [{"input": "m.mlir", "checks": [{"inputs": []}]}]})
    )
    nothing = refused(tmp_path, {"version": 1, "modules": [{"input": "m.mlir"}]})
    assert "it has no target" in nothing[1]


def test_two_results_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "M.mlir").write_text(MATMUL)
    modules = [{"input": "m.mlir"}, {"input": "other/M.mlir"}]
    (line,) = refused(tmp_path, {"version": 1, "targets": ["metal"], "modules": modules})[1:]
    assert "the name of another one, M.metal (of m.mlir)" in line


def test_names_that_no_file_should_have(tmp_path: Path) -> None:
    odd = 'a b"$(touch x)${y}.mlir'
    (tmp_path / odd).write_text(MATMUL)
    (cell,) = resolve(from_inputs([odd], tmp_path), ["metal"]).cells
    assert cell.id == "a-b-touch-x-y.metal"
    (tmp_path / "$$.mlir").write_text(MATMUL)
    with pytest.raises(ModuleError, match="1 problem"):
        resolve(from_inputs(["$$.mlir"], tmp_path), ["metal"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cuda:sm_90", "iree-org/iree#22147"),
        ("h100", "iree-org/iree#22147"),
        ("cuda:sm_100", "iree-org/iree#22147"),
        ("cuda:smm_80", "did you mean 'cuda:sm_80'"),
        ("vulkan:amper", "did you mean 'vulkan:ampere'"),
        ("cpu:x86_64_v3", "did you mean 'cpu:x86-64-v3'"),
        ("x86-64-v3", "did you mean 'cpu:x86-64-v3'"),
        ("cpu", "names no CPU"),
        ("rocm", "names no architecture"),
        ("cuda:sm_80,sm_86", "is a list"),
        ("local", "unknown target"),
        ("", "unknown target"),
    ],
)
def test_targets_that_are_none(name: str, said: str) -> None:
    with pytest.raises(UnknownTarget, match=said.replace("(", "\\(")) as caught:
        target(name)
    assert caught.value.fix


def test_every_target_has_a_record_and_a_name_of_its_own() -> None:
    slugs = [item.slug for item in all_targets().values()]
    assert len(set(slugs)) == len(slugs)
    assert not any("--" in slug or slug.startswith("-") for slug in slugs)
    for item in all_targets().values():
        TargetRecord.model_validate(item, from_attributes=True)
        assert all("{}" not in flag for flag in item.flags)


def test_batches_hold_every_cell_once(tmp_path: Path) -> None:
    modules = [{"input": "m.mlir", "name": f"m{number}"} for number in range(BATCH * 2 + 1)]
    found = plan(tmp_path, {"version": 1, "targets": ["metal"], "modules": modules})
    assert [len(batch) for batch in found.batches()] == [BATCH, BATCH, 1]
    assert [cell for batch in found.batches() for cell in batch] == list(found.cells)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.sampled_from([None, 0, 1, 4]))
def test_places_are_those_of_the_values(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    found = key_lines(text)

    def paths(item: Any, path: tuple[str | int, ...]) -> set[tuple[str | int, ...]]:
        inner = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
        return {path} - {()} | {found for key, below in inner for found in paths(below, (*path, key))}

    assert set(found) == paths(value, ())
    assert all(1 <= line <= text.count("\n") + 1 for line in found.values())


def test_the_schema_and_the_models_agree(tmp_path: Path) -> None:
    check = {"inputs": ["64x64xf32=1"] * 3, "reference": "r.py:f", "tolerance": {"float32": {"atol": 1e-4}}}
    benchmark = {"inputs": ["64x64xf32=1"] * 3, "repetitions": 5, "cores": "0-1", "threshold": 0.1}
    full = {
        "$schema": "job.schema.json",
        "version": 1,
        "compiler": "3.13.0",
        "output": "o",
        "targets": ["metal"],
        "modules": [{"input": "m.mlir", "name": "a", "flags": ["--x=1"], "checks": [check], "benchmark": benchmark}],
    }
    validator = jsonschema.Draft202012Validator(schema("job"))
    validator.validate(full)
    again = Job.model_validate(full).model_dump(mode="json", by_alias=True, exclude_none=True)
    assert Job.model_validate(again) == Job.model_validate(full)
    for wrong in (
        {"version": 1},
        {**full, "version": 2},
        {**full, "x": 1},
        {**full, "modules": []},
        {**full, "compiler": "x"},
    ):
        assert not validator.is_valid(wrong)
        assert refused(tmp_path, wrong)


# --- what a job may reach


CALL = {"inputs": ["4xf32=1"], "expected": ["4xf32=1"]}
OUTSIDE: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "output": ("fs.write=../out", {"output": "../out"}, {}),
    "output-absolute": ("fs.write=/srv/out", {"output": "/srv/out"}, {}),
    "output-link": ("fs.write=../../elsewhere/out", {"output": "link/out"}, {}),
    "input": ("fs.read=../m.mlir", {}, {"input": "../m.mlir"}),
    "input-absolute": ("fs.read=/etc/passwd", {}, {"input": "/etc/passwd"}),
    "input-link": ("fs.read=../../elsewhere/m.mlir", {}, {"input": "link/m.mlir"}),
    "check-input": ("fs.read=../a.npy", {}, {"checks": [{**CALL, "inputs": ["@../a.npy"]}]}),
    "check-expected": ("fs.read=../a.npz", {}, {"checks": [{**CALL, "expected": ["../a.npz"]}]}),
    "reference": ("fs.read=../r.py", {}, {"checks": [{"inputs": ["4xf32=1"], "reference": "../r.py:f"}]}),
    "benchmark-input": ("fs.read=../a.npy", {}, {"benchmark": {"inputs": ["../a.npy"]}}),
    "baseline": ("fs.read=/dev/zero", {}, {"benchmark": {"baseline": "/dev/zero"}}),
}
COMMANDS = (("compile", "--plan"), ("compile",), ("validate",), ("benchmark",))


@pytest.fixture(params=OUTSIDE)
def reaching(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """Give a project whose job reaches out of its folder; return what it reaches."""
    want, of_job, of_module = OUTSIDE[request.param]
    root = tmp_path / "root"
    (root / "models").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (root / "models" / "link").symlink_to(tmp_path / "elsewhere")
    job = {"version": 1, "targets": ["metal"], "modules": [{"input": "m.mlir", **of_module}], **of_job}
    write(root / "models", job)
    monkeypatch.chdir(root)
    key, _, path = want.partition("=")
    return key, Path(os.path.normpath(root / "models" / path))


@pytest.mark.parametrize("words", sampled(((words,) for words in COMMANDS), 2), ids=" ".join)
def test_a_job_reaches_nothing_outside_of_its_folder_unasked(
    reaching: tuple[str, Path], words: tuple[str, ...]
) -> None:
    key, path = reaching
    done = CliRunner().invoke(app, [*words, "models/job.json"])
    assert isinstance(done.exception, UsageError), done.exception
    assert done.exception.message == "the job needs permissions that were not granted"
    assert done.exception.details == (f"--allow {key}={path}",)
    # Nobody has to allow what they said themselves.
    for more in (["--output", "mine"] if key == "fs.write" else [], ["--allow", f"{key}={path}"]):
        if more:
            done = CliRunner().invoke(app, ["compile", "--plan", "models/job.json", *more])
            assert not isinstance(done.exception, UsageError), done.exception


def test_a_job_of_a_workspace_may_use_all_of_it(reaching: tuple[str, Path], tmp_path: Path) -> None:
    key, path = reaching
    Path("bakery-iree.toml").write_text('jobs = ["models/job.json"]\n[ci]\n')
    inside = path.is_relative_to(tmp_path / "root")
    for words in (("compile", "--plan", "models/job.json"), ("generate",)):
        done = CliRunner().invoke(app, words)
        # In a workflow results lie beside the checkout, whatever the job says.
        refused = not inside and not (words == ("generate",) and key == "fs.write")
        assert isinstance(done.exception, UsageError) is refused, done.exception
        if isinstance(done.exception, UsageError):
            assert done.exception.details == (f"--allow {key}={path}",)


@pytest.mark.parametrize("name", ["CON", "con", "NUL", "com1", "LPT9", "aux", "prn"])
def test_names_are_files_on_windows_too(tmp_path: Path, name: str) -> None:
    job = {"version": 1, "targets": ["metal"], "modules": [{"input": "m.mlir", "name": name}]}
    assert any("no device on Windows" in line for line in refused(tmp_path, job))
    (tmp_path / f"{name}.mlir").write_text(MATMUL)
    with pytest.raises(ModuleError) as caught:
        resolve(from_inputs([f"{name}.mlir"], tmp_path), ["metal"])
    assert any("cannot be the name of the results" in line for line in caught.value.details)
    job["modules"] = [{"input": "m.mlir", "name": f"{name}-x"}]
    assert [cell.name for cell in plan(tmp_path, job).cells] == [f"{name}-x"]


LONG = {
    "nested lists": "[" * 100_000,
    "less nested lists": '{"version": 1, "modules": ' + "[" * 900 + "0," * 20_000 + "0" + "]" * 900 + "}",
    "many keys": "{" + ",".join(f'"k{number}": 1' for number in range(120_000)) + "}",
    "one key": "{" + ",".join('"k": 1' for _ in range(200_000)) + "}",
    "many wrong values": '{"version": 1, "modules": [' + "0," * 190_000 + "0]}",
    "more wrong values": '{"version": 1, "modules": [' + "0," * 990_000 + "0]}",
    "a large file": " " * (3 << 20),
}


@pytest.mark.parametrize("name", sampled(LONG, 3))
def test_no_text_keeps_the_loader_of_jobs_busy(tmp_path: Path, name: str) -> None:
    file = tmp_path / "job.json"
    file.write_text(LONG[name])
    began = time.process_time()
    with pytest.raises(ModuleError):
        load(file, "job.json")
    assert time.process_time() - began < 5


def test_a_job_is_measured_before_it_is_made(tmp_path: Path) -> None:
    modules = [{"input": f"m{number}.mlir"} for number in range(2_000)]
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"version": 1, "modules": modules}))
    with pytest.raises(ModuleError) as caught:
        resolve(load(file, "job.json"), ["cpu:x86-64-v3"] * 51)
    assert "102,000 results, and the limit is 100,000" in caught.value.details[0]
