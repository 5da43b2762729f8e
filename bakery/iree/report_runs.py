"""Reports of validations and benchmarks: as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bakery.core.text import printable
from bakery.iree.benchmark import Measurement
from bakery.iree.validate import Verdict
from bakery.plan.values import Json

VERSION = 1
"""Version of the JSON format. Increase it when a key changes its meaning."""

_STYLES = {"passed": "green", "failed": "bold red", "not run": "yellow"}


def validation_table(verdicts: Sequence[Verdict]) -> RenderableType:
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


def benchmarks_table(measurements: Sequence[Measurement]) -> RenderableType:
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


def to_json(modules: list[Json]) -> str:
    """Return the report with the rows of all modules as JSON."""
    return json.dumps({"version": VERSION, "modules": modules}, indent=2, ensure_ascii=False)


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index < len(columns) - 1)
    return table
