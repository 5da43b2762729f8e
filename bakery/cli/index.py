"""``wheel-bakery index``: a static package index of wheels. No engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import echo, err, say


def index(
    wheels: options.Wheels,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The folder of the index. Its existing wheels are kept.", metavar="DIR"),
    ] = Path("site"),
    extend: Annotated[
        str | None,
        typer.Option("--extend", help="First copy the wheels of the published index at this address.", metavar="URL"),
    ] = None,
    ca_bundle: options.CaBundle = None,
) -> None:
    """Write a static package index for pip and uv. Any web server can serve the folder.

    [dim]wheel-bakery index dist/ --output site/ && python -m http.server -d site[/dim]
    """
    import os
    import tempfile
    from datetime import UTC, datetime

    from bakery.cli.engine import find_ca_bundle
    from bakery.cli.wheel_files import wheel_files
    from bakery.core.errors import OutputError, UsageError
    from bakery.core.text import printable
    from bakery.release.index.fetch import take
    from bakery.release.index.store import NewWheel
    from bakery.release.index.store import extend as add

    files = wheel_files(wheels)
    if not files and not extend:
        raise UsageError(f"no wheels in {', '.join(map(str, wheels))}", hint="build some with `wheel-bakery wheel`")
    if extend and not extend.startswith(("http://", "https://")):
        raise UsageError(f"--extend: expected a URL, got {extend!r}", hint="such as https://owner.github.io/project/")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    try:
        output.mkdir(parents=True, exist_ok=True)
        # Next to the index: on the same file system, and with a name that no server chooses.
        scratch = tempfile.TemporaryDirectory(prefix=".bakery-", dir=output.absolute().parent)
    except OSError as error:
        raise OutputError(f"cannot write {output}: {error.strerror}") from error
    with scratch as folder:
        bundle = find_ca_bundle(ca_bundle, os.environ)
        published = take(extend, output, Path(folder), say, str(bundle or "")) if extend else []
        result = add(output, [*published, *(NewWheel(file, now) for file in files)], now)
    for name in result.dropped:
        err.print(f"{printable(name)}: the file is missing and was removed from the index", markup=False)
    for name in result.added:
        echo(f"added {printable(name)}")
    echo(f"{output / 'simple'}: {len(result.added)} added, {result.kept} kept, {len(result.projects)} projects")
