"""``wheel-bakery audit``: any wheel, on any machine, without an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import options
from bakery.cli.console import echo, echo_json, leave, out
from bakery.core.errors import AuditError, OutputError

if TYPE_CHECKING:
    from bakery.audit.report import WheelReport


def audit(
    wheels: Annotated[list[Path], typer.Argument(help="Wheel files.", metavar="WHEEL…")],
    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="Show the changes since this older wheel.", metavar="OLD")
    ] = None,
    json: options.AsJson = False,
) -> None:
    """Inspect wheels: tags, machine, oldest glibc, GPU code, bundled libraries, RECORD, size.

    [dim]wheel-bakery audit dist/*.whl --json[/dim]
    """
    from dataclasses import asdict

    from bakery.audit.auditor import audit_in_worker
    from bakery.audit.compare import compare
    from bakery.cli.tables.audit import render, render_changes
    from bakery.core.text import printable

    old = audit_in_worker(baseline) if baseline else None
    reports: list[WheelReport] = []
    unread: list[OutputError] = []
    for path in wheels:
        try:
            reports.append(audit_in_worker(path))
        except OutputError as error:
            unread.append(error)
    changes = [compare(old, report) if old else () for report in reports]
    if json:
        documents = [
            report.to_json() | ({"changes": [asdict(change) for change in since]} if old else {})
            for report, since in zip(reports, changes, strict=True)
        ]
        echo_json(documents)
    else:
        for report, since in zip(reports, changes, strict=True):
            out.print(render(report))
            if old:
                echo(f"  since {printable(old.path.name)}:")
                out.print(render_changes(since))
    if unread:
        raise OutputError("; ".join(error.message for error in unread)) if unread[1:] else unread[0]
    if not all(report.ok for report in reports):
        leave(AuditError.exit_code)
