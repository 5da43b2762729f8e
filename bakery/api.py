"""Bakery as a library: models, plans, generated files and bakes.

from bakery import Recipe

plan = Recipe.load("examples/cuda").plan(set={"CUDA_VERSION": "12.8.0"})
report = plan.bake(groups=["full"], on_event=print)
print(report.wheels)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr

from bakery.build.report import RunReport
from bakery.core.errors import UsageError
from bakery.core.git import committed
from bakery.emit.files import generate
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.recipe import models
from bakery.recipe.load import Loaded, from_python, load
from bakery.resolve.plan import resolve
from bakery.resolve.set_option import parse_set_options

if TYPE_CHECKING:
    from bakery.build.buildx.board import Listener
    from bakery.build.buildx.progress import Event
    from bakery.build.options import Options


class Recipe(models.Recipe):
    """A recipe: loaded from a file, or made in Python."""

    _loaded: Loaded | None = PrivateAttr(default=None)

    @classmethod
    def load(cls, path: str | Path = ".", *, root: str | Path = ".") -> Recipe:
        """Return the recipe that ``--recipe`` would name: in a file or a folder, in a workspace, or a shipped one.

        Args:
            root: the folder to load it from, as the command's working folder.

        Raises:
            RecipeError: there is no such recipe, or it is not valid; ``details`` has every problem.
            UsageError: the path names several recipes.
        """
        folder = Path(root).absolute()
        text = os.fspath(path)
        recipes = load(None if text == "." else text, folder)
        if len(recipes) > 1:
            names = ", ".join(item.recipe.name for item in recipes)
            raise UsageError(
                f"{text!r} names {len(recipes)} recipes: {names}", hint="load one by its name or its folder"
            )
        recipe = cls.model_construct(recipes[0].recipe.model_fields_set, **dict(recipes[0].recipe))
        recipe._loaded = recipes[0]
        return recipe

    def plan(
        self,
        *,
        set: Mapping[str, str] | None = None,
        root: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> RecipePlan:
        """Return the plan of the recipe.

        Args:
            set: variables, or overrides in bake's grammar: ``{"CUDA_VERSION": "12.8.0"}``.
            root: the project of a recipe made in Python; a loaded recipe knows its own. Default: the working folder.
            environ: sets variables (``BAKERY_…``) and leads to the engine; ``os.environ`` if None.

        Raises:
            RecipeError: the recipe's fields contradict each other.
            UsageError: ``set`` is malformed, or ``root`` is not the project that the recipe was loaded from.
            PlanError: the recipe cannot be planned.
        """
        environment = dict(os.environ if environ is None else environ)
        sets = [f"{name}={value}" for name, value in (set or {}).items()]
        if self._loaded is None:
            folder = Path(root or ".").absolute()
            return RecipePlan(plan_recipe(self, root=folder, sets=sets, environ=environment), folder, environment)
        if root is not None and Path(root).absolute() != self._loaded.root:
            raise UsageError(f"this recipe was loaded from {self._loaded.root}", hint="leave out root")
        # `model_copy` keeps the origin of a recipe, and changes its fields.
        loaded = replace(self._loaded, recipe=from_python(self, self._loaded.root).recipe)
        date = committed(loaded.source) if loaded.source else None
        return RecipePlan(resolve(loaded, parse_set_options(sets), environment, date), loaded.root, environment)


@dataclass(frozen=True, slots=True)
class RecipePlan:
    """A plan in its project.

    Attributes:
        values: every decided value, as the emitters read it.
        root: the project; the bake runs there.
        environ: leads to the engine.
    """

    values: Plan
    root: Path
    environ: Mapping[str, str]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that are baked."""
        return self.values.cells

    @property
    def variables(self) -> dict[str, str]:
        """Variable → value."""
        return self.values.values()

    def files(self) -> dict[str, str]:
        """Return path → text of the bake file, the Dockerfile and its ignore file. Writes nothing."""
        return generate_files(self.values)

    def bake(self, *, on_event: Callable[[Event], None] | None = None, **options: Any) -> RunReport:
        """Bake the plan, and return the report; its ``wheels`` have passed the audit. Prints nothing.

        Args:
            on_event: called in this thread for every `StepStarted`, `StepFinished`, `LogLines` and `TextLine`. If it
                raises, the build is ended, and the exception is raised again.
            options: the keyword arguments of `bake`: ``groups``, ``only``, ``output``, ….

        Raises:
            BakeryError: as `bake` does.
        """
        return bake(self.values, root=self.root, environ=self.environ, on_event=on_event, **options)


def plan_recipe(
    recipe: models.Recipe,
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
    on_event: Callable[[Event], None] | None = None,
) -> RunReport:
    """Bake a plan and publish the wheels that pass the audit. Prints nothing.

    Args:
        environ: leads to the engine; usually ``os.environ``.
        groups: any of ``wheel``, ``test``, ``dev``, ``full``.
        only: globs that select cells; all cells if empty.
        output: the folder for wheels; None for the recipe's.
        ca_bundle: CA certificates (PEM) for build steps; by default those that ``environ`` names.
        allow: as ``--allow`` of the command line.
        keep_going: after a failure, stop only the cells that depend on it; None: only if there are several cells.
        parallel: maximum number of cells to bake in parallel; 0 for as many as the engine has cores.
        resume: skip finished cells that have not changed, whatever their image tags and branches name now.
        rebuild: bake cells that are up to date, too.
        locked: as ``--locked`` of the command line.
        builder: a builder with several nodes, from the configuration in ``root``; or a builder of buildx.
        on_event: receives the events of the bake, in this thread.

    Raises:
        BakeryError: of any kind; with `SomeFailed`'s exit code if only some cells are done.
    """
    from bakery.build.options import CellSelection, Options
    from bakery.build.run_outcome import conclusion

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
    report = _bake(plan, options, root, environ, ca_bundle, on_event)
    if failure := conclusion([report]):
        raise failure
    return report


def _bake(
    plan: Plan,
    options: Options,
    root: Path,
    environ: Mapping[str, str],
    ca_bundle: Path | None,
    on_event: Callable[[Event], None] | None,
) -> RunReport:
    from bakery.build.pipeline import bake_plan
    from bakery.build.up_to_date import kept_run
    from bakery.engine.ca_bundle import find_ca_bundle
    from bakery.engine.session import open_engine

    if report := kept_run(root.resolve(), plan, options, environ):
        return report
    engine = open_engine(environ, find_ca_bundle(ca_bundle, environ), builder=options.builder, folder=root)
    options = replace(options, builder=None if engine.nodes else options.builder)
    return bake_plan(root.resolve(), plan, options, engine, _listener(on_event))


def _listener(on_event: Callable[[Event], None] | None) -> Listener:
    from bakery.build.buildx.board import Listener

    class Relay(Listener):
        def line(self, raw: bytes, events: Sequence[Event], cell: str = "") -> None:
            for event in events:
                on_event(event) if on_event else None

    return Relay()
