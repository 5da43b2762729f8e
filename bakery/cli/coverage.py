"""``coverage``: what a package index lacks of the plan, and the plan of new releases."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from bakery.cli import parameters
from bakery.cli.console import echo_json, out
from bakery.cli.failures import leave
from bakery.core.errors import AuditError, UsageError


def coverage(
    index: Annotated[
        str, typer.Argument(help="The index, as pip's --index-url: https://pypi.org/simple/.", metavar="INDEX-URL")
    ],
    recipe: parameters.Recipes = None,
    set_: parameters.Sets = None,
    project: Annotated[
        str | None, typer.Option("--project", help="The project's name, if pyproject.toml has none.", metavar="NAME")
    ] = None,
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
    from functools import cache

    from packaging.version import Version

    from bakery.cli.recipes import plans
    from bakery.cli.tables.coverage import render
    from bakery.engine.ca_bundle import find_ca_bundle
    from bakery.engine.package_index import Index, configured, files_of, releases
    from bakery.release.coverage import AXES, project_of
    from bakery.release.coverage import coverage as compare

    if not index.startswith(("http://", "https://")):
        raise UsageError(f"expected the URL of a package index, got {index!r}", hint="such as https://pypi.org/simple/")
    wanted = _release(version) if version else ""
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
        echo_json([item.to_json() for item in results])
    else:
        for item in results:
            out.print(render(item))
    if not all(item.complete for item in results):
        leave(AuditError.exit_code)


def _release(version: str) -> str:
    """Return a version in its normal form. Raises UsageError."""
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(version))
    except InvalidVersion:
        raise UsageError(f"--version: {version!r} is not a version", hint="such as 1.2.0") from None
