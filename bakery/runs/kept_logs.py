"""The logs of the runs that are kept, read for ``logs``, and the steps that failed in them, for ``shell``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NotRequired

from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from bakery.core.errors import UsageError, reported
from bakery.core.target_kinds import TARGET_KINDS
from bakery.resolve.asking import again
from bakery.runs.journal import Result
from bakery.runs.run_folders import kept_runs
from wheel_audit.plain_files import open_plain
from wheel_audit.readers import read_json

_MAX_REPORT_BYTES = 16 << 20
_LONGEST_LINE = 1 << 16
_HEAD = re.compile(r"# \[(?:\S+ )?(?P<stage>\S+) \d+/\d+\] ")
"""The line of `LogFiles` before the lines of a step."""


def newest(state: Path, recipes: Sequence[str], cell: str) -> list[Path]:
    """Return the logs of the newest kept run that baked a cell of one of the recipes.

    Without ``cell``: of the newest run; only those of failed targets, if there are any. Raises UsageError if there is
    none.
    """
    known: dict[str, None] = {}
    for run in kept_runs(state):
        logs = sorted(path for path in (run / "logs").glob("*.log") if not path.is_symlink())
        report = read_report(run)
        if not logs or (report and report["recipe"] not in recipes):
            continue
        failed = {item["name"] for item in report["targets"] if item["result"] == Result.FAILED} if report else ()
        if not cell:
            return [path for path in logs if path.stem in failed] or logs
        if own := [path for path in logs if path.stem in {f"{kind}-{cell}" for kind in TARGET_KINDS}]:
            return own
        known |= dict.fromkeys(path.stem for path in logs)
    if known:
        raise UsageError(f"no kept run has a log of {cell}", hint=f"there are logs of {', '.join(known)}")
    raise UsageError("there are no logs: nothing was baked here", hint="wheel-bakery wheel")


def failed_step(state: Path, recipe: str, cell: str) -> tuple[str, str]:
    """Return the stage of the step that failed when a cell was baked last, and which of its steps: ``2/3``.

    Both are empty if none failed, or no kept run baked the cell.
    """
    for run in kept_runs(state):
        report = read_report(run)
        if not report or report["recipe"] != recipe:
            continue
        if any(row["cell"] == cell and row["result"] in (Result.DONE, Result.FAILED) for row in report["targets"]):
            failures = [item for item in report["failures"] if item["cell"] == cell]
            return (failures[0]["stage"], failures[0]["step"]) if failures else ("", "")
    return "", ""


_MORE = with_config(ConfigDict(extra="allow"))


@_MORE
class _Wheel(TypedDict):
    """A wheel of a target, its ``size`` in bytes; ``device``: architecture → bytes of its code."""

    path: str
    size: int
    device: dict[str, int]
    warnings: NotRequired[list[str]]


class _Compilations(TypedDict):
    """How many files a target compiled, and how many of them the compiler cache had."""

    compilations: int
    hits: int


@_MORE
class ReportedTarget(TypedDict):
    """A target of a run."""

    name: str
    cell: str
    result: str
    seconds: float
    tries: int
    wheels: list[_Wheel]
    compiler_cache: NotRequired[_Compilations | None]


@_MORE
class Failure(TypedDict):
    """A failed cell, and the step that failed: ``stage``, and ``2/3``; empty if none did."""

    cell: str
    message: str
    hint: str
    details: list[str]
    log: str
    stage: str
    step: str


@_MORE
class Report(TypedDict):
    """What commands read again of the ``report.json`` of a run; it has more keys (`RunReport.to_json`)."""

    recipe: str
    reference: NotRequired[str]
    about: NotRequired[dict[str, str]]
    seconds: float
    started: float
    targets: list[ReportedTarget]
    failures: list[Failure]


@cache
def _reports() -> TypeAdapter[Report]:
    # Slow to make, and rarely used.
    return TypeAdapter(Report)


def read_report(run: Path) -> Report | None:
    """Return the report of a run; None without one, of a run that was killed before, or of another version of bakery."""
    try:
        return _reports().validate_python(read_json(run / "report.json", _MAX_REPORT_BYTES))
    except (OSError, ValueError):
        return None


def lines(log: Path) -> Iterator[str]:
    """Yield the lines of a log; a longer one than any terminal shows comes in pieces. Raises OutputError if it cannot be read."""
    with reported(f"cannot read {log}"), open_plain(log) as file:
        while line := file.readline(_LONGEST_LINE):
            yield line.decode(errors="replace").rstrip("\n")


def of_step(text: Iterable[str], step: str, recipes: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the steps of a stage, also with the repository that its first run asked for.

    ``test`` is also the stage ``cpp-test`` of the recipe ``cpp``.
    """
    stages = {step, again(step), *(f"{recipe}-{step}" for recipe in recipes)}
    is_shown = False
    for line in text:
        if head := _HEAD.match(line):
            is_shown = head["stage"] in stages
        if is_shown:
            yield line


def stages(text: Iterable[str]) -> list[str]:
    """Return the stages that a log has steps of, in order."""
    return list(dict.fromkeys(head["stage"] for line in text if (head := _HEAD.match(line))))
