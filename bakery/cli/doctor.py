"""``wheel-bakery doctor``."""

from __future__ import annotations

import os

from bakery.cli import options
from bakery.cli.console import echo_json, leave, out
from bakery.core.errors import EngineError


def doctor(ca_bundle: options.CaBundle = None, json: options.AsJson = False) -> None:
    """Check what a bake needs: engine, buildx, emulation, disk, memory, registry, package index, certificates.

    Exits with 6 if this machine cannot bake wheels, otherwise with 0.

    [dim]wheel-bakery doctor[/dim]
    """
    from bakery.cli.engine import find_ca_bundle
    from bakery.cli.tables import doctor as report
    from bakery.engine.doctor import diagnose

    findings = diagnose(os.environ, find_ca_bundle(ca_bundle, os.environ))
    if json:
        echo_json(report.to_json(findings))
    else:
        out.print(report.render(findings))
    if any(item.state == "fail" for item in findings):
        leave(EngineError.exit_code)
