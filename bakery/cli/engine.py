"""``wheel-bakery engine``: a private engine for machines that have none."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli.console import out, say
from bakery.core.errors import EngineError, UsageError

if TYPE_CHECKING:
    from bakery.engine.discover import EngineAddress

app = typer.Typer(
    help="A private Docker engine, for a Debian machine that has none: unpacked from the machine's own package "
    "mirror into the user's cache, started on demand. Where Docker with buildx runs, nothing is installed.",
    no_args_is_help=True,
)


def find_or_start() -> EngineAddress:
    """Return the engine to use; install and start the private one if there is none.

    Raises:
        EngineError: there is none, and none can be installed or started.
    """
    from bakery.engine import private_engine
    from bakery.engine.discover import find

    try:
        return find(os.environ)
    except EngineError as none:
        try:
            private_engine.start(private_engine.install(say, os.environ), say, os.environ)
        except EngineError as error:
            details = [*none.details, *error.details]
            raise EngineError(error.message, hint=error.hint, details=details) from error
    return find(os.environ)


@app.command()
def up() -> None:
    """Make sure that an engine runs; install and start a private one if there is none."""
    found = find_or_start()
    what = "the private engine" if found.source == "private" else "Docker"
    out.print(f"{what} {found.version} with buildx {found.buildx} is running", markup=False)


@app.command()
def down() -> None:
    """Stop the private engine; its images and caches stay."""
    from bakery.engine import private_engine

    out.print("stopped" if private_engine.stop(os.environ) else "it was not running")


@app.command()
def status() -> None:
    """Say which engine would be used."""
    from bakery.engine.discover import find

    found = find(os.environ)
    out.print(f"{found.source} engine {found.version}, buildx {found.buildx} {found.host}".rstrip(), markup=False)


@app.command()
def env() -> None:
    """Print the variables with which plain docker commands use the same engine.

    [dim]eval "$(wheel-bakery engine env)"; docker buildx bake -f bake/ujson.hcl wheel[/dim]
    """
    from bakery.engine.discover import find

    for name, value in find(os.environ).environment.items():
        out.print(f"export {name}={shlex.quote(value)}", markup=False, soft_wrap=True)


@app.command()
def emulate(
    platform: Annotated[str, typer.Argument(help="linux/arm64 or linux/amd64.", metavar="PLATFORM")],
) -> None:
    """Let this machine run programs of another architecture: QEMU, registered with the kernel until it restarts.

    Only Debian, as root. Builds for that platform then run under emulation, several times slower than natively.
    """
    from bakery.core.names import MACHINES
    from bakery.engine.qemu import enable

    if platform not in MACHINES:
        raise UsageError(f"{platform!r} is no platform", hint=f"expected {' or '.join(MACHINES)}")
    done = enable(platform, say)
    out.print(f"this machine {'now runs' if done else 'already ran'} programs of {platform}", markup=False)


@app.command()
def remove() -> None:
    """Stop the private engine and delete its images, build caches and state."""
    from bakery.engine import private_engine

    private_engine.remove(os.environ)
    out.print("removed")
