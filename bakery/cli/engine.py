"""``wheel-bakery engine`` and ``wheel-bakery doctor``, and how commands find the engine."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import parameters
from bakery.cli.command_group import PlainGroup
from bakery.cli.console import echo, echo_json, out, say
from bakery.cli.failures import leave
from bakery.core.cell_ids import MACHINES, is_baked
from bakery.core.errors import EngineError, UsageError
from bakery.engine.ca_bundle import find_ca_bundle

if TYPE_CHECKING:
    from bakery.engine.discover import EngineAddress
    from bakery.engine.session import EngineSession

app = typer.Typer(
    cls=PlainGroup,
    help="Manage the private Docker engine, for Debian machines without Docker. Bakery downloads it from the machine's "
    "package mirror and keeps it in the user's cache. Nothing is installed if Docker with buildx is running.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


def open_engine(ca_bundle: Path | None, *, engine_up: bool = False, builder: str | None = None) -> EngineSession:
    """Return a session on the engine, for the options of a command. Raises BakeryError if there is no engine."""
    from bakery.engine import session
    from bakery.engine.discover import find

    bundle = find_ca_bundle(ca_bundle, os.environ)
    finder = find_or_start if engine_up else find
    return session.open_engine(os.environ, bundle, say, builder=builder, folder=Path.cwd(), find_engine=finder)


def find_or_start(environ: Mapping[str, str]) -> EngineAddress:
    """Return the engine to use; install and start the private one if there is none and the user chose no other.

    Raises EngineError if that is not possible.
    """
    from bakery.engine import private_engine
    from bakery.engine.discover import chosen, find

    try:
        return find(environ)
    except EngineError as missing:
        if chosen(environ):
            raise
        try:
            private_engine.start(private_engine.install(say, environ), say, environ)
        except EngineError as error:
            details = [*missing.details, *error.details]
            raise EngineError(error.message, hint=error.hint, details=details) from error
    return find(environ)


def doctor(ca_bundle: parameters.CaBundle = None, json: parameters.AsJson = False) -> None:
    """Check what a bake needs: engine, buildx, emulation, disk, memory, registry, package index, certificates.

    Exits with 6 if this machine cannot bake wheels, otherwise with 0.

    Example: wheel-bakery doctor
    """
    from bakery.cli.tables.engine import findings_json, findings_report
    from bakery.engine.doctor import diagnose

    findings = diagnose(os.environ, find_ca_bundle(ca_bundle, os.environ))
    if json:
        echo_json(findings_json(findings))
    else:
        out.print(findings_report(findings))
    if any(item.state == "fail" for item in findings):
        leave(EngineError.exit_code)


@app.command()
def up() -> None:
    """Make sure that an engine is running; if there is none, install and start a private one."""
    engine = find_or_start(os.environ)
    name = "the private engine" if engine.source == "private" else "Docker"
    echo(f"{name} {engine.version} with buildx {engine.buildx} is running")


@app.command()
def down() -> None:
    """Stop the private engine; keep its images and caches."""
    from bakery.engine import private_engine

    echo("stopped" if private_engine.stop(os.environ) else "the private engine was not running")


@app.command()
def status() -> None:
    """Show the engine that bakes would use."""
    from bakery.engine.discover import find, require_builder

    engine = find(os.environ)
    if builder := os.environ.get("BUILDX_BUILDER"):
        require_builder({**os.environ, **engine.environment}, builder)
    echo(f"{engine.source} engine {engine.version}, buildx {engine.buildx} {engine.host}".rstrip())


@app.command()
def env() -> None:
    """Print the environment variables with which docker commands use the same engine.

    Example: eval "$(wheel-bakery engine env)"; docker buildx bake -f bake/ujson.hcl wheel
    """
    from bakery.engine.discover import find

    for name, value in find(os.environ).environment.items():
        echo(f"export {name}={shlex.quote(value)}")


@app.command()
def emulate(
    platform: Annotated[str, typer.Argument(help="linux/arm64 or linux/amd64.", metavar="PLATFORM")],
) -> None:
    """Let this machine run programs for another architecture: register QEMU with the kernel until the next restart.

    Needs Debian and root. Emulated builds are several times slower than native ones.
    """
    from bakery.engine.qemu import enable

    if platform not in (known := [*filter(is_baked, MACHINES)]):
        raise UsageError(f"unknown platform {platform!r}", hint=f"expected {' or '.join(known)}")
    is_new = enable(platform, say)
    echo(f"this machine {'now runs' if is_new else 'already ran'} programs for {platform}")


@app.command()
def remove() -> None:
    """Stop the private engine and delete its images, build caches and state."""
    from bakery.engine import private_engine

    private_engine.remove(os.environ)
    echo("removed")
