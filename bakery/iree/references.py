"""References: the user's own Python functions over NumPy arrays. They run in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bakery.iree.call_args import Case
from bakery.iree.npy import Scalar
from bakery.iree.sandbox import CALL_S, RESULT, ProgramResult, Sandbox
from bakery.plan.values import Json


@dataclass(frozen=True, slots=True)
class Reference:
    """The results of a reference, one file each; or why there are none."""

    files: tuple[Path, ...] = ()
    problem: str = ""


def call_references(cases: Iterable[Case], sandbox: Sandbox, image: str) -> dict[int, Reference]:
    """Run the references of all checks, each once for all targets, in one container for each Python file.

    Args:
        cases: the cases of all targets. Those of one check of a job share its `Check`.
        image: an image with Python and NumPy.

    Returns:
        `id` of the check → results.

    Raises:
        EngineError: a container cannot be run.
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
        problems = json.loads(result.files[RESULT].read_bytes())
        if isinstance(problems, list) and len(problems) == count:
            return [str(item).strip().replace("\n", " | ") for item in problems]
    except (KeyError, OSError, ValueError, RecursionError):
        pass
    return [" | ".join(result.log.strip().splitlines()[-4:]) or f"exit code {result.code}"] * count
