"""Validates compiled modules: each is opened, and where a machine for it is at hand, run and compared.

Three containers, so that none can speak for another: the module runs in one, a reference (a person's own Python) in the
next, and the results are compared in a third, which runs bakery's program alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bakery.core.errors import BakeryError, ModuleError, WrongResultError
from bakery.iree.call_args import Case, read_case
from bakery.iree.comparison import Pending, compare
from bakery.iree.devices import Place, Surface
from bakery.iree.models.job import Check
from bakery.iree.models.module import CheckRecord, ValidationRecord
from bakery.iree.modules import Compiled, inspect
from bakery.iree.npy import Array, DataError, Value
from bakery.iree.references import Reference, call_references
from bakery.iree.run_module import run_cases
from bakery.iree.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Subject:
    """A module and its checks."""

    module: Compiled
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What validation found of a module."""

    module: Compiled
    record: ValidationRecord


def read_subjects(modules: Iterable[tuple[Compiled, Sequence[Check], Path]]) -> list[Subject]:
    """Read the checks of modules: files, shapes and dtypes, before an engine is touched.

    Args:
        modules: each with its checks, and the folder that their paths are relative to.

    Raises:
        ModuleError: a check does not fit; all of them are listed.
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
    box: Sandbox,
    surface: Surface,
    *,
    parallel: int = 1,
    cores: str = "",
    told: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Validate modules.

    Args:
        surface: what modules can run on here.
        parallel: modules at a time.
        cores: those that each container is held to; empty for all.
        told: is given each verdict as it is reached, in any order, in the caller's thread.

    Raises:
        EngineError: a container cannot be run.
        UnavailableError: an image cannot be had.
    """
    surface.prepare([subject.module for subject in subjects])
    runnable = [case for subject in subjects if surface.place(subject.module.target).image for case in subject.cases]
    references = call_references(runnable, box, surface.tools()) if runnable else {}
    with ThreadPoolExecutor(max(1, parallel)) as pool:
        futures = [pool.submit(_validate, subject, box, surface, references, cores) for subject in subjects]
        try:
            verdicts = []
            for future in futures:
                verdicts.append(future.result())
                told(verdicts[-1])
        except BaseException:
            for future in futures:
                future.cancel()
            box.halt()
            raise
    return verdicts


def _validate(
    subject: Subject, box: Sandbox, surface: Surface, references: Mapping[int, Reference], cores: str
) -> Verdict:
    module = subject.module
    inspected, wrong = inspect(module)
    if not wrong:
        more, wrong = surface.inspect(module, box)
        inspected += more
    place = surface.place(module.target)
    status, reason, runtime = "not run", place.reason, ""
    checks = [_not_run(case, place.reason) for case in subject.cases]
    if wrong:
        status, reason = "failed", "; ".join(wrong)
        checks = [_not_run(case, "the module is not what it should be") for case in subject.cases]
    elif not subject.cases:
        reason = place.reason or "there is no check: name inputs and what is expected, here or in a job"
    elif place.image:
        checks, runtime = _run(subject, box, surface, place, references, cores)
        status, reason = ("failed" if any(item.status == "failed" for item in checks) else "passed"), ""
    ran = any(check.status != "not run" for check in checks)
    record = ValidationRecord.model_validate(
        {
            "status": status,
            "reason": reason,
            "inspected": inspected,
            "checks": checks,
            "emulated": ran and place.emulated,
            "runtime": runtime,
        }
    )
    return Verdict(module, record)


def _not_run(case: Case, reason: str) -> CheckRecord:
    return CheckRecord(function=case.call.function.name, status="not run", reason=reason)


def _run(
    subject: Subject, box: Sandbox, surface: Surface, place: Place, references: Mapping[int, Reference], cores: str
) -> tuple[list[CheckRecord], str]:
    """Run all checks of a module, and compare what it gave; return the version of the runtime, too."""
    trial = run_cases(subject.module, subject.cases, box, place, cores)
    failed: dict[int, CheckRecord] = {}
    pending: list[Pending] = []
    for index, (case, problem) in enumerate(zip(subject.cases, trial.problems, strict=True)):
        reference = references.get(id(case.check), Reference())
        reason = problem or reference.problem
        if reason:
            failed[index] = CheckRecord(function=case.call.function.name, status="failed", reason=reason)
        else:
            pending.append((case, reference.files if case.expected is None else tuple(map(_content, case.expected))))
    compared = iter(compare(pending, trial.results, box, surface.tools()))
    return [failed.get(index) or next(compared) for index in range(len(subject.cases))], trial.runtime


def _content(value: Value) -> Path | bytes:
    # A number that is no tensor is compared as a tensor without dimensions.
    return value.content if isinstance(value, Array) else value.source.encode()


def conclusion(verdicts: Sequence[Verdict], *, strict: bool = False) -> BakeryError | None:
    """Return the failure that verdicts amount to; None where nothing failed."""
    bad = [item for item in verdicts if item.record.status == "failed" or (strict and item.record.status != "passed")]
    if not bad:
        return None
    return WrongResultError(
        f"{len(bad)} of {len(verdicts)} modules {'did not pass' if strict else 'failed'}",
        details=[line for item in bad for line in _lines(item)],
        hint='tolerances are set by dtype in a check: "tolerance": {"float32": {"rtol": 1e-3}}'
        if any(check.errors for item in bad for check in item.record.checks)
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
