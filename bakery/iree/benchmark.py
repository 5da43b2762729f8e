"""Measures compiled modules: one after the other, each alone in a container that is held to some cores.

iree-benchmark-module makes one call in each of its repetitions, so that percentiles are those of calls. The first ones
do not count. Nothing is cached: a figure is always of now.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery.core.errors import BakeError, BakeryError, ModuleError, RegressionError
from bakery.iree.call_args import Call, read_call
from bakery.iree.devices import Place, Surface
from bakery.iree.limits import limits_for
from bakery.iree.models.baseline import Baseline, Measured
from bakery.iree.models.job import Benchmark
from bakery.iree.models.module import BenchmarkRecord
from bakery.iree.modules import Compiled, inspect
from bakery.iree.npy import DataError
from bakery.iree.sandbox import Ran, Sandbox

REPETITIONS = 100
WARMUP = 10
THRESHOLD = 0.1
"""What holds where nobody says otherwise: a tenth slower is a regression."""

SECONDS = 600
"""What one measurement may take."""

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_RESULT = "measured.json"


@dataclass(frozen=True, slots=True)
class Subject:
    """A module and how it is measured.

    Attributes:
        threshold: how much slower than the baseline is a regression.
    """

    module: Compiled
    call: Call
    repetitions: int
    warmup: int
    cores: str
    threshold: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured of a module.

    Attributes:
        record: None where it was not run.
        reason: why it was not run, or not compared with a baseline.
        failed: it should have run.
    """

    module: Compiled
    record: BenchmarkRecord | None
    reason: str = ""
    failed: bool = False


def read_subjects(modules: Iterable[tuple[Compiled, Benchmark, Path]]) -> list[Subject]:
    """Read how modules are measured, before an engine is touched.

    Args:
        modules: each with its benchmark, and the folder that its paths are relative to.

    Raises:
        ModuleError: a call does not fit its function; all of them are listed.
    """
    subjects, problems = [], []
    for module, asked, folder in modules:
        try:
            call = read_call(module, asked.function, asked.inputs, folder, "in/0")
        except DataError as error:
            problems += [f"{module.title}: benchmark: {line}" for line in str(error).splitlines()]
            continue
        subjects.append(
            Subject(
                module,
                call,
                REPETITIONS if asked.repetitions is None else asked.repetitions,
                WARMUP if asked.warmup is None else asked.warmup,
                asked.cores or "",
                THRESHOLD if asked.threshold is None else asked.threshold,
            )
        )
    if problems:
        raise ModuleError("benchmarks do not fit their modules", details=list(dict.fromkeys(problems)))
    return subjects


def measure(
    subjects: Sequence[Subject],
    box: Sandbox,
    surface: Surface,
    baseline: Mapping[str, Measured],
    told: Callable[[Measurement], None] = lambda measurement: None,
) -> list[Measurement]:
    """Measure modules, one after the other.

    Args:
        baseline: module's title → an earlier figure.
        told: is given each measurement as it is taken.

    Raises:
        EngineError: a container cannot be run.
        UnavailableError: an image cannot be had.
    """
    found = []
    for subject in subjects:
        found.append(_measure(subject, box, surface, baseline.get(subject.module.title)))
        told(found[-1])
    return found


def _measure(subject: Subject, box: Sandbox, surface: Surface, before: Measured | None) -> Measurement:
    module = subject.module
    _, wrong = inspect(module)
    if wrong:
        return Measurement(module, None, "; ".join(wrong), failed=True)
    place = surface.place(module.target)
    if not place.image:
        return Measurement(module, None, place.reason)
    if place.emulated:
        return Measurement(module, None, "an emulated machine's times are nobody's")
    ran = _run(subject, box, place)
    times = _times(ran)
    if ran.code or len(times) != subject.repetitions + subject.warmup:
        said = [line for line in ran.log.strip().splitlines() if ": " in line][-1:] or ran.log.strip().splitlines()[-1:]
        why = f"it took longer than {SECONDS} s" if ran.timed_out else " ".join(said)[:500]
        return Measurement(module, None, f"iree-benchmark-module failed ({ran.code}): {why}", failed=True)
    return _compared(module, subject, times[subject.warmup :], _machine(ran), before)


def _run(subject: Subject, box: Sandbox, place: Place) -> Ran:
    files: dict[str, Path | bytes] = {"module.vmfb": subject.module.path, **subject.call.files}
    argv = ["iree-benchmark-module", "--module=module.vmfb", f"--device={subject.module.target.device}"]
    argv += [f"--function={subject.call.function.name}", *subject.call.words]
    argv += [f"--benchmark_repetitions={subject.repetitions + subject.warmup}", "--benchmark_min_time=1x"]
    argv += [f"--benchmark_out=out/{_RESULT}", "--benchmark_out_format=json", "--benchmark_format=csv"]
    # Its progress goes nowhere; the machine's name comes first, for the record.
    command = 'grep -m 1 "model name" /proc/cpuinfo > out/machine; exec "$@" > /dev/null'
    return box.run(
        place.image,
        ["sh", "-c", command, "sh", *argv],
        files,
        wanted=(_RESULT, "machine"),
        limits=limits_for(files, SECONDS, cores=subject.cores),
        platform=place.platform,
        gpus=place.gpus,
    )


def _times(ran: Ran) -> list[float]:
    """Return the seconds of each call, in order; nothing where the container told none."""
    try:
        found = json.loads(ran.out[_RESULT].read_bytes())["benchmarks"]
        times = [item["real_time"] * _UNITS[item["time_unit"]] for item in found if item["run_type"] == "iteration"]
    except (KeyError, OSError, OverflowError, RecursionError, TypeError, ValueError):
        return []
    return times if all(isinstance(time, float) and math.isfinite(time) and time > 0 for time in times) else []


def _machine(ran: Ran) -> str:
    """Return the CPU's name."""
    try:
        line = ran.out["machine"].read_text(errors="replace")
    except (KeyError, OSError):
        return ""
    return " ".join(line.partition(":")[2].split())[:200]


def percentile(times: Sequence[float], part: float) -> float:
    """Return a percentile by the nearest rank: the smallest time that at least that part of all do not exceed."""
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
    if differences:
        return Measurement(module, record, f"the baseline is of something else: {'; '.join(differences)}")
    slower = record.p50 > before.record.p50 * (1 + subject.threshold)
    return Measurement(module, record.model_copy(update={"baseline": before.record.p50, "regression": slower}))


def baseline_of(measurements: Iterable[Measurement]) -> Baseline:
    """Return what a later run compares with."""
    found = [
        Measured(
            module=item.module.title, record=item.record.model_copy(update={"baseline": None, "regression": False})
        )
        for item in measurements
        if item.record
    ]
    return Baseline(version=1, benchmarks=tuple(found))


def conclusion(measurements: Sequence[Measurement]) -> BakeryError | None:
    """Return the failure that measurements amount to; None where nothing failed and nothing became slower."""
    bad = [f"{item.module.title}: {item.reason}" for item in measurements if item.failed]
    if bad:
        return BakeError(f"{len(bad)} of {len(measurements)} modules cannot be measured", details=bad)
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
        hint="measure again on a quiet machine; where that is how it is now, --save-baseline",
    )
