"""Runs the checks of a module, all in one container, by iree-run-module; what comes of it is compared elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery.iree import programs
from bakery.iree.call_args import Case
from bakery.iree.devices import Place
from bakery.iree.limits import CALL_S, limits_for
from bakery.iree.modules import Compiled
from bakery.iree.sandbox import Ran, Sandbox
from bakery.plan.values import Json

_ILLEGAL = "ended by SIGILL: this machine's CPU lacks instructions that the module uses"
_KILLED = "killed: more memory than a container gets"

SIGNALS = {-4: _ILLEGAL, 132: _ILLEGAL, -9: _KILLED, 137: _KILLED}
"""What codes of programs mean that a signal ended: as Python and as a shell write them."""

_ENDED = "ended.json"

_Ended = tuple[int | None, str]
"""A program's exit code, None where its time was over; and the end of what it printed."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of running a module.

    Attributes:
        problems: for each check, why it gave no results; empty where it did.
        results: name → file.
        runtime: the version of iree-base-runtime.
    """

    problems: tuple[str, ...]
    results: Mapping[str, Path]
    runtime: str


def run_cases(module: Compiled, cases: Sequence[Case], box: Sandbox, place: Place, cores: str) -> Trial:
    """Run checks of a module, in their order.

    Raises:
        EngineError: the container cannot be run.
    """
    files: dict[str, Path | bytes] = {"module.vmfb": module.path}
    files["run.py"] = programs.text("module_calls.py").encode()
    calls: list[Json] = []
    for case in cases:
        files |= case.call.files
        argv = ["iree-run-module", "--module=module.vmfb", f"--device={module.target.device}"]
        argv += [f"--function={case.call.function.name}", *case.call.words]
        argv += [f"--output=@out/{name}" for name in case.results]
        calls.append({"argv": list[Json](argv), "seconds": CALL_S})
    files["calls.json"] = json.dumps(calls).encode()
    ran = box.run(
        place.image,
        ["python3", "-I", "run.py", "calls.json", f"out/{_ENDED}"],
        files,
        wanted=(_ENDED, *(name for case in cases for name in case.results)),
        limits=limits_for(files, CALL_S * len(calls) + 30, cores=cores),
        platform=place.platform,
        gpus=place.gpus,
    )
    ended, runtime = _told(ran, len(cases))
    problems = []
    for case, (code, log) in zip(cases, ended, strict=True):
        problem = _problem(code, log, timed_out=ran.timed_out)
        lost = not problem and any(name not in ran.out for name in case.results)
        problems.append("it left no result" if lost else problem)
    return Trial(tuple(problems), ran.out, runtime)


def _told(ran: Ran, count: int) -> tuple[list[_Ended], str]:
    """Return how each call ended, as the container tells it; what it does not tell has failed."""
    nothing: list[_Ended] = [(ran.code or 1, ran.log[-2000:])] * count
    try:
        told = json.loads(ran.out[_ENDED].read_bytes())
        found: list[_Ended] = [(item["code"], str(item["log"])) for item in told["calls"]]
        runtime = str(told["runtime"])[:40]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return nothing, ""
    sane = len(found) == count and all(code is None or type(code) is int for code, _ in found)
    return (found, runtime) if sane else (nothing, "")


def _problem(code: int | None, log: str, *, timed_out: bool) -> str:
    """Return why a call gave nothing, in a line; empty where it did."""
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
    told = next((line for line in reversed(lines) if ": " in line), lines[-1] if lines else "nothing was said")
    return f"iree-run-module failed ({code}): {told[:500]}"
