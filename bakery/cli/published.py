"""What a package index has of a project, compared with its plan: ``adopt`` and ``coverage``. Needs no engine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from bakery.cli import parameters
from bakery.cli.console import echo, echo_json, err, out
from bakery.cli.failures import leave
from bakery.cli.recipes import plans
from bakery.core.errors import AuditError, DifferentError, UsageError
from bakery.core.text import count, size_text
from bakery.engine.ca_bundle import find_ca_bundle

if TYPE_CHECKING:
    from bakery.engine.package_index import Link
    from bakery.release.adopt import Comparison
    from wheel_audit.compare import Change

Project = Annotated[
    str | None, typer.Option("--project", help="The project's name, if pyproject.toml has none.", metavar="NAME")
]


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
    project: Project = None,
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
    from bakery.cli.init import init
    from bakery.engine.package_index import Index, configured, download, links_of
    from bakery.recipe.files import find_table
    from bakery.release.adopt import by_content, by_plan, release_on
    from bakery.release.coverage import project_of

    if index and not index.startswith(("http://", "https://")):
        raise UsageError(f"--index: expected a URL, got {index!r}", hint="such as https://pypi.org/simple/")
    wanted = _release(release, "--release")
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


def coverage(
    index: Annotated[
        str, typer.Argument(help="The index, as pip's --index-url: https://pypi.org/simple/.", metavar="INDEX-URL")
    ],
    recipe: parameters.Recipes = None,
    set_: parameters.Sets = None,
    project: Project = None,
    version: Annotated[
        str | None, typer.Option("--version", help="Compare this version, not the newest.", metavar="VERSION")
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", help="Releases that the recipe leaves out on purpose.", metavar="AXIS=RELEASE"),
    ] = None,
    ca_bundle: parameters.CaBundle = None,
    json: parameters.AsJson = False,
) -> None:
    """Show the planned cells that an index lacks, and the new Python, CUDA, torch and JAX releases that the recipe lacks.

    Fails (exit code 8) if there are any. Example: wheel-bakery coverage https://pypi.org/simple/
    """
    from packaging.version import Version

    from bakery.cli.tables.coverage import render
    from bakery.engine.package_index import Index, configured, files_of, releases
    from bakery.release.coverage import AXES, project_of
    from bakery.release.coverage import coverage as compare

    if not index.startswith(("http://", "https://")):
        raise UsageError(f"expected the URL of a package index, got {index!r}", hint="such as https://pypi.org/simple/")
    wanted = _release(version, "--version")
    ignored = [(axis, glob) for axis, _, glob in (item.partition("=") for item in ignore or ())]
    if wrong := [axis for axis, glob in ignored if axis not in AXES or not glob]:
        raise UsageError(f"--ignore: expected AXIS=RELEASE, got {wrong[0]!r}", hint=f"an axis is {' or '.join(AXES)}")
    bundle = str(find_ca_bundle(ca_bundle, os.environ) or "")

    @cache
    def offered(name: str) -> list[Version]:
        return releases(configured(), name, sdist=False, ca_bundle=bundle, yanked=False)

    results = []
    for root, plan in plans(recipe, set_):
        name = project or project_of(plan, root)
        # Who asks for a version gets it, also if it is yanked.
        files = files_of(Index(index, {}), name, ca_bundle=bundle, yanked=bool(wanted))
        results.append(compare(plan, name, wanted, files, offered, ignored))
    if json:
        echo_json([asdict(item) for item in results])
    else:
        for item in results:
            out.print(render(item))
    if not all(item.complete for item in results):
        leave(AuditError.exit_code)


def _release(text: str | None, option: str) -> str:
    """Return a version in its normal form; empty for none. Raises UsageError."""
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(text)) if text else ""
    except InvalidVersion:
        raise UsageError(f"{option}: {text!r} is not a version", hint="such as 1.2.0") from None
