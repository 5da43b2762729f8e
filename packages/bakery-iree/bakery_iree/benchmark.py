"""Benchmarks compiled modules: one after the other, each alone in a container that may be limited to some cores.

Each repetition of iree-benchmark-module makes one call, so percentiles are those of single calls. The first calls do not
count. Results are never cached.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bakery.core.errors import BakeError, BakeryError, UsageError
from bakery_iree.call_args import Call, read_call
from bakery_iree.devices import Device, Devices
from bakery_iree.errors import ModuleError, RegressionError
from bakery_iree.models.job import Benchmark
from bakery_iree.models.module import Baseline, BenchmarkRecord, Measured
from bakery_iree.modules import Compiled, inspect
from bakery_iree.npy import DataError
from bakery_iree.sandbox import RESULT, Limits, ProgramResult, Sandbox
from wheel_audit.plain_files import read_plain

REPETITIONS = 100
WARMUP = 10
THRESHOLD = 0.1
"""Default threshold: ten percent slower than the baseline is a regression."""

SECONDS = 600
"""Time limit of one benchmark."""

_MACHINE = '{ grep -m 1 "model name" /proc/cpuinfo || grep -m 2 -E "CPU (implementer|part)" /proc/cpuinfo; }'
"""Prints the name of the CPU. On ARM it has none, but numbers of its maker and its model."""

_LARGEST_LINE = 4096
_LARGEST_BASELINE = 4 << 20
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True)
class Subject:
    """A module and how to benchmark it. If it is slower than the baseline by more than ``threshold``, it is a regression."""

    module: Compiled
    call: Call
    repetitions: int
    warmup: int
    cores: str
    threshold: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """The outcome of benchmarking a module.

    Attributes:
        record: None if it did not run.
        reason: why it did not run, or was not compared with the baseline.
        failed: it should have run.
    """

    module: Compiled
    record: BenchmarkRecord | None
    reason: str = ""
    failed: bool = False


def read_subjects(modules: Iterable[tuple[Compiled, Benchmark, Path]]) -> list[Subject]:
    """Read the benchmarks of modules; each comes with the folder that its paths are relative to. No engine is needed.

    Raises ModuleError with all problems if a call does not fit its function.
    """
    subjects, problems = [], []
    for module, settings, folder in modules:
        try:
            call = read_call(module, settings.function, settings.inputs, folder, "in/0")
        except DataError as error:
            problems += [f"{module.title}: benchmark: {line}" for line in str(error).splitlines()]
            continue
        subjects.append(
            Subject(
                module,
                call,
                REPETITIONS if settings.repetitions is None else settings.repetitions,
                WARMUP if settings.warmup is None else settings.warmup,
                settings.cores or "",
                THRESHOLD if settings.threshold is None else settings.threshold,
            )
        )
    if problems:
        raise ModuleError("benchmarks do not fit their modules", details=list(dict.fromkeys(problems)))
    return subjects


def measure(
    subjects: Sequence[Subject],
    sandbox: Sandbox,
    devices: Devices,
    baseline: Mapping[str, Measured],
    on_measurement: Callable[[Measurement], None] = lambda measurement: None,
) -> list[Measurement]:
    """Benchmark modules, one after the other, and call ``on_measurement`` with each result.

    ``baseline``: title of a module → its earlier measurement. Raises EngineError if a container cannot be run,
    UnavailableError if an image is not available.
    """
    measurements = []
    for subject in subjects:
        measurements.append(_measure(subject, sandbox, devices, baseline.get(subject.module.title)))
        on_measurement(measurements[-1])
    return measurements


def _measure(subject: Subject, sandbox: Sandbox, devices: Devices, before: Measured | None) -> Measurement:
    module = subject.module
    _, wrong = inspect(module)
    if wrong:
        return Measurement(module, None, "; ".join(wrong), failed=True)
    device = devices.find(module.target)
    if not device.image:
        return Measurement(module, None, device.reason)
    if device.emulated:
        return Measurement(module, None, "times of an emulated machine mean nothing")
    result = _run(subject, sandbox, device)
    repetitions = subject.repetitions + subject.warmup
    times = _times(result, repetitions)
    if result.code or len(times) != repetitions:
        lines = result.log.strip().splitlines()
        last = [line for line in lines if ": " in line][-1:] or lines[-1:]
        reason = f"it took longer than {SECONDS} s" if result.timed_out else " ".join(last)[:500]
        return Measurement(module, None, f"iree-benchmark-module failed ({result.code}): {reason}", failed=True)
    return _compared(module, subject, times[subject.warmup :], _machine(result), before)


def _run(subject: Subject, sandbox: Sandbox, device: Device) -> ProgramResult:
    files: dict[str, Path | bytes] = {"module.vmfb": subject.module.path, **subject.call.files}
    argv = ["iree-benchmark-module", "--module=module.vmfb", f"--device={subject.module.target.device}"]
    argv += [f"--function={subject.call.function.name}", *subject.call.words]
    argv += [f"--benchmark_repetitions={subject.repetitions + subject.warmup}", "--benchmark_min_time=1x"]
    argv += [f"--benchmark_out=out/{RESULT}", "--benchmark_out_format=json", "--benchmark_format=csv"]
    # The progress is discarded. The name of the CPU is for the record.
    command = _MACHINE + ' > out/machine; exec "$@" > /dev/null'
    return sandbox.run(
        device.image,
        ["sh", "-c", command, "sh", *argv],
        files,
        outputs=(RESULT, "machine"),
        limits=Limits.for_files(files, SECONDS, subject.cores),
        platform=device.platform,
        gpus=device.gpus,
    )


def _times(result: ProgramResult, repetitions: int = 0) -> list[float]:
    """Read the seconds of each call from the untrusted output, in order; nothing if it has none."""
    try:
        items = result.answer(repetitions)["benchmarks"]
        times = [item["real_time"] * _UNITS[item["time_unit"]] for item in items if item["run_type"] == "iteration"]
    except (KeyError, OSError, OverflowError, TypeError, ValueError):
        return []
    return times if all(isinstance(time, float) and math.isfinite(time) and time > 0 for time in times) else []


def _machine(result: ProgramResult) -> str:
    """Return the name of the CPU; empty if it is not known."""
    try:
        text = read_plain(result.files["machine"], _LARGEST_LINE).decode(errors="replace")
    except (KeyError, OSError):
        return ""
    return " ".join(word for line in text.splitlines() for word in line.partition(":")[2].split())[:200]


def percentile(times: Sequence[float], part: float) -> float:
    """Return a percentile by the nearest rank: the smallest time that at least the fraction ``part`` does not exceed."""
    ordered = sorted(times)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def _compared(
    module: Compiled, subject: Subject, times: Sequence[float], machine: str, before: Measured | None
) -> Measurement:
    record = BenchmarkRecord(
        function=subject.call.function.name,
        repetitions=len(times),
        warmup=subject.warmup,
        cores=subject.cores,
        machine=machine,
        p50=percentile(times, 0.5),
        p90=percentile(times, 0.9),
        p99=percentile(times, 0.99),
        mean=sum(times) / len(times),
        throughput=len(times) / sum(times),
    )
    if before is None:
        return Measurement(module, record)
    differences = [
        f"{name} {old!r}, now {new!r}"
        for name, old, new in (
            ("the machine", before.record.machine, machine),
            ("the function", before.record.function, record.function),
            ("the cores", before.record.cores, record.cores),
        )
        if old != new
    ]
    if not machine:
        differences.append("the machine has no name")
    if differences:
        return Measurement(module, record, f"the baseline is not comparable: {'; '.join(differences)}")
    slower = record.p50 > before.record.p50 * (1 + subject.threshold)
    return Measurement(module, record.model_copy(update={"baseline": before.record.p50, "regression": slower}))


def baseline_of(measurements: Iterable[Measurement]) -> Baseline:
    """Return the baseline for later runs."""
    benchmarks = tuple(
        Measured(
            module=item.module.title, record=item.record.model_copy(update={"baseline": None, "regression": False})
        )
        for item in measurements
        if item.record
    )
    return Baseline(version=1, benchmarks=benchmarks)


def read_baseline(path: Path) -> dict[str, Measured]:
    """Read a baseline: title of a module → its earlier measurement. Raises UsageError if the file cannot be read."""
    try:
        baseline = Baseline.model_validate_json(read_plain(path, _LARGEST_BASELINE, follow=True))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="write one with --save-baseline") from error
    except ValidationError as error:
        raise UsageError(
            f"{path} is not a baseline: {error.errors()[0]['msg']}", hint="write one with --save-baseline"
        ) from error
    return {item.module: item for item in baseline.benchmarks}


def conclusion(measurements: Sequence[Measurement]) -> BakeryError | None:
    """Return the failure of a benchmark run; None if nothing failed and nothing is slower."""
    failed = [f"{item.module.title}: {item.reason}" for item in measurements if item.failed]
    if failed:
        return BakeError(f"{len(failed)} of {len(measurements)} modules cannot be measured", details=failed)
    slower = [
        f"{item.module.title}: {item.record.p50 * 1e3:.4g} ms, {item.record.p50 / item.record.baseline:.2f} times the baseline"
        for item in measurements
        if item.record and item.record.regression and item.record.baseline
    ]
    if not slower:
        return None
    return RegressionError(
        f"{len(slower)} of {len(measurements)} modules are slower than their baseline",
        details=slower,
        hint="measure again on an idle machine; to accept the new times, use --save-baseline",
    )
