"""Bakery as a library: models, plans, generated files and bakes.

from pathlib import Path
from bakery import Builder, Matrix, Recipe, bake, plan_recipe

recipe = Recipe(name="my-kernels", matrix=Matrix(python=("3.11", "3.13")), builder=Builder(toolkit="none"))
report = bake(plan_recipe(recipe, root=Path(".")), root=Path("."), environ=os.environ, groups=("full",))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bakery.build.report import RunReport
from bakery.core.git import committed
from bakery.emit.files import generate
from bakery.plan.model import Plan
from bakery.recipe.load import from_python
from bakery.recipe.models import Recipe
from bakery.resolve.plan import resolve
from bakery.resolve.set_option import parse_set_options


def plan_recipe(
    recipe: Recipe,
    *,
    root: Path,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    dated: bool = True,
) -> Plan:
    """Return the plan of a recipe.

    Args:
        root: the project; ``source.path`` is relative to it.
        sets: as ``--set`` of the command line.
        environ: entries that start with ``BAKERY_`` set variables; None to read no environment.
        dated: if nothing sets SOURCE_DATE_EPOCH, use the time of the source's last commit. Pass False to generate
            files that are committed themselves.

    Raises:
        RecipeError: the recipe's fields contradict each other.
        UsageError: ``sets`` is malformed.
        PlanError: the recipe cannot be planned.
    """
    loaded = from_python(recipe, root)
    options = parse_set_options(sets)
    return resolve(loaded, options, environ or {}, committed(loaded.source) if dated and loaded.source else None)


def generate_files(plan: Plan) -> dict[str, str]:
    """Return path → text of the bake file, the Dockerfile and its ignore file."""
    return generate(plan)


def bake(
    plan: Plan,
    *,
    root: Path,
    environ: Mapping[str, str],
    groups: Sequence[str] = ("wheel",),
    only: Sequence[str] = (),
    output: Path | None = None,
    ca_bundle: Path | None = None,
    allow: Sequence[str] = (),
    keep_going: bool | None = None,
    parallel: int = 0,
    resume: bool = False,
    rebuild: bool = False,
    locked: bool = False,
    builder: str | None = None,
) -> RunReport:
    """Bake a plan and publish the wheels that pass the audit. Prints nothing.

    Args:
        environ: leads to the engine; usually ``os.environ``.
        groups: any of ``wheel``, ``test``, ``dev``, ``full``.
        only: globs that select cells; all cells if empty.
        output: the folder for wheels; None for the recipe's.
        ca_bundle: CA certificates (PEM) for build steps.
        allow: as ``--allow`` of the command line.
        keep_going: after a failure, stop only the cells that depend on it; None: only if there are several cells.
        parallel: maximum number of cells to bake in parallel; 0 for as many as the engine has cores.
        resume: skip cells that the last run finished and that have not changed, whatever their image tags and branches
            name now.
        rebuild: bake cells that are up to date, too.
        locked: as ``--locked`` of the command line.
        builder: a builder with several nodes, from the configuration in ``root``; or a builder of buildx.

    Raises:
        BakeryError: of any kind; with `SomeFailed`'s exit code if only some cells are done.
    """
    from bakery.build.buildx.progress import Listener
    from bakery.build.options import CellSelection, Options
    from bakery.build.pipeline import bake_plan
    from bakery.build.report import conclusion
    from bakery.build.up_to_date import kept_run
    from bakery.engine.session import open_engine

    unchanged = CellSelection.UNFINISHED if resume else CellSelection.CHANGED
    options = Options(
        groups=tuple(groups),
        only=tuple(only),
        output=output,
        allow=tuple(allow),
        locked=locked,
        keep_going=keep_going,
        parallel=parallel,
        selection=CellSelection.ALL if rebuild else unchanged,
        builder=builder,
    )
    report = kept_run(root.resolve(), plan, options, environ)
    if report is None:
        engine = open_engine(environ, ca_bundle, builder=builder, folder=root)
        options = replace(options, builder=None if engine.nodes else builder)
        report = bake_plan(root.resolve(), plan, options, engine, Listener())
    if failure := conclusion([report]):
        raise failure
    return report
