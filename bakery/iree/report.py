"""The report of a compilation: as a table and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from bakery.core.errors import BakeError, BakeryError, InterruptedBake, SomeFailed
from bakery.iree.models.module import ModuleRecord
from bakery.iree.plan import JobPlan, ModuleCell
from bakery.plan.values import Json

_STYLES = {"done": "green", "kept": "green", "failed": "bold red", "canceled": "yellow"}


@dataclass(frozen=True, slots=True)
class ModuleReport:
    """One cell of a run.

    Attributes:
        result: ``done``, ``failed``, ``canceled``, or ``kept`` if the output folder already had the module.
        error: why it failed.
        seconds: the run time of the compiler, which may have run earlier.
        record: the record of the module; None if there is no module.
        path: the module in the output folder; None if there is none.
    """

    cell: ModuleCell
    result: str = "canceled"
    error: BakeryError | None = None
    seconds: float = 0.0
    record: ModuleRecord | None = None
    path: Path | None = None
    log: Path | None = None

    @property
    def size(self) -> int:
        """The size of the module in bytes; 0 if there is none."""
        return self.record.output.size if self.record else 0


@dataclass(frozen=True, slots=True)
class ModuleRun:
    """One run of one job; ``stopped`` is the name of the signal that ended it early."""

    modules: tuple[ModuleReport, ...]
    output: Path
    state: Path
    seconds: float
    stopped: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the report as JSON values."""
        return {
            "version": 1,
            "seconds": round(self.seconds, 3),
            "output": str(self.output),
            "stopped": self.stopped,
            "modules": [
                {
                    "cell": item.cell.id,
                    "input": item.cell.source.shown,
                    "target": item.cell.target.name,
                    "result": item.result,
                    "seconds": round(item.seconds, 3),
                    "size": item.size,
                    "path": str(item.path) if item.path else None,
                    "log": str(item.log) if item.log else None,
                    "error": item.error.message if item.error else "",
                }
                for item in self.modules
            ],
        }


def render(run: ModuleRun) -> Table:
    """Return the table at the end of a run."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("module", style="cyan", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("compiled in", justify="right", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for item in run.modules:
        table.add_row(
            item.cell.id,
            Text(item.result, style=_STYLES[item.result]),
            f"{item.seconds:.1f} s" if item.seconds else "",
            f"{item.size / 1e3:.1f} kB" if item.size else "",
            Text(item.error.reason if item.error else ""),
        )
    return table


def conclusion(run: ModuleRun) -> BakeryError | None:
    """Return the failure of a run; None if all modules are done."""
    done = [item for item in run.modules if item.result in ("done", "kept")]
    failed = [item.error for item in run.modules if item.error]
    if run.stopped:
        return InterruptedBake(
            f"interrupted by {run.stopped}",
            hint=f"{len(done)} of {len(run.modules)} modules are done; run the command again for the others",
        )
    if len(done) == len(run.modules):
        return None
    if len(run.modules) == 1 and failed:
        return failed[0]
    lines = _failure_lines(run)
    message = f"{len(run.modules) - len(done)} of {len(run.modules)} modules failed"
    hint = f"logs: {run.state / 'logs'}; the others are in {run.output}" if done else f"logs: {run.state / 'logs'}"
    return _Failed(message, SomeFailed.exit_code if done or not failed else failed[0].exit_code, hint, lines)


def _failure_lines(run: ModuleRun) -> list[str]:
    """Return the failures, each once: most problems of a module are the same for all targets."""
    by_reason: dict[str, list[tuple[str, BakeryError]]] = {}
    for item in run.modules:
        if item.error:
            by_reason.setdefault(item.error.reason, []).append((item.cell.id, item.error))
    lines = []
    for reason, failures in by_reason.items():
        cell, error = failures[0]
        more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
        lines.append(f"{cell}{more}: {reason}")
        lines += [f"  {detail}" for detail in error.details[:5] if detail not in reason]
    return lines


class _Failed(BakeError):
    """Cells failed; the exit code is that of the first failure, or of a partial failure."""

    def __init__(self, message: str, exit_code: int, hint: str, details: list[str]) -> None:
        super().__init__(message, hint=hint, details=details)
        self.exit_code = exit_code
        self.title = "modules"


def cells(plan: JobPlan) -> Table:
    """Return the plan as a table."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("module", "input", "target", "exports"):
        table.add_column(column, style="cyan" if column == "module" else "", overflow="fold")
    for cell in plan.cells:
        names = ", ".join(f"@{function.name}" for function in cell.source.functions)
        table.add_row(
            cell.id, Text(cell.source.shown), cell.target.name, Text(names or cell.source.problem or "(bytecode)")
        )
    return table
