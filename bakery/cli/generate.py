"""``wheel-bakery generate`` and ``wheel-bakery lock``: write files, or check them for drift."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import options
from bakery.cli.console import echo, progress_display, say
from bakery.cli.recipes import plans
from bakery.core.errors import DriftError
from bakery.core.files import compare, write

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
    """Write bake/RECIPE.hcl and dockerfiles/RECIPE.Dockerfile, which work without bakery, and a workflow for [ci].

    Example: wheel-bakery generate && docker buildx bake -f bake/ujson.hcl wheel
    """
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


def lock(
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    only: options.Only = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; print a diff and fail if the lock file would change.")
    ] = False,
    upgrade: Annotated[
        list[str] | None,
        typer.Option(
            "--upgrade",
            help="Take the newest version of this package or base image; keep all others. May be repeated.",
            metavar="NAME",
        ),
    ] = None,
    no_cache: options.NoCache = False,
    builder: options.Builder = None,
    progress: options.Progress = "auto",
    ca_bundle: options.CaBundle = None,
    allow: options.Allow = None,
    engine_up: options.EngineUp = False,
) -> None:
    """Write bakery.lock: digests of base images, hashes of all packages, versions of the base's system packages.

    Entries that still fit are kept. Nothing is compiled.

    Example: wheel-bakery lock --upgrade setuptools && wheel-bakery wheel --locked
    """
    from bakery.build.options import Options
    from bakery.build.pipeline import lock_plan
    from bakery.cli.engine import open_engine

    loaded = plans(recipe, set_, bake=True)
    engine = open_engine(ca_bundle, engine_up=engine_up)
    chosen = Options(groups=(), only=tuple(only or ()), no_cache=no_cache, builder=builder, allow=tuple(allow or ()))
    drifts: list[str] = []
    for root, plan in loaded:
        result = lock_plan(root, plan, chosen, engine, progress_display(progress), tuple(upgrade or ()))
        for line in result.changes:
            say(f"{plan.recipe}: {line}")
        if check:
            try:
                compare(root, {plan.lock: result.text})
            except DriftError as drift:
                drifts += drift.details
        else:
            is_changed = write(root, {plan.lock: result.text})
            echo(f"{'wrote' if is_changed else 'unchanged:'} {plan.lock}")
    if drifts:
        raise DriftError("a lock file is out of date", hint="run `wheel-bakery lock`", details=drifts)
    if check:
        echo("all lock files are up to date")
