"""Runs checks: the functions of a module with iree-run-module, the user's references, and the comparison of their results.

Each of the three has its own container, so that no program can forge the results of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery.core.errors import EngineError
from bakery.plan.values import Json
from bakery_iree.call_args import Case
from bakery_iree.devices import Device
from bakery_iree.mlir import Type
from bakery_iree.models.job import Check, Tolerance
from bakery_iree.models.module import CheckRecord, ErrorRecord
from bakery_iree.modules import Compiled
from bakery_iree.npy import ELEMENTS, Scalar
from bakery_iree.sandbox import CALL_S, ProgramResult, Sandbox

_ILLEGAL = "ended by SIGILL: this machine's CPU lacks instructions that the module uses"
_KILLED = "killed: it needs more memory than the container's limit"

SIGNALS = {-4: _ILLEGAL, 132: _ILLEGAL, -9: _KILLED, 137: _KILLED}
"""Exit code → reason. Python reports a signal as a negative number, a shell as 128 plus the number."""

_Ended = tuple[int | None, str]
"""A program's exit code, None if it exceeded its time limit; and the end of its output."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The results of a module's checks.

    ``problems`` has one text for each check: why it has no results, or empty. ``runtime`` is the version of iree-base-runtime.
    """

    problems: tuple[str, ...]
    files: Mapping[str, Path]
    runtime: str


def run_cases(module: Compiled, cases: Sequence[Case], sandbox: Sandbox, device: Device, cores: str) -> RunResult:
    """Run the checks of a module, in order. Raises EngineError if the container cannot be run."""
    files: dict[str, Path | bytes] = {"module.vmfb": module.path}
    calls: list[Json] = []
    for case in cases:
        files |= case.call.files
        argv = ["iree-run-module", "--module=module.vmfb", f"--device={module.target.device}"]
        argv += [f"--function={case.call.function.name}", *case.call.words]
        argv += [f"--output=@out/{name}" for name in case.results]
        calls.append({"argv": list[Json](argv), "seconds": CALL_S})
    result = sandbox.run_program(
        device.image,
        "module_calls.py",
        calls,
        files,
        outputs=[name for case in cases for name in case.results],
        seconds=CALL_S * len(calls) + 30,
        cores=cores,
        platform=device.platform,
        gpus=device.gpus,
    )
    calls_ended, runtime = _read_ended(result, len(cases))
    problems = []
    for case, (code, log) in zip(cases, calls_ended, strict=True):
        problem = _problem(code, log, timed_out=result.timed_out)
        is_lost = not problem and any(name not in result.files for name in case.results)
        problems.append("it wrote no result" if is_lost else problem)
    return RunResult(tuple(problems), result.files, runtime)


def _read_ended(result: ProgramResult, count: int) -> tuple[list[_Ended], str]:
    """Read from the untrusted output how each call ended, and the version of the runtime; a missing call has failed."""
    failed: list[_Ended] = [(result.code or 1, result.log[-2000:])] * count
    try:
        document = result.answer(count)
        ended: list[_Ended] = [(item["code"], str(item["log"])) for item in document["calls"]]
        runtime = str(document["runtime"])[:40]
    except (OSError, ValueError, KeyError, TypeError):
        return failed, ""
    is_valid = len(ended) == count and all(code is None or type(code) is int for code, _ in ended)
    return (ended, runtime) if is_valid else (failed, "")


def _problem(code: int | None, log: str, *, timed_out: bool) -> str:
    """Return why a call has no results, in one line; empty if it has."""
    if code == 0:
        return ""
    if code is None or timed_out:
        return f"it took longer than {CALL_S} s"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for line in lines:
        if "INCOMPATIBLE" in line:
            return f"INCOMPATIBLE: this machine cannot run it: {line[:300]}"
    if code < 0 or code in SIGNALS:
        return SIGNALS.get(code) or f"iree-run-module was ended by signal {-code}"
    last = next((line for line in reversed(lines) if ": " in line), lines[-1] if lines else "no output")
    return f"iree-run-module failed ({code}): {last[:500]}"


@dataclass(frozen=True, slots=True)
class Reference:
    """The results of a reference, one file each; or why there are none."""

    files: tuple[Path, ...] = ()
    problem: str = ""


def call_references(cases: Iterable[Case], sandbox: Sandbox, image: str) -> dict[int, Reference]:
    """Run the references of all checks, each once for all targets, in one container for each Python file.

    The cases of one check of a job share its `Check`; the result maps its `id` to the results. Raises EngineError if a
    container cannot be run.
    """
    cases_by_file: dict[Path, dict[int, Case]] = {}
    for case in cases:
        if case.check.reference is not None:
            file = case.folder / case.check.reference.rpartition(":")[0]
            cases_by_file.setdefault(file, {}).setdefault(id(case.check), case)
    references: dict[int, Reference] = {}
    for file, group in cases_by_file.items():
        references |= _call(file, group, sandbox, image)
    return references


def _call(file: Path, cases: Mapping[int, Case], sandbox: Sandbox, image: str) -> dict[int, Reference]:
    files: dict[str, Path | bytes] = {"reference.py": file}
    calls: list[Json] = []
    names: list[tuple[str, ...]] = []
    for number, case in enumerate(cases.values()):
        arguments: list[Json] = []
        for index, value in enumerate(case.call.arguments):
            if isinstance(value, Scalar):
                arguments.append({"number": value.source})
            else:
                path = f"in/{number}.{index}.npy"
                files[path] = value.content
                arguments.append({"npy": path, "dtype": value.dtype})
        results = tuple(f"{number}.{index}.npy" for index in range(len(case.types)))
        assert case.check.reference is not None
        names.append(results)
        calls.append(
            {
                "file": "reference.py",
                "function": case.check.reference.rpartition(":")[2],
                "arguments": arguments,
                "results": [f"out/{name}" for name in results],
            }
        )
    outputs = [name for group in names for name in group]
    result = sandbox.run_program(image, "module_reference.py", calls, files, outputs=outputs, options=())
    references = {}
    for key, results, problem in zip(cases, names, _read_problems(result, len(calls)), strict=True):
        if problem or any(name not in result.files for name in results):
            references[key] = Reference(problem=f"the reference failed: {problem or 'it wrote no result'}")
        else:
            references[key] = Reference(tuple(result.files[name] for name in results))
    return references


def _read_problems(result: ProgramResult, count: int) -> list[str]:
    """Read from the untrusted output why each call failed; empty for each call that did not."""
    if result.timed_out:
        return [f"it took longer than {CALL_S} s"] * count
    try:
        problems = result.answer(count)
        if isinstance(problems, list) and len(problems) == count:
            return [str(item).strip().replace("\n", " | ") for item in problems]
    except (KeyError, OSError, ValueError):
        pass
    return [" | ".join(result.log.strip().splitlines()[-4:]) or f"exit code {result.code}"] * count


Pending = tuple[Case, tuple[Path | bytes, ...]]
"""A check that ran, and each of its expected results: a ``.npy`` file, or the text of a number."""

TOLERANCES: Mapping[str, Tolerance] = {
    "float64": Tolerance(rtol=1e-9, atol=1e-12),
    "float32": Tolerance(rtol=1e-4, atol=1e-5),
    "float16": Tolerance(rtol=1e-2, atol=1e-3),
    "bfloat16": Tolerance(rtol=2e-2, atol=1e-2),
    "complex64": Tolerance(rtol=1e-4, atol=1e-5),
    "complex128": Tolerance(rtol=1e-9, atol=1e-12),
}
"""Default tolerances; integers and booleans must be equal.

