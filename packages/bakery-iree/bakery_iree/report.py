"""Reports of compilations, validations and benchmarks: as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Column, Table
from rich.text import Text

from bakery.core.errors import BakeError, BakeryError, InterruptedBake, SomeFailed
from bakery.plan.values import Json
from bakery_iree.models.module import ModuleRecord
from bakery_iree.plan import JobPlan, ModuleCell
from wheel_audit.tables import plain_table
from wheel_audit.text import listed, printable

if TYPE_CHECKING:
    from bakery_iree.benchmark import Measurement
    from bakery_iree.validate import Verdict

VERSION = 1
"""Version of the JSON formats. Increase it when a key changes its meaning."""

_STYLES = {
    "done": "green",
    "kept": "green",
    "failed": "bold red",
    "canceled": "yellow",
    "passed": "green",
    "not run": "yellow",
}


@dataclass(frozen=True, slots=True)
class ModuleReport:
    """One cell of a run.

    Attributes:
        result: ``done``, ``failed``, ``canceled``, or ``kept`` if the output folder already had the module.
        error: why it failed.
        seconds: the run time of the compiler, which may have run earlier.
        record: the record of the module, and ``path`` its file; None if there is no module.
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
            "version": VERSION,
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
    table = plain_table(
        Column("module", style="cyan", no_wrap=True),
        Column(no_wrap=True),
        Column("compiled in", justify="right", no_wrap=True),
        Column("size", justify="right", no_wrap=True),
        Column(overflow="fold"),
    )
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
    message = f"{len(run.modules) - len(done)} of {len(run.modules)} modules failed"
    hint = f"logs: {run.state / 'logs'}; the others are in {run.output}" if done else f"logs: {run.state / 'logs'}"
    code = SomeFailed.exit_code if done or not failed else failed[0].exit_code
    return BakeError(message, hint=hint, details=_failure_lines(run), exit_code=code, title="modules")


def _failure_lines(run: ModuleRun) -> list[str]:
    """Return the failures, each once: most problems of a module are the same for all targets."""
    by_reason: dict[str, list[tuple[str, BakeryError]]] = {}
    for item in run.modules:
        if item.error:
            by_reason.setdefault(item.error.reason, []).append((item.cell.id, item.error))
    lines = []
    for reason, failures in by_reason.items():
        error = failures[0][1]
        lines.append(f"{listed((cell for cell, _ in failures), 1)}: {reason}")
        lines += [f"  {detail}" for detail in error.details[:5] if detail not in reason]
    return lines


def cells(plan: JobPlan) -> Table:
    """Return the plan as a table."""
    columns = (Column(name, overflow="fold") for name in ("input", "target", "exports"))
    table = plain_table(Column("module", style="cyan", overflow="fold"), *columns)
    for cell in plan.cells:
        names = ", ".join(f"@{function.name}" for function in cell.source.functions)
        table.add_row(
            cell.id, Text(cell.source.shown), cell.target.name, Text(names or cell.source.problem or "(bytecode)")
        )
    return table


def validation_table(verdicts: Sequence[Verdict]) -> Table:
    """Return verdicts as a table."""
    table = _table("module", "result", "checks", "largest error", "")
    for verdict in verdicts:
        record = verdict.record
        passed = sum(check.status == "passed" for check in record.checks)
        errors = [error.absolute for check in record.checks for error in check.errors if error.absolute is not None]
        note = record.reason or ("emulated" if record.emulated and record.status == "passed" else "")
        reasons = dict.fromkeys(check.reason for check in record.checks if check.reason)
        table.add_row(
            Text(printable(verdict.module.title)),
            Text(record.status, _STYLES[record.status]),
            f"{passed} of {len(record.checks)}",
            f"{max(errors):.2g}" if errors else "",
            Text(printable(note or "; ".join(reasons)), "" if record.status == "failed" else "dim"),
        )
    return table


def validation_rows(verdicts: Sequence[Verdict]) -> list[Json]:
    """Return verdicts as JSON values."""
    return [{"module": item.module.title, **item.record.model_dump(mode="json", by_alias=True)} for item in verdicts]


def benchmarks_table(measurements: Sequence[Measurement]) -> Table:
    """Return measurements as a table; times in milliseconds."""
    table = _table("module", "p50 ms", "p90 ms", "p99 ms", "calls/s", "× baseline", "")
    for item in measurements:
        title, record = Text(printable(item.module.title)), item.record
        if record is None:
            # The reason is in the log; there is no room for it in this table.
            table.add_row(title, *[""] * 5, Text("not measured", "yellow"))
            continue
        ratio = f"{record.p50 / record.baseline:.2f}" if record.baseline else ""
        table.add_row(
            title,
            *(f"{time * 1e3:.4g}" for time in (record.p50, record.p90, record.p99)),
            f"{record.throughput:.4g}",
            Text(ratio, "bold red" if record.regression else "green"),
            Text(printable(item.reason or ("slower" if record.regression else "")), "dim"),
        )
    return table


def benchmark_rows(measurements: Sequence[Measurement]) -> list[Json]:
    """Return measurements as JSON values; times in seconds."""
    return [
        {
            "module": item.module.title,
            "reason": item.reason,
            "benchmark": item.record.model_dump(mode="json", by_alias=True) if item.record else None,
        }
        for item in measurements
    ]


def to_json(modules: list[Json]) -> dict[str, Json]:
    """Return the report with the rows of all modules as JSON values."""
    return {"version": VERSION, "modules": modules}


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index < len(columns) - 1)
    return table
