"""Runs the checks of a module with iree-run-module, all in one container. `comparison` compares the results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery.iree.call_args import Case
from bakery.iree.devices import Device
from bakery.iree.modules import Compiled
from bakery.iree.sandbox import CALL_S, RESULT, ProgramResult, Sandbox
from bakery.plan.values import Json

_ILLEGAL = "ended by SIGILL: this machine's CPU lacks instructions that the module uses"
_KILLED = "killed: it needs more memory than the container's limit"

SIGNALS = {-4: _ILLEGAL, 132: _ILLEGAL, -9: _KILLED, 137: _KILLED}
"""Exit code → reason. Python reports a signal as a negative number, a shell as 128 plus the number."""

_Ended = tuple[int | None, str]
"""A program's exit code, None if it exceeded its time limit; and the end of its output."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The results of a module's checks.

    Attributes:
        problems: for each check, why it has no results; empty if it has.
        files: name → file with a result.
        runtime: the version of iree-base-runtime.
    """

    problems: tuple[str, ...]
    files: Mapping[str, Path]
    runtime: str


def run_cases(module: Compiled, cases: Sequence[Case], sandbox: Sandbox, device: Device, cores: str) -> RunResult:
    """Run the checks of a module, in order.

    Raises:
        EngineError: the container cannot be run.
    """
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
        document = json.loads(result.files[RESULT].read_bytes())
        ended: list[_Ended] = [(item["code"], str(item["log"])) for item in document["calls"]]
        runtime = str(document["runtime"])[:40]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
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
