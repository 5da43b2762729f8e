"""``bakery audit``: any wheel, on any machine, no engine."""

from __future__ import annotations

import json as _json
from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import leave, out
from bakery.errors import AuditError


def audit(
    wheels: Annotated[list[Path], typer.Argument(help="Wheel files.", metavar="WHEEL…")],
    json: options.AsJson = False,
) -> None:
    """Look inside wheels: tags, machine, glibc floor, bundled libraries, RECORD, size.

    [dim]bakery audit dist/*.whl --json[/dim]
    """
    from bakery.audit.auditor import audit_wheel
    from bakery.report.audit import render

    reports = [audit_wheel(path) for path in wheels]
    if json:
        out.print(_json.dumps([report.to_json() for report in reports], indent=2), markup=False, soft_wrap=True)
    else:
        for report in reports:
            out.print(render(report))
    if not all(report.ok for report in reports):
        leave(AuditError.exit_code)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(audit)
