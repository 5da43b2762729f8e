"""Bakery from Python: the same models, the same plan, the same files, the same bake.

from pathlib import Path
from bakery import Builder, Matrix, Recipe, bake, plan_recipe

recipe = Recipe(name="my-kernels", matrix=Matrix(python=("3.11", "3.13")), builder=Builder(toolkit="none"))
report = bake(plan_recipe(recipe, root=Path(".")), root=Path("."), environ=os.environ, groups=("full",))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bakery.build.report import RunReport
from bakery.core.git import committed
from bakery.emit.files import generate
from bakery.plan.model import Plan
from bakery.recipe.load import from_python
from bakery.recipe.models import Recipe
from bakery.resolve.plan import resolve


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
        sets: as the command's ``--set``.
        environ: names that start with ``BAKERY_`` set variables; none are looked at without it.
        dated: SOURCE_DATE_EPOCH follows the source's last commit, where nothing sets it; not for files that are
            committed themselves.

    Raises:
        RecipeError: the recipe's fields contradict each other.
        UsageError: ``sets`` cannot be understood.
        PlanError: no plan can satisfy the recipe.
    """
    loaded = from_python(recipe, root)
    return resolve(loaded, sets, environ or {}, committed(loaded.source) if dated and loaded.source else None)


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
    locked: bool = False,
    builder: str | None = None,
) -> RunReport:
    """Bake a plan on the engine that the environment leads to, in silence, and publish what passed the audit.

    Args:
        environ: leads to the engine; usually ``os.environ``.
        groups: any of ``wheel``, ``test``, ``dev``, ``full``.
        only: globs over cells; none for all.
        output: the folder for wheels; None for the recipe's.
        ca_bundle: a PEM file that build steps shall trust.
        allow: as the command's ``--allow``.
        keep_going: a failed cell stops only what depends on it; None for that where there are several cells.
        parallel: cells that are baked at once; 0 for as many as the engine has cores.
        resume: leave out what the last run finished and what has not changed since.
        locked: as the command's ``--locked``.
        builder: a builder of many nodes, from the configuration in ``root``; or one of buildx's own.

    Raises:
        BakeryError: any of its kinds; also `SomeFailed`'s exit code where some cells are done.
    """
    from bakery.build.display.display import QuietDisplay
    from bakery.build.exit_status import conclusion
    from bakery.build.options import Again, Options
    from bakery.build.pipeline import bake_plan
    from bakery.engine.builder_config import nodes_of
    from bakery.engine.discover import find
    from bakery.engine.nodes import gather
    from bakery.engine.session import EngineSession

    environment = {**environ, **find(environ).environment}
    named = nodes_of(builder, root) if builder else ()
    nodes = gather(builder, named, environment, lambda _: None) if builder and named else None
    engine = EngineSession(environment, ca_bundle, lambda _: None, nodes)
    options = Options(
        groups=tuple(groups),
        only=tuple(only),
        output=output,
        allow=tuple(allow),
        locked=locked,
        keep_going=keep_going,
        parallel=parallel,
        again=Again.UNFINISHED if resume else Again.ALL,
        builder=None if nodes else builder,
    )
    report = bake_plan(root.resolve(), plan, options, engine, QuietDisplay())
    error = conclusion([report])
    if error:
        raise error
    return report
