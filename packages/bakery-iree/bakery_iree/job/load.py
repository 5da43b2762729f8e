"""A job file → `Job`; every problem at once, with its line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bakery.recipe.problems import Problem, problem_lines
from bakery.recipe.pydantic_errors import find_problems
from bakery.recipe.toml_positions import DEEPEST, TooMuch, line_of
from bakery.recipe.type_names import Step
from bakery_iree.errors import ModuleError
from bakery_iree.models.job import Input, Job
from wheel_audit.plain_files import read_plain

LARGEST = 2 * 1024**2
"""Maximum size of a job file, in bytes."""

MOST = 200_000
"""Maximum number of keys and list items of a job."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\n')

OUTPUT = "out"
"""The default output folder."""


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job, its file in messages (empty for a job of the command line), and the folder that its paths are relative to.

    ``lines`` maps the path of a key to its 1-based line.
    """

    job: Job
    file: str
    folder: Path
    lines: dict[tuple[Step, ...], int] = field(default_factory=dict)

    def required_grants(self, *, output: bool) -> tuple[str, ...]:
        """Return a grant of ``--allow`` for each path that the job names; none for a job of the command line.

        ``output``: results go to the job's own folder.
        """
        if not self.file:
            return ()
        grants = [f"fs.read={self.folder / path}" for item in self.job.modules for path in _read_by(item)]
        if output:
            grants.append(f"fs.write={self.folder / (self.job.output or OUTPUT)}")
        return tuple(dict.fromkeys(grants))

    def error(self, problems: list[Problem]) -> ModuleError:
        """Return the one error that lists all ``problems``."""
        return _error(self.file, *problems, lines=self.lines)


def _read_by(item: Input) -> Iterator[str]:
    """Yield the files that the entry of a module names."""
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
    # The others are numbers and constants (`bakery_iree.npy`).
    yield from (path for value in values if (path := value.removeprefix("@")).endswith((".npy", ".npz")))


def load(file: Path, shown: str) -> LoadedJob:
    """Load a job file, which messages call ``shown``.

    Raises ModuleError with every problem if it cannot be read, is not JSON, or not a job.
    """
    text = _text(file, shown)
    data = _data(text, shown)
    try:
        lines = key_lines(text)
    except TooMuch as error:
        raise _error(shown, Problem((), str(error), "split the job", error.line)) from None
    if not isinstance(data, dict):
        raise _error(shown, Problem((), "expected an object { … }", 'begin with { "version": 1, "modules": [ … ] }', 1))
    problems = [replace(item, fix=item.json_fix or item.fix) for item in _leaves(find_problems(Job, data))]
    if problems:
        hint = "`wheel-bakery schema job` prints the format of job files"
        raise _error(shown, *problems, lines=lines, hint=hint)
    return LoadedJob(Job.model_validate(data, by_alias=True, by_name=False), shown, file.absolute().parent, lines)


def from_inputs(inputs: Sequence[str], folder: Path) -> LoadedJob:
    """Return a job that compiles some files; raise ModuleError if a path is malformed."""
    data = {"version": 1, "modules": [{"input": item} for item in dict.fromkeys(inputs)]}
    problems = [Problem((), f"{inputs[0]!a}: {problem.what}", problem.fix) for problem in find_problems(Job, data)]
    if problems:
        raise _error("", *problems)
    return LoadedJob(Job.model_validate(data, by_alias=True, by_name=False), "", folder)


def _error(
    shown: str, *problems: Problem, lines: Mapping[tuple[Step, ...], int] | None = None, hint: str = ""
) -> ModuleError:
    """Return the one error that lists all ``problems``; ``lines`` maps paths of keys to 1-based lines."""
    if lines:
        problems = tuple(replace(item, line=item.line or line_of(lines, item.path)) for item in problems)
    what, details = problem_lines(shown, problems)
    return ModuleError(what, details=details, hint=hint)


def _leaves(problems: list[Problem]) -> list[Problem]:
    """Return problems without those of lists that only repeat the problems of their items."""
    above = {problem.path[:end] for problem in problems for end in range(1, len(problem.path))}
    return [problem for problem in problems if problem.path not in above]


def _text(file: Path, shown: str) -> str:
    try:
        return read_plain(file, LARGEST, follow=True).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModuleError(f"{shown}: byte {error.start} is not UTF-8", hint="a job file is JSON") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "its name is not possible"
        raise ModuleError(f"{shown} cannot be read: {reason}", hint="check the path") from None


def _data(text: str, shown: str) -> object:
    duplicates: list[str] = []

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(items)
        if len(result) < len(items):
            duplicates.extend(key for key, number in Counter(key for key, _ in items).items() if number > 1)
        return result

    def constant(word: str) -> object:
        raise ValueError(f"{word} is not JSON")

    try:
        data = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        problem = Problem((), f"this is not JSON: {error.msg.lower()}", "correct it", error.lineno, error.colno)
        raise _error(shown, problem) from None
    except RecursionError:
        raise _error(shown, Problem((), "lists or objects are nested too deeply", "a job needs six levels")) from None
    except ValueError as error:
        raise _error(shown, Problem((), str(error)[:200], "write a JSON number")) from None
    if duplicates:
        raise _error(shown, Problem((duplicates[0],), "this key is twice in one object", "keep one of the two"))
    return data


def key_lines(text: str) -> dict[tuple[Step, ...], int]:
    """Return the 1-based line of every key and list item of valid JSON, by path.

    Raises TooMuch for more than `DEEPEST` levels of lists or objects, or more than `MOST` entries.
    """
    lines: dict[tuple[Step, ...], int] = {}
    stack: list[list[Step]] = []
    line = 1
    key = True
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == "\n":
            line += 1
            continue
        if token in "}]":
            stack.pop()
            key = False
            continue
        if token == ",":
            last = stack[-1][-1]
            key = isinstance(last, str)
            if isinstance(last, int):
                stack[-1][-1] = last + 1
            continue
        if token == ":":
            key = False
            continue
        if stack and key and isinstance(stack[-1][-1], str):
            stack[-1][-1] = json.loads(token)
        if stack:
            lines.setdefault(tuple(level[-1] for level in stack), line)
            if len(lines) > MOST:
                raise TooMuch(f"more than {MOST} keys and list items", line)
        if token in "{[":
            if len(stack) >= DEEPEST:
                raise TooMuch(f"lists or objects are nested more than {DEEPEST} levels deep", line)
            stack.append([""] if token == "{" else [0])
            key = token == "{"
    return lines
