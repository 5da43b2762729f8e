"""A job file → `Job`; every problem at once, with its line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bakery.core.errors import ModuleError
from bakery.core.plain_files import read_plain
from bakery.iree.job.json_positions import places
from bakery.iree.models.job import Input, Job
from bakery.recipe.problems import Problem, listed
from bakery.recipe.pydantic_errors import find_problems
from bakery.recipe.toml_positions import TooMuch, line_of
from bakery.recipe.type_names import Step

LARGEST = 2 * 1024**2
"""Bytes that a job file may have."""


OUTPUT = "out"
"""The output folder where nothing says another."""


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job, and where it was written.

    Attributes:
        file: its file as messages write it; empty for one that the command line makes.
        folder: where its paths are relative to.
        lines: path → 1-based line.
    """

    job: Job
    file: str
    folder: Path
    lines: dict[tuple[Step, ...], int] = field(default_factory=dict)

    def wants(self, *, output: bool) -> tuple[str, ...]:
        """Return the paths that the job names, in the words of ``--allow``; a job of the command line has none.

        Args:
            output: results go to the job's own folder.
        """
        if not self.file:
            return ()
        found = [f"fs.read={self.folder / path}" for item in self.job.modules for path in _read_by(item)]
        if output:
            found.append(f"fs.write={self.folder / (self.job.output or OUTPUT)}")
        return tuple(dict.fromkeys(found))

    def error(self, problems: list[Problem]) -> ModuleError:
        """Return the one error that lists all ``problems``."""
        placed = [
            problem if problem.line or not self.lines else _placed(problem, line_of(self.lines, problem.path))
            for problem in problems
        ]
        what, details = listed(self.file, placed)
        return ModuleError(what, details=details)


def _read_by(item: Input) -> Iterator[str]:
    """Yield the files that a module's entry names."""
    yield item.input
    values: list[str] = []
    for check in item.checks or ():
        values += [*check.inputs, *(check.expected or ())]
        if check.reference:
            yield check.reference.rpartition(":")[0]
    if item.benchmark:
        values += item.benchmark.inputs
        if item.benchmark.baseline:
            yield item.benchmark.baseline
    # The others are numbers and constants (`bakery.iree.npy`).
    yield from (path for value in values if (path := value.removeprefix("@")).endswith((".npy", ".npz")))


def load(file: Path, shown: str) -> LoadedJob:
    """Load the job file that messages call ``shown``.

    Raises:
        ModuleError: it cannot be read, is no JSON, or no job; ``details`` holds every problem.
    """
    text = _text(file, shown)
    data = _data(text, shown)
    try:
        lines = places(text)
    except TooMuch as error:
        raise _error(shown, Problem((), str(error), "split the job", error.line)) from None
    if not isinstance(data, dict):
        raise _error(shown, Problem((), "expected an object { … }", 'begin with { "version": 1, "modules": [ … ] }', 1))
    problems = [_in_json(problem) for problem in _leaves(find_problems(Job, data))]
    if problems:
        what, details = listed(shown, [_placed(problem, line_of(lines, problem.path)) for problem in problems])
        raise ModuleError(what, details=details, hint="wheel-bakery schema job prints what a job file may hold")
    return LoadedJob(Job.model_validate(data, by_alias=True, by_name=False), shown, file.absolute().parent, lines)


def from_inputs(inputs: Sequence[str], folder: Path) -> LoadedJob:
    """Return the job that compiles some files.

    Raises:
        ModuleError: a path is none.
    """
    data = {"version": 1, "modules": [{"input": item} for item in dict.fromkeys(inputs)]}
    problems = [Problem((), f"{inputs[0]!a}: {problem.what}", problem.fix) for problem in find_problems(Job, data)]
    if problems:
        what, details = listed("", problems)
        raise ModuleError(what, details=details)
    return LoadedJob(Job.model_validate(data, by_alias=True, by_name=False), "", folder)


def _error(shown: str, problem: Problem) -> ModuleError:
    what, details = listed(shown, [problem])
    return ModuleError(what, details=details)


def _leaves(problems: list[Problem]) -> list[Problem]:
    """Return problems without those of lists that only count what is wrong inside of them."""
    above = {problem.path[:end] for problem in problems for end in range(1, len(problem.path))}
    return [problem for problem in problems if problem.path not in above]


def _placed(problem: Problem, line: int) -> Problem:
    return Problem(problem.path, problem.what, problem.fix, problem.line or line, problem.column, problem.excerpt)


def _in_json(problem: Problem) -> Problem:
    """Return a problem whose advice is not TOML."""
    name, found, rest = problem.fix.partition(" = ")
    if problem.fix.startswith("add ") and found:
        fix = f'add "{name.removeprefix("add ")}": {rest}'
    else:
        fix = problem.fix.replace("[[…]]", "[ … ]") if "[[" in problem.fix else problem.fix
    return Problem(problem.path, problem.what, fix, problem.line, problem.column, problem.excerpt)


def _text(file: Path, shown: str) -> str:
    try:
        return read_plain(file, LARGEST).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModuleError(f"{shown}: byte {error.start} is not UTF-8", hint="a job file is JSON") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "its name is not possible"
        raise ModuleError(f"{shown} cannot be read: {reason}", hint="check the path") from None


def _data(text: str, shown: str) -> object:
    twice: list[str] = []

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(items)
        if len(made) < len(items):
            twice.extend(key for key, number in Counter(key for key, _ in items).items() if number > 1)
        return made

    def constant(word: str) -> object:
        raise ValueError(f"{word} is no JSON")

    try:
        data = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        problem = Problem((), f"this is not JSON: {error.msg.lower()}", "correct it", error.lineno, error.colno)
        raise _error(shown, problem) from None
    except RecursionError:
        raise _error(shown, Problem((), "lists or objects are nested too deeply", "a job needs six levels")) from None
    except ValueError as error:
        raise _error(shown, Problem((), str(error)[:200], "write a number as JSON has it")) from None
    if twice:
        raise _error(shown, Problem((twice[0],), "this key stands twice in one object", "keep one of the two"))
    return data
