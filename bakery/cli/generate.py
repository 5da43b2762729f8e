"""``wheel-bakery generate``: write the files, or check them for drift. Pure Python, no engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import options
from bakery.cli.console import echo
from bakery.cli.recipes import plans

if TYPE_CHECKING:
    from bakery.recipe.models import Ci


def generate(
    recipe: options.Recipes = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; print a diff and fail if a file differs.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Write to this folder. Default: the folder of the recipe.", metavar="DIR"),
    ] = None,
) -> None:
    r"""Write bake/RECIPE.hcl and dockerfiles/RECIPE.Dockerfile, which work without bakery, and a workflow for \[ci].

    [dim]wheel-bakery generate && docker buildx bake -f bake/ujson.hcl wheel[/dim]
    """
    from bakery.core.files import compare, write
    from bakery.emit.files import generate as emit
    from bakery.recipe.load import JobFiles, job_files
    from bakery.recipe.problems import count

    jobs = job_files(Path.cwd()) if not recipe else JobFiles()
    outputs = [] if jobs.alone else [(root, item.recipe, emit(item)) for root, item in plans(recipe, None, dated=False)]
    if jobs.files and jobs.ci:
        outputs.append((Path.cwd(), "IREE modules", _workflow(jobs.files, jobs.ci)))
    for root, name, texts in outputs:
        folder = to or root
        if check:
            compare(folder, texts)
            echo(f"{name}: {count(len(texts), 'file')} {'is' if len(texts) == 1 else 'are'} up to date")
        else:
            for path in write(folder, texts):
                echo(f"wrote {path}")


def _workflow(files: Sequence[str], ci: Ci) -> dict[str, str]:
    """Return the workflow for job files. Raises BakeryError if a file is no job, or the jobs have too many targets."""
    from bakery.build.buildx.entitlements import Grants
    from bakery.iree.emit import PATH, module_workflow
    from bakery.iree.job.load import load
    from bakery.iree.job.resolve import resolve
    from bakery.iree.plan import JobFile
    from bakery.iree.tool_image import image_name
    from bakery.resolve.plan_options import workflow_of_jobs

    jobs = []
    for file in files:
        loaded = load(Path(file), file)
        hint = "a workflow can read files of the repository only: move the file there"
        Grants().require(loaded.required_grants(output=False), Path.cwd(), who=file, hint=hint)
        jobs.append(JobFile(file, resolve(loaded, root=Path.cwd())))
    return {PATH: module_workflow(jobs, workflow_of_jobs(ci), image_name)}
