"""``wheel-bakery index``: a static package index of wheels. No engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import err, out, say


def index(
    wheels: Annotated[list[Path], typer.Argument(help="Wheels, and folders that hold some.", metavar="WHEEL|DIR…")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The index: made, or extended; what it has stays.", metavar="DIR")
    ] = Path("site"),
    extend: Annotated[
        str | None,
        typer.Option("--extend", help="First take over what the index that is served there has.", metavar="URL"),
    ] = None,
    ca_bundle: options.CaBundle = None,
) -> None:
    """Write a static package index that pip and uv install from: any web server can serve the folder.

    [dim]wheel-bakery index dist/ --output site/ && python -m http.server -d site[/dim]
    """
    import os
    import tempfile
    from datetime import UTC, datetime

    from bakery.cli.engine import find_ca_bundle
    from bakery.core.errors import OutputError, UsageError
    from bakery.core.text import printable
    from bakery.release.index.fetch import take
    from bakery.release.index.store import Incoming
    from bakery.release.index.store import extend as add

    missing = [str(path) for path in wheels if not path.exists()]
    if missing:
        raise UsageError(f"no such file or folder: {', '.join(missing)}", hint="name wheels, or the folder of `wheel`")
    files = [file for path in wheels for file in (sorted(path.glob("*.whl")) if path.is_dir() else [path])]
    if not files and not extend:
        raise UsageError(f"no wheels in {', '.join(map(str, wheels))}", hint="bake some first: `wheel-bakery wheel`")
    if extend and not extend.startswith(("http://", "https://")):
        raise UsageError(f"--extend: expected a URL, got {extend!r}", hint="such as https://owner.github.io/project/")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    try:
        output.mkdir(parents=True, exist_ok=True)
        # Beside the index: on its file system, and under no name that a server gives.
        scratch = tempfile.TemporaryDirectory(prefix=".bakery-", dir=output.absolute().parent)
    except OSError as error:
        raise OutputError(f"cannot write {output}: {error.strerror}") from error
    with scratch as folder:
        bundle = find_ca_bundle(ca_bundle, os.environ)
        taken = take(extend, output, Path(folder), say, str(bundle or "")) if extend else []
        made = add(output, [*taken, *(Incoming(file, now) for file in files)], now)
    for name in made.dropped:
        err.print(f"{printable(name)}: its file is gone, so its page no longer names it", markup=False)
    for name in made.added:
        out.print(f"added {printable(name)}", markup=False)
    out.print(
        f"{output / 'simple'}: {len(made.added)} added, {made.kept} kept, {len(made.projects)} projects", markup=False
    )
