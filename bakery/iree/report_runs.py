"""Reports of validations and benchmarks: as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bakery.core.text import printable
from bakery.iree.models.module import BenchmarkRecord, ValidationRecord
from bakery.plan.values import Json

VERSION = 1
"""Version of the JSON format. Increase it when a key changes its meaning."""

_STYLES = {"passed": "green", "failed": "bold red", "not run": "yellow"}

Validated = tuple[str, ValidationRecord]
"""Title of a module, and the outcome."""

Measured = tuple[str, BenchmarkRecord | None, str]
"""Title of a module, its measurements, and why there are none or they were not compared."""


def validation_table(rows: Sequence[Validated]) -> RenderableType:
    """Return verdicts as a table."""
    table = _table("module", "result", "checks", "largest error", "")
    for title, record in rows:
        passed = sum(check.status == "passed" for check in record.checks)
        errors = [error.absolute for check in record.checks for error in check.errors if error.absolute is not None]
        reasons = dict.fromkeys(check.reason for check in record.checks if check.reason)
        table.add_row(
            Text(printable(title)),
            Text(record.status, _STYLES[record.status]),
            f"{passed} of {len(record.checks)}",
            f"{max(errors):.2g}" if errors else "",
            Text(printable(_note(record) or "; ".join(reasons)), "" if record.status == "failed" else "dim"),
        )
    return table


def _note(record: ValidationRecord) -> str:
    return record.reason or ("emulated" if record.emulated and record.status == "passed" else "")


def validation_json(rows: Sequence[Validated]) -> str:
    """Return verdicts as JSON."""
    return _text(validation_rows(rows))


def validation_rows(rows: Sequence[Validated]) -> list[Json]:
    """Return verdicts as JSON values."""
    return [{"module": title, **record.model_dump(mode="json", by_alias=True)} for title, record in rows]


def benchmarks_table(rows: Sequence[Measured]) -> RenderableType:
    """Return measurements as a table; times in milliseconds."""
    table = _table("module", "p50 ms", "p90 ms", "p99 ms", "calls/s", "× baseline", "")
    for title, record, reason in rows:
        if record is None:
            # The reason is in the log; there is no room for it in this table.
            table.add_row(Text(printable(title)), *[""] * 5, Text("not measured", "yellow"))
            continue
        ratio = f"{record.p50 / record.baseline:.2f}" if record.baseline else ""
        table.add_row(
            Text(printable(title)),
            *(f"{time * 1e3:.4g}" for time in (record.p50, record.p90, record.p99)),
            f"{record.throughput:.4g}",
            Text(ratio, "bold red" if record.regression else "green"),
            Text(printable(reason or ("slower" if record.regression else "")), "dim"),
        )
    return table


def benchmarks_json(rows: Sequence[Measured]) -> str:
    """Return measurements as JSON; times in seconds."""
    return _text(benchmark_rows(rows))


def benchmark_rows(rows: Sequence[Measured]) -> list[Json]:
    """Return measurements as JSON values."""
    return [
        {
            "module": title,
            "reason": reason,
            "benchmark": record.model_dump(mode="json", by_alias=True) if record else None,
        }
        for title, record, reason in rows
    ]


def _text(modules: list[Json]) -> str:
    return json.dumps({"version": VERSION, "modules": modules}, indent=2, ensure_ascii=False)


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index < len(columns) - 1)
    return table
