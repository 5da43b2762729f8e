"""Compiled modules: what iree-compile 3.13.0 really wrote, opened without it; calls, records, figures, bundles."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import subprocess
import tarfile
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from iree_modules import CUDA, DATA, recorded, targets
from packaging.requirements import Requirement
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.core.errors import AuditError, BakeError, UsageError
from bakery_iree import facts
from bakery_iree.benchmark import (
    _MACHINE,
    Measurement,
    _compared,
    _machine,
    baseline_of,
    conclusion,
    percentile,
    read_baseline,
)
from bakery_iree.benchmark import read_subjects as read_benchmarks
from bakery_iree.bundle import bundle
from bakery_iree.check_runs import _tolerance
from bakery_iree.commands import modules as modules_command
from bakery_iree.commands.modules import ValidateArguments
from bakery_iree.commands.runs import _baselines
from bakery_iree.errors import ModuleError, RegressionError
from bakery_iree.job.load import load
from bakery_iree.mlir import Function, Type
from bakery_iree.models.job import Benchmark, Check
from bakery_iree.models.module import Baseline, BenchmarkRecord, Measured, ValidationRecord
from bakery_iree.modules import Request, find_modules, inspect, open_module, requests_of, requests_of_job, write_record
from bakery_iree.sandbox import ProgramResult
from bakery_iree.validate import Verdict, read_subjects
from bakery_iree.vmfb import as_spirv_1_6, read_vmfb, spirv_problem, spirv_version

MATMUL = (Type("tensor<64x64xf32>"),) * 3
ARGUMENTS = ("64x64xf32=1",) * 3


@pytest.mark.parametrize(
    ("name", "kind", "architecture", "said"),
    [
        ("matmul.cpu-v3", "cpu", "x86_64", "ELF for x86_64"),
        ("matmul.cpu-aarch64", "cpu", "aarch64", "ELF for aarch64"),
        ("matmul.cuda", "cuda", "sm_80", "PTX for sm_80"),
        ("matmul.metal", "metal", "", "not compiled, because"),
        ("matmul.vulkan", "vulkan", "", "SPIR-V, 1 module"),
        ("matmul.rocm", "rocm", "gfx942", "AMD's gfx942"),
    ],
)
def test_module_is_opened(name: str, kind: str, architecture: str, said: str) -> None:
    module = open_module(DATA / f"{name}.vmfb")
    (code,) = module.content.codes
    (function,) = module.content.functions
    assert (code.kind, code.architecture) == (kind, architecture)
    assert function == Function("main", MATMUL, MATMUL[:1])
    assert (module.target.backend, len(code.texts)) == (kind, 1)
    right, wrong = inspect(module)
    assert not wrong
    assert said in right[0]


def test_spirv_is_read_to_its_end() -> None:
    (code,) = read_vmfb(DATA / "matmul.vulkan.vmfb").codes
    (text,) = code.texts
    newer = as_spirv_1_6(text)
    assert [spirv_version(item) for item in (text, newer)] == ["1.0", "1.6"]
    assert (len(newer), spirv_problem(text), spirv_problem(newer)) == (len(text), "", "")
    assert spirv_problem(text[:-4])
    assert spirv_problem(text[:40])


def test_module_may_hold_much_code(tmp_path: Path) -> None:
    path = tmp_path / "large.vmfb"
    with zipfile.ZipFile(DATA / "matmul.cuda.vmfb") as small, zipfile.ZipFile(path, "w") as large:
        for info in small.infolist():
            large.writestr(info.filename, small.read(info) + bytes(20 << 20))
    assert read_vmfb(path).kinds == ("cuda",)


def test_functions_are_the_modules_own() -> None:
    found = read_vmfb(DATA / "ident.vmfb")
    vector = (Type("tensor<4xf32>"),)
    types = tuple(map(Type, ("tensor<?xi32>", "i32", "tensor<bf16>")))
    assert found.functions == (Function("main", vector, vector), Function("second", types, types))
    assert found.codes == ()


@given(st.data())
def test_damaged_modules_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = bytearray((DATA / "matmul.vulkan.vmfb").read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=20)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "a.vmfb"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        read_vmfb(path)
    except AuditError:
        return


@pytest.mark.parametrize("content", [b"", b"IREE", b"PK\x03\x04" + bytes(100), bytes(1000)])
def test_what_is_no_module(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.vmfb").write_bytes(content)
    with pytest.raises(AuditError, match="is not an IREE module"):
        read_vmfb(tmp_path / "a.vmfb")
    with pytest.raises(ModuleError, match="1 of 1 modules cannot be read"):
        find_modules([tmp_path])


@pytest.mark.parametrize(
    ("source", "changes", "said"),
    [
        ("matmul.cpu-v3", {"output": {"name": "a", "sha256": "0" * 64, "size": 1}}, "the sha256 differs"),
        ("matmul.cpu-aarch64", {}, "is for aarch64, not for x86_64"),
        ("matmul.cuda", {}, "it has code for cuda, but its target is cpu:x86-64-v3"),
        ("matmul.cuda", {"target": CUDA}, "is for sm_80, not for sm_89"),
        (
            "matmul.rocm",
            {"target": {**CUDA, "backend": "rocm", "architecture": "gfx90a"}},
            "is for gfx942, not for gfx90a",
        ),
    ],
)
def test_module_that_is_not_what_its_record_says(
    source: str, changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    _, wrong = inspect(open_module(recorded(tmp_path, source, **changes)))
    assert said in " ".join(wrong)


def figures_of(median: float) -> BenchmarkRecord:
    return BenchmarkRecord(
        function="main", repetitions=1, warmup=0, p50=median, p90=1.0, p99=1.0, mean=1.0, throughput=1.0
    )


def test_record_is_changed_as_a_whole(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    module = open_module(path)
    figures = figures_of(1.0)
    write_record(module, benchmark=figures)
    write_record(module, validation=None)
    again = open_module(path).record
    assert again is not None
    assert again.benchmark == figures
    assert sorted(item.name for item in tmp_path.iterdir()) == [path.with_suffix(".json").name, path.name]


def test_all_that_does_not_fit_is_told_at_once(tmp_path: Path) -> None:
    module = open_module(recorded(tmp_path))
    checks = (
        Check(function="mian", inputs=ARGUMENTS, expected=("64x64xf32=65",)),
        Check(inputs=ARGUMENTS[:2], expected=("64x64xf32=65",)),
        Check(inputs=("64x63xf32=1", "64x64xi32=1", "64x64xf32=1"), expected=("64xf32=65",)),
        Check(inputs=("none.npy", *ARGUMENTS[:2]), expected=("64x64xf32=65",)),
        Check(inputs=ARGUMENTS, reference="none.py:f"),
        Check(inputs=ARGUMENTS, expected=("64x64xf32=65", "64x64xf32=65")),
    )
    with pytest.raises(ModuleError) as caught:
        read_subjects([(module, checks, tmp_path)])
    title = "matmul.cpu-x86-64-v3"
    assert list(caught.value.details) == [
        f"{title}: check 0: there is no function mian; did you mean main?",
        f"{title}: check 1: input: expected 3 values ({', '.join(map(str, MATMUL))}), got 2",
        f"{title}: check 2: input 0: expected the shape 64x64 (tensor<64x64xf32>), got float32 of shape 64x63",
        f"{title}: check 2: input 1: expected float32 (tensor<64x64xf32>), got int32 of shape 64x64",
        f"{title}: check 3: input: none.npy: no such file",
        f"{title}: check 4: reference: no such file: {tmp_path / 'none.py'}",
        f"{title}: check 5: expected: expected 1 values (tensor<64x64xf32>), got 2",
    ]


@pytest.mark.parametrize(
    ("type_", "tolerance", "bounds"),
    [
        ("tensor<4xf32>", None, (1e-4, 1e-5)),
        ("tensor<4xf32>", {"float32": {"rtol": 1e-3}}, (1e-3, 1e-5)),
        ("tensor<4xbf16>", {"bfloat16": {"atol": 0.0}}, (2e-2, 0.0)),
        ("f64", {"float32": {"rtol": 1.0}}, (1e-9, 1e-12)),
        ("tensor<4xui8>", {"uint8": {"atol": 1.0}}, (0.0, 1.0)),
    ],
)
def test_what_a_tolerance_leaves_out_is_the_default(type_: str, tolerance: object, bounds: tuple[float, float]) -> None:
    check = Check.model_validate({"expected": ["1"], "tolerance": tolerance})
    assert _tolerance(check, Type(type_)) == dict(zip(("rtol", "atol"), bounds, strict=True))


@pytest.mark.parametrize(
    ("text", "said"),
    [("float32=1e-3", {"rtol": 1e-3, "atol": None}), ("float32=1e-3,0", {"rtol": 1e-3, "atol": 0.0})],
)
def test_a_tolerance_of_the_command_line(text: str, said: dict[str, float | None]) -> None:
    (check,) = ValidateArguments([Path("a.vmfb")], expected=["1"], tolerance=[text]).checks()
    assert check.tolerance is not None
    assert check.tolerance["float32"].model_dump() == said


def test_function_must_be_named_where_there_are_two() -> None:
    module = open_module(DATA / "ident.vmfb")
    with pytest.raises(ModuleError) as caught:
        read_benchmarks([(module, Benchmark(inputs=("4xf32=1",)), Path())])
    assert "it exports 2 functions; name one: main, second" in caught.value.details[0]


def job(folder: Path, **changes: Any) -> Path:
    document = {
        "version": 1,
        "modules": [{"input": "matmul.mlir", "benchmark": {"inputs": list(ARGUMENTS)}}],
        **changes,
    }
    path = folder / "job.json"
    path.write_text(json.dumps(document))
    return path


def test_job_finds_its_modules(tmp_path: Path) -> None:
    recorded(tmp_path / "out")
    recorded(tmp_path / "out", name="other")
    (request,) = requests_of_job(load(job(tmp_path), "job.json"), None, ())
    assert (request.module.title, request.folder) == ("matmul.cpu-x86-64-v3", tmp_path)
    assert request.benchmark is not None
    with pytest.raises(UsageError, match="no module matches"):
        requests_of_job(load(job(tmp_path), "job.json"), None, ("cuda*",))
    with pytest.raises(UsageError, match="no module of the job matches other"):
        requests_of_job(load(job(tmp_path), "job.json"), None, ("other*",))
    with pytest.raises(ModuleError, match="not compiled: third"):
        requests_of_job(load(job(tmp_path, modules=[{"input": "third.mlir"}]), "job.json"), None, ())
    with pytest.raises(ModuleError, match="does not exist"):
        requests_of_job(load(job(tmp_path), "job.json"), tmp_path / "elsewhere", ())
    with pytest.raises(ModuleError) as caught:
        load(job(tmp_path, modules=[{"inptu": "x"}], extra=1), "job.json")
    told = " ".join(caught.value.details)
    assert all(f"{place}: " in told for place in ("modules[0].inptu", "extra"))


def test_an_entry_is_for_its_own_targets(tmp_path: Path) -> None:
    targets(tmp_path / "out")
    common = ["cpu:x86-64-v4", "cuda:a100"]
    modules = [
        {"input": "matmul.mlir", "targets": ["cpu:generic"], "checks": [{"inputs": [], "expected": ["2.0"]}]},
        {"input": "matmul.mlir", "targets": ["cpu:x86-64-v3"], "benchmark": {"cores": "1"}},
        {"input": "matmul.mlir", "checks": [{"inputs": [], "expected": ["2.718"]}]},
    ]
    loaded = load(job(tmp_path, targets=common, modules=modules), "job.json")

    def shown(requests: list[Request]) -> dict[str, str]:
        said = lambda item: item.benchmark.cores if item.benchmark else item.checks[0].expected[0]  # noqa: E731
        return {item.module.target.name: said(item) for item in requests}

    own = {"cpu:generic": "2.0", "cpu:x86-64-v3": "1", "cpu:x86-64-v4": "2.718", "cuda:a100": "2.718"}
    assert shown(requests_of_job(loaded, None, ())) == own
    # What `compile --target` compiled in place of the targets of the job.
    others = {"cpu:aarch64": "2.718", "vulkan:ampere": "2.718"}
    assert shown(requests_of(loaded, find_modules([tmp_path / "out"]))) == own | others


@pytest.mark.parametrize(
    ("changes", "only", "said"),
    [
        ({}, (), ""),
        ({"targets": ["cpu:x86-64-v3", "metal"]}, (), "not compiled: matmul.metal"),
        ({"targets": ["cpu:x86-64-v3", "metal"]}, ("*.cpu-*",), ""),
        ({"targets": ["cpu:x86-64-v3", "cuda:sm_80"]}, ("matmul.c*",), "not compiled: matmul.cuda-sm_80"),
        ({"compiler": "3.12.0"}, (), "compiled by release 3.13.0, and the job names 3.12.0"),
        ({"modules": [{"input": "matmul.mlir", "flags": ["--iree-opt-level=O3"]}]}, (), "compiled with other flags"),
        ({"modules": [{"input": "other.mlir", "name": "matmul"}]}, (), "compiled from another other.mlir"),
        ({"modules": [{"input": "none.mlir", "name": "matmul"}]}, (), ""),
        ({"modules": [{"input": "out", "name": "matmul"}]}, (), "out cannot be read: not a regular file"),
    ],
)
def test_a_job_takes_only_what_it_would_compile_now(
    changes: dict[str, Any], only: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    for name in ("matmul", "other"):
        (tmp_path / f"{name}.mlir").write_text(name)
    digest = hashlib.sha256(b"matmul").hexdigest()
    recorded(tmp_path / "out", input={"name": "matmul.mlir", "sha256": digest, "size": 6})
    # A target that the job no longer has.
    recorded(tmp_path / "out", "matmul.cuda", target={**CUDA, "name": "cuda:a100"})
    loaded = load(job(tmp_path, **{"targets": ["cpu:x86-64-v3"], **changes}), "job.json")
    with pytest.raises(ModuleError) if said else nullcontext() as caught:
        (request,) = requests_of_job(loaded, None, only)
        assert request.module.title == "matmul.cpu-x86-64-v3"
    assert said in (" ".join([str(caught.value), *caught.value.details]) if caught else "")


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=300), st.sampled_from([0.5, 0.9, 0.99]))
def test_percentile_is_the_smallest_that_bounds_its_part(times: list[float], part: float) -> None:
    found = percentile(times, part)
    assert sum(time <= found for time in times) >= part * len(times)
    assert sum(time < found for time in times) < part * len(times)


def measured(tmp_path: Path, times: list[float], before: Measurement | None = None, machine: str = "m") -> Measurement:
    (subject,) = read_benchmarks([(open_module(recorded(tmp_path)), Benchmark(inputs=ARGUMENTS), tmp_path)])
    old = baseline_of([before]).benchmarks[0] if before else None
    return _compared(subject.module, subject, times, machine, old)


def test_regression_is_beyond_the_threshold(tmp_path: Path) -> None:
    first = measured(tmp_path, [1.0, 2.0, 3.0])
    assert first.record is not None
    assert (first.record.p50, first.record.p99, first.record.throughput) == (2.0, 3.0, 0.5)
    assert conclusion([first]) is None
    just = measured(tmp_path, [2.2], first)
    slower = measured(tmp_path, [2.21], first)
    other = measured(tmp_path, [9.0], first, machine="n")
    unnamed = measured(tmp_path, [9.0], measured(tmp_path, [1.0], machine=""), machine="")
    assert [item.record.regression for item in (just, slower, other, unnamed) if item.record] == [
        False,
        True,
        *[False] * 2,
    ]
    assert "the machine 'm', now 'n'" in other.reason
    assert "the machine has no name" in unnamed.reason
    assert isinstance(conclusion([just, slower]), RegressionError)
    assert isinstance(conclusion([replace(slower, record=None, failed=True)]), BakeError)
    (tmp_path / "base.json").write_text(
        baseline_of([slower, replace(just, record=None)]).model_dump_json(by_alias=True)
    )
    (figure,) = read_baseline(tmp_path / "base.json").values()
    assert (figure.record.baseline, figure.record.regression) == (None, False)
    (tmp_path / "base.json").write_text("{}")
    with pytest.raises(UsageError, match="is not a baseline"):
        read_baseline(tmp_path / "base.json")


def test_a_baseline_is_of_its_own_modules_only(tmp_path: Path) -> None:
    """Both files know both modules."""
    requests = []
    for number, name in enumerate(("a", "b", "c"), 1):
        module = open_module(recorded(tmp_path, name=name))
        settings = Benchmark(inputs=ARGUMENTS, baseline=f"{name}.json" if name < "c" else None)
        requests.append(Request(module, (), settings, tmp_path))
        other = tuple(Measured(module=f"{item}.cpu-x86-64-v3", record=figures_of(number)) for item in "abc")
        (tmp_path / f"{name}.json").write_text(Baseline(version=1, benchmarks=other).model_dump_json(by_alias=True))
    found = {title: item.record.p50 for title, item in _baselines(requests, None).items()}
    assert found == {"a.cpu-x86-64-v3": 1, "b.cpu-x86-64-v3": 2}
    assert [item.record.p50 for item in _baselines(requests, tmp_path / "c.json").values()] == [3, 3, 3]


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        ("processor\t: 0\nmodel name\t: Some  CPU: 3 GHz\nmodel name\t: Some  CPU\n", "Some CPU: 3 GHz"),
        (
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU part\t: 1\n",
            "0x41 0xd0c",
        ),
        ("processor\t: 0\n", ""),
    ],
)
def test_the_machine_has_the_name_of_its_cpu(cpuinfo: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    command = f"{_MACHINE.replace('/proc/cpuinfo', 'cpuinfo')} > machine; exit 0"
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    assert _machine(ProgramResult(0, timed_out=False, files={"machine": tmp_path / "machine"}, log="")) == name


@pytest.mark.parametrize("release", facts.iree_releases(), ids=lambda release: release.version)
def test_requirements_of_every_known_release_have_hashes(release: facts.IreeRelease) -> None:
    lines = [
        line for line in facts.iree_requirements(release.runtime).replace("\\\n", "").splitlines() if line[:1] != "#"
    ]
    parsed = [Requirement(line.partition("--hash")[0].strip()) for line in lines]
    assert {item.name for item in parsed} == {"iree-base-runtime", "ml-dtypes", "numpy"}
    assert f"iree-base-runtime=={release.runtime}" in {str(item) for item in parsed}
    for item, line in zip(parsed, lines, strict=True):
        assert re.fullmatch(r"==[0-9.]+", str(item.specifier))
        assert re.search(r"(?: +--hash=sha256:[0-9a-f]{64}){8,}$", line)
    # Each Python gets exactly one version of each.
    for python in ("3.10.1", "3.11.2", "3.12.0", "3.13.5", "3.14.0"):
        environment = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
        named = [item.name for item in parsed if item.marker is None or item.marker.evaluate(environment)]
        assert sorted(named) == ["iree-base-runtime", "ml-dtypes", "numpy"]
    assert facts.iree_requirements("0.0.1") == ""


def test_bundle_is_the_same_twice_and_complete(tmp_path: Path) -> None:
    targets(tmp_path / "out")
    modules = find_modules([tmp_path / "out"])
    for name in ("a", "b"):
        bundle(modules, tmp_path / name / "kit.tar")
    first, second = ((tmp_path / name / "kit.tar").read_bytes() for name in ("a", "b"))
    assert first == second
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["kit.tar"]
    bundle(modules, tmp_path / "kit")
    with tarfile.open(tmp_path / "a" / "kit.tar") as archive:
        packed = {member.name for member in archive}
    assert packed == {str(path.relative_to(tmp_path)) for path in (tmp_path / "kit").rglob("*") if path.is_file()}
    assert (tmp_path / "kit" / "requirements.txt").read_text() == facts.iree_requirements("3.13.0")
    with pytest.raises(UsageError, match="exists"):
        bundle(modules, tmp_path / "kit")
    recorded(tmp_path / "more")
    with pytest.raises(ModuleError, match=r"two modules have the file name matmul\.cpu-x86-64-v3\.vmfb") as caught:
        bundle(find_modules([tmp_path / "out", tmp_path / "more"]), tmp_path / "twice.tar")
    assert len(caught.value.details) == 2
    write_record(modules[0], benchmark=measured(tmp_path / "other", [1.0]).record)
    bundle(find_modules([tmp_path / "out"]), tmp_path / "b" / "kit.tar")
    assert (tmp_path / "b" / "kit.tar").read_bytes() == first
    with pytest.raises(ModuleError, match="without a record"):
        bundle([open_module(DATA / "ident.vmfb")], tmp_path / "other.tar")


def test_a_bundle_has_the_validation_that_it_was_made_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path / "out")

    def validated(requests: list[Request], *_: object) -> list[Verdict]:
        write_record(requests[0].module, validation=ValidationRecord(status="passed"))
        return []

    monkeypatch.setattr(modules_command, "run_validation", validated)
    done = CliRunner().invoke(app, ["validate", str(tmp_path / "out"), "--bundle", str(tmp_path / "kit")])
    assert done.exit_code == 0, done.exception
    record = json.loads((tmp_path / "kit" / "modules" / "matmul.cpu-x86-64-v3.json").read_text())
    assert record["validation"]["status"] == "passed"


HERE = {"machine": "x86_64", "level": 3, "cuda": 0, "amd": [], "macos": False}


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        ({}, ["cpu:x86-64-v3", "cpu:generic"]),
        ({"level": 4}, ["cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:generic"]),
        ({"level": 1}, ["cpu:generic"]),
        ({"cuda": 90}, ["cuda:a100", "cpu:x86-64-v3", "cpu:generic"]),
        ({"cuda": 75}, ["cpu:x86-64-v3", "cpu:generic"]),
        ({"machine": "aarch64", "level": 0}, ["cpu:aarch64"]),
        ({"machine": "riscv64", "level": 0}, []),
    ],
)
def test_loader_takes_what_suits(changes: dict[str, Any], order: list[str], tmp_path: Path) -> None:
    targets(tmp_path / "out")
    bundle(find_modules([tmp_path / "out"]), tmp_path / "kit")
    program = runpy.run_path(str(tmp_path / "kit" / "run.py"))
    modules = json.loads((tmp_path / "kit" / "manifest.json").read_text())["modules"]
    scored = [(program["score"](module, {**HERE, **changes}), module["target"]) for module in modules]
    assert [target for rank, target in sorted(scored, key=str, reverse=True) if rank] == order
