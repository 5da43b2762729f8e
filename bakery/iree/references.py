"""References: a person's own Python over numpy arrays, run where it can do nothing but compute."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bakery.iree import programs
from bakery.iree.call_args import Case
from bakery.iree.limits import CALL_S, limits_for
from bakery.iree.npy import Scalar
from bakery.iree.sandbox import Ran, Sandbox
from bakery.plan.values import Json


@dataclass(frozen=True, slots=True)
class Reference:
    """What a reference gave: a file for each result, or why there is none."""

    files: tuple[Path, ...] = ()
    problem: str = ""


def call_references(cases: Iterable[Case], box: Sandbox, image: str) -> dict[int, Reference]:
    """Run the references of all checks, each once for all targets: one container for each file of them.

    Args:
        cases: those of all targets; what is said once in a job is one `Check`.
        image: an image with Python and numpy.

    Returns:
        By `id` of the check.

    Raises:
        EngineError: a container cannot be run.
    """
    asked: dict[Path, dict[int, Case]] = {}
    for case in cases:
        if case.check.reference is not None:
            file = case.folder / case.check.reference.rpartition(":")[0]
            asked.setdefault(file, {}).setdefault(id(case.check), case)
    found: dict[int, Reference] = {}
    for file, group in asked.items():
        found |= _call(file, group, box, image)
    return found


def _call(file: Path, cases: Mapping[int, Case], box: Sandbox, image: str) -> dict[int, Reference]:
    files: dict[str, Path | bytes] = {
        "call.py": programs.text("module_reference.py").encode(),
        "reference.py": file,
    }
    calls: list[dict[str, Json]] = []
    names: list[tuple[str, ...]] = []
    for number, case in enumerate(cases.values()):
        arguments: list[Json] = []
        for index, value in enumerate(case.call.arguments):
            if isinstance(value, Scalar):
                arguments.append({"number": value.source})
            else:
                place = f"in/{number}.{index}.npy"
                files[place] = value.content
                arguments.append({"npy": place, "dtype": value.dtype})
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
    files["calls.json"] = json.dumps(calls).encode()
    ran = box.run(
        image,
        ["python3", "call.py", "calls.json", "out/ended.json"],
        files,
        wanted=("ended.json", *(name for group in names for name in group)),
        limits=limits_for(files, CALL_S),
    )
    told = _told(ran, len(calls))
    found = {}
    for key, results, problem in zip(cases, names, told, strict=True):
        missing = any(name not in ran.out for name in results)
        if problem or missing:
            found[key] = Reference(problem=f"the reference failed: {problem or 'it left no result'}")
        else:
            found[key] = Reference(tuple(ran.out[name] for name in results))
    return found


def _told(ran: Ran, count: int) -> list[str]:
    if ran.timed_out:
        return [f"it took longer than {CALL_S} s"] * count
    try:
        told = json.loads(ran.out["ended.json"].read_bytes())
        if isinstance(told, list) and len(told) == count:
            return [str(item).strip().replace("\n", " | ") for item in told]
    except (KeyError, OSError, ValueError, RecursionError):
        pass
    return [" | ".join(ran.log.strip().splitlines()[-4:]) or f"exit code {ran.code}"] * count
