"""``wheel-bakery doctor``."""

from __future__ import annotations

import os

from bakery.cli import options
from bakery.cli.console import leave, out
from bakery.core.errors import EngineError


def doctor(ca_bundle: options.CaBundle = None, json: options.AsJson = False) -> None:
    """Look at what baking needs: engine, buildx, emulation, disk, memory, registry, package index, certificates.

    Exits with 6 if anything keeps wheels from being baked here, and with 0 otherwise.

    [dim]wheel-bakery doctor[/dim]
    """
    from bakery.cli.engine import find_ca_bundle
    from bakery.cli.tables import doctor as report
    from bakery.engine.doctor import diagnose

    found = diagnose(os.environ, find_ca_bundle(ca_bundle, os.environ))
    if json:
        out.print(report.to_json(found), markup=False, soft_wrap=True)
    else:
        out.print(report.render(found))
    if any(item.state == "fail" for item in found):
        leave(EngineError.exit_code)