They are wider than NumPy's because compilers reorder sums: about a thousand roundings of the type.
"""


def compare(pending: Sequence[Pending], results: Mapping[str, Path], sandbox: Sandbox, image: str) -> list[CheckRecord]:
    """Compare results in a container that runs nothing else. Return one record for each check, in order.

    ``results`` is name → file with a result; ``image`` has Python and NumPy, for the engine's own platform. Raises
    EngineError if the container cannot be run, or fails.
    """
    files: dict[str, Path | bytes] = {}
    pairs: list[Json] = []
    for case, expected in pending:
        for name, type_, content in zip(case.results, case.types, expected, strict=True):
            files[f"got/{name}"] = results[name]
            shape: list[Json] = [size for size in type_.shape or () if size is not None]
            pair: dict[str, Json] = {"got": f"got/{name}", "dtype": _dtype(type_), **_tolerance(case.check, type_)}
            pair["shape"] = shape if name.endswith(".bin") else None
            if isinstance(content, bytes) and not content.startswith(b"\x93NUMPY"):
                pair["expected"] = {"number": content.decode()}
            else:
                files[f"expected/{name}"] = content
                pair["expected"] = f"expected/{name}"
            pairs.append(pair)
    if not pairs:
        return [CheckRecord(function=case.call.function.name, status="passed") for case, _ in pending]
    result = sandbox.run_program(image, "module_compare.py", pairs, files)
    return _read_records(result, [case for case, _ in pending])


def _tolerance(check: Check, type_: Type) -> dict[str, float]:
    """Return the bounds for a result: those of the check, and the defaults of the dtype for what that leaves out."""
    bounds: dict[str, float] = {"rtol": 0.0, "atol": 0.0}
    for name, tolerance in (*TOLERANCES.items(), *(check.tolerance or {}).items()):
        bounds |= tolerance.model_dump(exclude_none=True) if name == _dtype(type_) else {}
    return bounds


def _read_records(result: ProgramResult, cases: Sequence[Case]) -> list[CheckRecord]:
    """Read from the untrusted output how the results of each check differ. Raises EngineError."""
    try:
        if not result.code:
            differences = iter(result.answer(sum(len(case.types) for case in cases)))
            return [_record(case, differences) for case in cases]
    except (KeyError, OSError, TypeError, ValueError, StopIteration):
        pass
    raise EngineError("results cannot be compared", details=result.log.splitlines()[-8:])


def _record(case: Case, differences: Iterator[Mapping[str, Json]]) -> CheckRecord:
    errors, reasons = [], []
    for index, type_ in enumerate(case.types):
        item = next(differences)
        if item["problem"]:
            reasons.append(f"result {index}: {item['problem']}")
            continue
        fields = {key: item[key] for key in ("absolute", "relative", "at", "got", "expected", "beyond", "elements")}
        error = ErrorRecord.model_validate({"result": index, "dtype": _dtype(type_) or "other", **fields})
        errors.append(error)
        if error.beyond:
            reasons.append(_reason(error))
    status = "failed" if reasons else "passed"
    return CheckRecord.model_validate(
        {"function": case.call.function.name, "status": status, "reason": "; ".join(reasons), "errors": errors}
    )


def _reason(error: ErrorRecord) -> str:
    at = f" at [{', '.join(map(str, error.at))}]" if error.at else ""
    largest = "" if error.absolute is None else f"; largest error {error.absolute:.3g}"
    if error.relative is not None and error.absolute is not None:
        largest += f", relative {error.relative:.3g}"
    return (
        f"result {error.result}: {error.beyond} of {error.elements} elements are wrong: "
        f"expected {error.expected}{at}, got {error.got}{largest}"
    )


def _dtype(type_: Type) -> str:
    return ELEMENTS.get(type_.element.removeprefix("s"), "")
