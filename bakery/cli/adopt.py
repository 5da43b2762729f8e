"""``wheel-bakery adopt``: the last release of a project, compared with its plan or with new wheels. Needs no engine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from bakery.cli import parameters
from bakery.cli.console import echo, echo_json, err, out
from bakery.cli.failures import leave
from bakery.core.errors import DifferentError, UsageError
from bakery.core.text import count, size_text

if TYPE_CHECKING:
    from bakery.engine.package_index import Link
    from bakery.release.adopt import Comparison
    from wheel_audit.compare import Change


def adopt(
    folder: Annotated[
        Path, typer.Argument(help="The folder of the project.", metavar="DIR", exists=True, file_okay=False)
    ] = Path(),
    release: Annotated[
        str | None, typer.Option("--release", help="Compare with this version, not the newest.", metavar="VERSION")
    ] = None,
    index: Annotated[
        str | None, typer.Option("--index", help="The index, as pip's --index-url. Default: pip's.", metavar="URL")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", help="The project's name, if pyproject.toml has none.", metavar="NAME")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check", help="Compare the wheels of this folder instead of the plan.", metavar="DIST",
            exists=True, file_okay=False,
        ),
    ] = None,
    recipe: parameters.Recipes = None,
    ca_bundle: parameters.CaBundle = None,
    json: parameters.AsJson = False,
) -> None:  # fmt: skip
    """Compare the plan with the last release on a package index, and write a recipe first if there is none.

    Fails (exit code 13) if they differ. Example: wheel-bakery adopt && wheel-bakery wheel && wheel-bakery adopt --check dist/
    """
    from packaging.version import InvalidVersion, Version

    from bakery.cli.init import init
    from bakery.cli.recipes import plans
    from bakery.engine.ca_bundle import find_ca_bundle
    from bakery.engine.package_index import Index, configured, download, links_of
    from bakery.recipe.files import find_table
    from bakery.release.adopt import by_content, by_plan, release_on
    from bakery.release.coverage import project_of

    if index and not index.startswith(("http://", "https://")):
        raise UsageError(f"--index: expected a URL, got {index!r}", hint="such as https://pypi.org/simple/")
    try:
        wanted = str(Version(release)) if release else ""
    except InvalidVersion:
        raise UsageError(f"--release: {release!r} is not a version", hint="such as 1.2.0") from None
    files = sorted(check.absolute().glob("*.whl")) if check else []
    if check and not files:
        raise UsageError(f"no wheels in {check}", hint="build some with `wheel-bakery wheel`")
    os.chdir(folder)
    if not recipe and not find_table(Path.cwd(), Path.cwd()):
        # The only output in JSON is the comparison.
        with redirect_stdout(err.file) if json else nullcontext():
            init(Path(), pyproject=False, base=None, yes=True, print_=False)
    bundle, source = str(find_ca_bundle(ca_bundle, os.environ) or ""), Index(index, {}) if index else configured()
    (root, plan), *more = plans(recipe, None)
    if more:
        raise UsageError(f"{len(more) + 1} recipes: adopt compares one", hint=f"choose it: --recipe {plan.recipe}")
    name = project or project_of(plan, root)
    published = release_on(links_of(source, name, ca_bundle=bundle), name, wanted)
    title = f"{name} {published.version}"
    with tempfile.TemporaryDirectory(prefix="adopt-") as scratch:

        def get(link: Link, path: Path) -> None:
            download(source, name, link, path, ca_bundle=bundle)

        if not check:
            _print_planned(title, by_plan(plan, root, published, Path(scratch), get), json=json)
        _print_built(title, by_content(published, files, Path(scratch), get), json=json)


def _print_planned(title: str, found: Comparison, *, json: bool) -> NoReturn:
    """Print the differences of the plan, and exit."""
    from dataclasses import asdict

    if json:
        echo_json({"release": title, **asdict(found)})
    else:
        differences = count(len(found.differences), "difference") if found.differences else "as planned"
        echo(f"{title}: {differences}; {count(found.wheels, 'wheel')} read, {size_text(found.bytes)}")
        for line in found.differences:
            echo(f"  {line}")
        echo("not compared:")
        for line in found.unknown:
            echo(f"  {line}")
    leave(DifferentError.exit_code if found.differences else 0)


def _print_built(title: str, results: Iterable[tuple[str, tuple[Change, ...]]], *, json: bool) -> NoReturn:
    """Print the changes of each wheel, as soon as they are known, and exit."""
    from dataclasses import asdict

    from wheel_audit.report import render_changes

    rows = {}
    for file, changes in results:
        rows[file] = [asdict(change) for change in changes]
        if not json:
            echo(f"{file}, since {title}:")
            out.print(render_changes(changes))
    if json:
        echo_json({"release": title, "wheels": rows})
    else:
        echo("not compared: the text of files that are no libraries")
    leave(DifferentError.exit_code if any(rows.values()) else 0)
