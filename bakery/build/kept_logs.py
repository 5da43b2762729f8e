"""The logs of the runs that are kept, read for ``logs``, and the steps that failed in them, for ``shell``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bakery.build.result import Result
from bakery.build.run_folders import kept_runs
from bakery.core.errors import OutputError, UsageError
from bakery.core.files import open_plain, read_plain
from bakery.core.names import TARGET_KINDS

_MAX_REPORT_BYTES = 64 << 20
_HEAD = re.compile(r"# \[(?:\S+ )?(?P<stage>\S+) \d+/\d+\] ")
"""The line of `LogFiles` before the lines of a step."""


def newest(root: Path, recipes: Sequence[str], cell: str) -> list[Path]:
    """Return the logs of the newest kept run that baked a cell of one of the recipes.

    Without ``cell``: of the newest run; only those of failed targets, if there are any. Raises UsageError if there is
    none.
    """
    known: dict[str, None] = {}
    for run in kept_runs(root):
        logs = sorted(path for path in (run / "logs").glob("*.log") if not path.is_symlink())
        recipe, failed = _report(run)
        if not logs or recipe not in ("", *recipes):
            continue
        if not cell:
            return [path for path in logs if path.stem in failed] or logs
        if own := [path for path in logs if path.stem in {f"{kind}-{cell}" for kind in TARGET_KINDS}]:
            return own
        known |= dict.fromkeys(path.stem for path in logs)
    if known:
        raise UsageError(f"no kept run has a log of {cell}", hint=f"there are logs of {', '.join(known)}")
    raise UsageError("there are no logs: nothing was baked here", hint="wheel-bakery wheel")


def failed_step(root: Path, recipe: str, cell: str) -> tuple[str, str]:
    """Return the stage of the step that failed when a cell was baked last, and which of its steps: ``2/3``.

    Both are empty if none failed, or no kept run baked the cell.
    """
    for run in kept_runs(root):
        try:
            document = _document(run)
            rows = [row for row in document["targets"] if document["recipe"] == recipe and row["cell"] == cell]
            if any(row["result"] in (Result.DONE, Result.FAILED) for row in rows):
                failures = [item for item in document["failures"] if item["cell"] == cell]
                return (str(failures[0]["stage"]), str(failures[0].get("step", ""))) if failures else ("", "")
        except _DAMAGED:
            continue
    return "", ""


def _report(run: Path) -> tuple[str, set[str]]:
    """Return the recipe of a run and its failed targets; nothing of a run that was killed before its report."""
    try:
        document = _document(run)
        failed = {target["name"] for target in document["targets"] if target["result"] == Result.FAILED}
        return str(document["recipe"]), failed
    except _DAMAGED:
        return "", set()


_DAMAGED = (OSError, ValueError, LookupError, TypeError, RecursionError)
"""Errors of a report that is not there, or not as a run writes it."""


def _document(run: Path) -> Any:
    return json.loads(read_plain(run / "report.json", _MAX_REPORT_BYTES, follow=False))


def lines(log: Path) -> Iterator[str]:
    """Yield the lines of a log. Raises OutputError if it cannot be read."""
    try:
        with open_plain(log, follow=False) as file:
            for line in file:
                yield line.decode(errors="replace").rstrip("\n")
    except OSError as error:
        raise OutputError(f"cannot read {log}: {error.strerror or error}") from error


def of_step(text: Iterable[str], step: str, recipes: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the steps of a stage; ``test`` is also the stage ``cpp-test`` of the recipe ``cpp``."""
    stages = {step, *(f"{recipe}-{step}" for recipe in recipes)}
    is_shown = False
    for line in text:
        if head := _HEAD.match(line):
            is_shown = head["stage"] in stages
        if is_shown:
            yield line


def stages(text: Iterable[str]) -> list[str]:
    """Return the stages that a log has steps of, in order."""
    return list(dict.fromkeys(head["stage"] for line in text if (head := _HEAD.match(line))))
