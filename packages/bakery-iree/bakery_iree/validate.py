"""Validates compiled modules: inspects each one, and runs it and compares its results if its device is available."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bakery.core.errors import BakeryError
from bakery_iree.call_args import Case, read_case
from bakery_iree.check_runs import Pending, Reference, call_references, compare, run_cases
from bakery_iree.devices import Device, Devices
from bakery_iree.errors import ModuleError, WrongResultError
from bakery_iree.models.job import Check
from bakery_iree.models.module import CheckRecord, ValidationRecord
from bakery_iree.modules import Compiled, inspect
from bakery_iree.npy import Array, DataError, Value
from bakery_iree.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Subject:
    """A module and its checks."""

    module: Compiled
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of validating a module."""

    module: Compiled
    record: ValidationRecord


def read_subjects(modules: Iterable[tuple[Compiled, Sequence[Check], Path]]) -> list[Subject]:
    """Read the checks of modules: files, shapes and dtypes. Each comes with the folder that its paths are relative to.

    No engine is needed. Raises ModuleError with all problems if a check does not fit its module.
    """
    subjects, problems = [], []
    for module, checks, folder in modules:
        cases = []
        for index, check in enumerate(checks):
            try:
                cases.append(read_case(module, check, folder, index))
            except DataError as error:
                problems += [f"{module.title}: check {index}: {line}" for line in str(error).splitlines()]
        subjects.append(Subject(module, tuple(cases)))
    if problems:
        raise ModuleError("checks do not fit their modules", details=list(dict.fromkeys(problems)))
    return subjects


def validate(
    subjects: Sequence[Subject],
    sandbox: Sandbox,
    devices: Devices,
    *,
    parallel: int = 1,
    cores: str = "",
    on_verdict: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Validate modules, several in ``parallel``. ``on_verdict`` gets each verdict, in order, in the caller's thread.

    ``cores`` are the CPU cores that each container may use; empty for all. Raises EngineError if a container cannot be
    run, UnavailableError if an image is not available.
    """
    devices.prepare([subject.module for subject in subjects])
    runnable = [case for subject in subjects if devices.find(subject.module.target).image for case in subject.cases]
    references = call_references(runnable, sandbox, devices.tools_image()) if runnable else {}
    with ThreadPoolExecutor(max(1, parallel)) as pool:
        futures = [pool.submit(_validate, subject, sandbox, devices, references, cores) for subject in subjects]
        try:
            verdicts = []
            for future in futures:
                verdicts.append(future.result())
                on_verdict(verdicts[-1])
        except BaseException:
            for future in futures:
                future.cancel()
            sandbox.halt()
            raise
    return verdicts


def _validate(
    subject: Subject, sandbox: Sandbox, devices: Devices, references: Mapping[int, Reference], cores: str
) -> Verdict:
    module = subject.module
    inspected, wrong = inspect(module)
    if not wrong:
        more, wrong = devices.inspect(module, sandbox)
        inspected += more
    device = devices.find(module.target)
    status, reason, runtime = "not run", device.reason, ""
    checks = [_not_run(case, device.reason) for case in subject.cases]
    if wrong:
        status, reason = "failed", "; ".join(wrong)
        checks = [_not_run(case, "the inspection of the module failed") for case in subject.cases]
    elif not subject.cases:
        reason = device.reason or "there is no check: give inputs and expected results, here or in a job"
    elif device.image:
        checks, runtime = _run(subject, sandbox, devices, device, references, cores)
        status, reason = ("failed" if any(item.status == "failed" for item in checks) else "passed"), ""
    has_run = any(check.status != "not run" for check in checks)
    fields: dict[str, object] = {"status": status, "reason": reason, "inspected": inspected, "checks": checks}
    fields |= {"emulated": has_run and device.emulated, "runtime": runtime}
    return Verdict(module, ValidationRecord.model_validate(fields))


def _not_run(case: Case, reason: str) -> CheckRecord:
    return CheckRecord(function=case.call.function.name, status="not run", reason=reason)


def _run(
    subject: Subject,
    sandbox: Sandbox,
    devices: Devices,
    device: Device,
    references: Mapping[int, Reference],
    cores: str,
) -> tuple[list[CheckRecord], str]:
    """Run all checks of a module and compare the results; return the records and the version of the runtime."""
    run = run_cases(subject.module, subject.cases, sandbox, device, cores)
    failed: dict[int, CheckRecord] = {}
    pending: list[Pending] = []
    for index, (case, problem) in enumerate(zip(subject.cases, run.problems, strict=True)):
        reference = references.get(id(case.check), Reference())
        reason = problem or reference.problem
        if reason:
            failed[index] = CheckRecord(function=case.call.function.name, status="failed", reason=reason)
        else:
            pending.append((case, reference.files if case.expected is None else tuple(map(_content, case.expected))))
    compared = iter(compare(pending, run.files, sandbox, devices.tools_image()))
    return [failed.get(index) or next(compared) for index in range(len(subject.cases))], run.runtime


def _content(value: Value) -> Path | bytes:
    # A number that is no tensor is compared as a tensor without dimensions.
    return value.content if isinstance(value, Array) else value.source.encode()


def conclusion(verdicts: Sequence[Verdict], *, strict: bool = False) -> BakeryError | None:
    """Return the failure of a validation; None if nothing failed."""
    failures = ("failed", "not run") if strict else ("failed",)
    failed = [item for item in verdicts if item.record.status in failures]
    if not failed:
        return None
    return WrongResultError(
        f"{len(failed)} of {len(verdicts)} modules {'did not pass' if strict else 'failed'}",
        details=[line for item in failed for line in _lines(item)],
        hint='to allow larger differences, set the tolerance of the dtype in the check: "tolerance": {"float32": {"rtol": 1e-3}}'
        if any(check.errors for item in failed for check in item.record.checks)
        else "",
    )


def _lines(verdict: Verdict) -> list[str]:
    title, record = verdict.module.title, verdict.record
    checks = [
        f"{title}: check {index} (@{check.function}): {check.status}: {check.reason}"
        for index, check in enumerate(record.checks)
        if check.status == "failed"
    ]
    return checks or [f"{title}: {record.status}: {record.reason}"]
