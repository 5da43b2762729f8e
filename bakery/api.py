"""Bakery as a library.

import bakery

project = bakery.open("examples/cuda")
plan = project.recipe().plan(CUDA_VERSION="12.8.0")
for finding in plan.check():
    print(finding.text)
report = plan.bake(groups=("full",), on_event=print)
bakery.audit(report.wheels[0].path, plan)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from pydantic import ValidationError

from bakery.core import files
from bakery.core.errors import UsageError
from bakery.core.git import committed
from bakery.emit.files import generate
from bakery.init.stable_abi import read_project
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.recipe import models
from bakery.recipe.load import Loaded, from_python, load
from bakery.recipe.problems import nearest, recipe_error
from bakery.recipe.pydantic_errors import find_problems
from bakery.resolve.plan import resolve
from bakery.resolve.repository import repository_of
from bakery.resolve.rules import judge
from bakery.resolve.rules.findings import refuse_broken
from bakery.resolve.set_option import parse_set_options
from bakery.runs.run_report import RunReport

if TYPE_CHECKING:
    from bakery.engine.session import EngineSession
    from bakery.resolve.rules.rule import Finding
    from bakery.runs.buildx.board import Listener
    from bakery.runs.buildx.progress import Event
    from bakery.runs.run_options import Options
    from wheel_audit.auditor import WheelReport


def open(path: str | Path = ".", *, environ: Mapping[str, str] | None = None) -> Project:
    """Return the project in a folder. Reads nothing yet.

    Args:
        environ: sets variables (``BAKERY_…``) and leads to the engine; ``os.environ`` if None.
    """
    return Project(Path(path).absolute(), dict(os.environ if environ is None else environ))


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with recipes, and the environment that their plans and bakes see."""

    root: Path
    environ: Mapping[str, str]

    def recipes(self) -> tuple[LoadedRecipe, ...]:
        """Return the recipe, or all recipes of the workspace, in the folder.

        Raises RecipeError if there is none, or one is not valid; ``details`` has every problem.
        """
        return tuple(LoadedRecipe(self, item) for item in load(None, self.root))

    def recipe(self, which: str | models.Recipe | None = None) -> LoadedRecipe:
        """Return one recipe.

        Args:
            which: what ``--recipe`` takes (a file, a folder, the name of a recipe of the workspace or of a shipped one), or
                a recipe made in Python, whose paths are relative to the folder. None for the only one in the folder.

        Raises:
            RecipeError: there is no such recipe, or it is not valid; ``details`` has every problem.
            UsageError: ``which`` stands for several recipes.
        """
        if isinstance(which, models.Recipe):
            return LoadedRecipe(self, from_python(which, self.root))
        found = load(which, self.root)
        if len(found) > 1:
            names = ", ".join(item.recipe.name for item in found)
            raise UsageError(f"{which or self.root} has {len(found)} recipes: {names}", hint="name one of them")
        return LoadedRecipe(self, found[0])


@dataclass(frozen=True, slots=True)
class LoadedRecipe:
    """A recipe of a project."""

    project: Project
    loaded: Loaded

    @property
    def recipe(self) -> models.Recipe:
        """The recipe as it is written, with the defaults of its keys."""
        return self.loaded.recipe

    def changed(self, **fields: object) -> LoadedRecipe:
        """Return the recipe with other values of some fields, such as ``matrix=Matrix(python=("3.13",))``.

        Raises RecipeError if a field is not valid, or fields contradict each other; ``details`` has every problem.
        """
        data = {name: getattr(self.recipe, name) for name in self.recipe.model_fields_set} | fields
        try:
            made = models.Recipe.model_validate(data)
        except ValidationError:
            raise recipe_error(f"Recipe(name={self.recipe.name!r})", find_problems(models.Recipe, data)) from None
        recipe = from_python(made, self.loaded.root).recipe
        return replace(self, loaded=replace(self.loaded, recipe=recipe))

    def plan(
        self, overrides: Mapping[str, str] | None = None, /, *, dated: bool = True, **variables: str
    ) -> RecipePlan:
        """Return the plan.

        Args:
            overrides: in bake's grammar: ``{"*.args.EXTRA": "1"}``; variables, too.
            dated: if nothing sets SOURCE_DATE_EPOCH, use the time of the source's last commit. False for files that are
                committed themselves.
            variables: of the recipe: ``CUDA_VERSION="12.8.0"``.

        Raises:
            UsageError: a name or value is malformed, or the recipe has no such variable.
            PlanError: the recipe cannot be planned.
        """
        sets = [f"{name}={value}" for name, value in {**(overrides or {}), **variables}.items()]
        source = self.loaded.source
        date = committed(source) if dated and source else None
        plan = resolve(self.loaded, parse_set_options(sets), self.project.environ, date)
        return RecipePlan(plan, self.loaded.root, self.project.environ)


class BakeOptions(TypedDict, total=False):
    """The options of `RecipePlan.bake`: those of the command, with its defaults.

    Attributes:
        groups: any of ``wheel``, ``test``, ``dev``, ``full``; ``wheel`` by default.
        only: globs that select cells, all of them if empty; ``!GLOB`` leaves cells out.
        output: the folder for wheels; None for the recipe's.
        ca_bundle: CA certificates (PEM) for build steps; by default those that the environment names.
        allow: as ``--allow``.
        keep_going: after a failure, stop only the cells that depend on it; None: if there are several cells.
        parallel: maximum number of cells to bake in parallel; 0 for as many as the engine has cores.
        retries: of a cell after a failure of the network or the engine.
        cell_timeout_s: time limit of one try of a cell in seconds.
        resume: skip finished cells that have not changed, whatever their image tags and branches name now.
        rebuild: bake cells that are up to date, too.
        no_cache: run all steps again.
        pull: look up image tags again.
        locked: fail if anything differs from the lock.
        compiler_cache: a folder that the compiler cache is restored from and saved to.
        builder: a builder with several nodes, from the configuration of the project; or a builder of buildx.
        ignore_rules: bake a plan that breaks a rule, too.
        on_event: called in this thread for every `StepStarted`, `StepFinished`, `LogLines` and `TextLine`. If it raises, the
            build is ended, and the exception is raised again.
    """

    groups: Sequence[str]
    only: Sequence[str]
    output: Path | None
    ca_bundle: Path | None
    allow: Sequence[str]
    keep_going: bool | None
    parallel: int
    retries: int
    cell_timeout_s: float | None
    resume: bool
    rebuild: bool
    no_cache: bool
    pull: bool
    locked: bool
    compiler_cache: Path | None
    builder: str | None
    ignore_rules: bool
    on_event: Callable[[Event], None] | None


_LISTS = ("groups", "only", "allow", "upgrade")
_PATHS = ("output", "ca_bundle", "compiler_cache")


def _check_options(options: Mapping[str, object]) -> None:
    """Raise UsageError if a name is no option of `BakeOptions`, or a text stands for a list or a path."""
    for name, value in options.items():
        if name not in BakeOptions.__annotations__:
            close = nearest(name, BakeOptions.__annotations__)
            what = f"unknown option {name}" + (f"; did you mean {close}?" if close else "")
            raise UsageError(what, hint=f"options: {', '.join(BakeOptions.__annotations__)}")
        _check_type(name, value)


def _check_type(name: str, value: object) -> None:
    if isinstance(value, str) and name in (*_LISTS, *_PATHS):
        written = f"Path({value!r})" if name in _PATHS else f"[{value!r}]"
        raise UsageError(f"{name} is a text: {value!r}", hint=f"write {name}={written}")


@dataclass(frozen=True, slots=True)
class RecipePlan:
    """A plan in its project.

    Attributes:
        details: every decided value, as the emitters read it.
        root: the project; the bake runs there.
        environ: leads to the engine.
    """

    details: Plan
    root: Path
    environ: Mapping[str, str]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that are baked."""
        return self.details.cells

    @property
    def variables(self) -> dict[str, str]:
        """Variable → value."""
        return self.details.values()

    def files(self) -> dict[str, str]:
        """Return path → text of the bake file, the Dockerfile and all that belongs to them. Writes nothing.

        As ``generate`` writes them: for a project below the top of its repository, the path of the workflow starts with
        ``../``.
        """
        return {Path(above, path).as_posix(): text for _, above, texts in self._files() for path, text in texts.items()}

    def _files(self) -> list[tuple[Path, str, dict[str, str]]]:
        """Return the project with its files, and the top of its repository with the workflow; each with its path from here."""
        top, repository = repository_of(self.root)
        texts = generate(self.details, repository)
        name = repository.named(self.details.workflow) if self.details.ci else ""
        workflow = {name: texts.pop(name)} if name else {}
        return [(self.root, "", texts), (top, os.path.relpath(top, self.root.resolve()), workflow)]

    def write(self) -> list[str]:
        """Write `files`, and return the paths that changed. Raises OutputError."""
        return [
            Path(above, path).as_posix()
            for folder, above, texts in self._files()
            for path in files.write(folder, texts)
        ]

    def check(self) -> tuple[Finding, ...]:
        """Return the rules that the plan and its source break, errors first. Needs no engine.

        A finding has the ``rule`` (``id``, ``severity``, ``why``, ``fix``), the ``text`` of the problem and its ``cells``.
        """
        from bakery.runs.source_files import source_of

        return judge(self.details, project=read_project(self.details, source_of(self.root, self.details)))

    def lock(self, *, upgrade: Sequence[str] = (), allow: Sequence[str] = ()) -> bool:
        """Write the lock: digests of base images, hashes of all packages. Return whether it changed. Compiles nothing.

        Entries that still fit are kept, except names in ``upgrade``. Raises BakeryError.
        """
        for name, value in (("upgrade", upgrade), ("allow", allow)):
            _check_type(name, value)
        from bakery.runs.pipeline import lock_plan
        from bakery.runs.run_options import Options

        options = Options(groups=(), allow=tuple(allow))
        self._refuse_broken(options)
        made = lock_plan(self.root, self.details, options, self._engine(None, None), _listener(None), tuple(upgrade))
        return bool(files.write(self.root, {self.details.lock: made.text}))

    def bake(self, **options: Unpack[BakeOptions]) -> RunReport:
        """Bake the plan, and publish the wheels that pass the audit. Prints nothing.

        Returns the report; its ``wheels`` are in the output folder. As the command does, refuses a plan that breaks a rule
        before an engine is touched.

        Raises:
            UsageError: an option has another name, or a text stands for a list or a path.
            PlanError: the plan breaks a rule.
            BakeryError: of any other kind; `SomeFailed` if only some cells are done.
        """
        from bakery.runs.conclusion import conclusion
        from bakery.runs.pipeline import bake_plan
        from bakery.runs.run_options import CellSelection, Options
        from bakery.runs.selection import early_report, select_early

        _check_options(options)
        unchanged = CellSelection.UNFINISHED if options.get("resume") else CellSelection.CHANGED
        run = Options(
            groups=tuple(options.get("groups", ("wheel",))),
            only=tuple(options.get("only", ())),
            output=options.get("output"),
            no_cache=options.get("no_cache", False),
            pull=options.get("pull", False),
            builder=options.get("builder"),
            allow=tuple(options.get("allow", ())),
            keep_going=options.get("keep_going"),
            parallel=options.get("parallel", 0),
            retries=options.get("retries", 2),
            cell_timeout_s=options.get("cell_timeout_s"),
            selection=CellSelection.ALL if options.get("rebuild") else unchanged,
            locked=options.get("locked", False),
            compiler_cache=options.get("compiler_cache"),
        )
        root = self.root.resolve()
        early = select_early(root, self.details, run, self.environ)
        if early and (report := early_report(early)):
            return report
        if not options.get("ignore_rules"):
            self._refuse_broken(run)
        engine = self._engine(options.get("ca_bundle"), run.builder)
        run = replace(run, builder=None if engine.nodes else run.builder)
        report = bake_plan(root, self.details, run, engine, _listener(options.get("on_event")), early)
        if failure := conclusion([report]):
            raise failure
        return report

    def _refuse_broken(self, run: Options) -> None:
        from bakery.runs.building_host import building_host
        from bakery.runs.source_files import source_of

        host = building_host(self.details, run.builder, self.environ)
        project = read_project(self.details, source_of(self.root.resolve(), self.details, run.output, run.sources))
        refuse_broken(self.details, judge(self.details, host, project))

    def _engine(self, ca_bundle: Path | None, builder: str | None) -> EngineSession:
        from bakery.engine.ca_bundle import find_ca_bundle
        from bakery.engine.session import open_engine

        bundle = find_ca_bundle(ca_bundle, self.environ)
        return open_engine(self.environ, bundle, builder=builder, folder=self.root.resolve())


def audit(wheel: str | Path, plan: RecipePlan | None = None) -> WheelReport:
    """Audit a wheel: against its own name, and against the cell of a plan that it belongs to.

    Runs nothing of the wheel. Without a plan, this is `wheel_audit.audit`.

    Raises:
        OutputError: the wheel cannot be read.
        UsageError: no cell of the plan has such a wheel.
    """
    from bakery.release.verify import expectation
    from bakery.runs.audited import report_on

    path = Path(wheel)
    expected = None
    if plan is not None and (expected := expectation(plan.details, path)) is None:
        raise UsageError(f"{path.name} is in no cell of recipe {plan.details.recipe}", hint="audit it without the plan")
    return report_on(path, expected)


def _listener(on_event: Callable[[Event], None] | None) -> Listener:
    from bakery.runs.buildx.board import Listener

    class Relay(Listener):
        def line(self, raw: bytes, events: Sequence[Event], cell: str = "") -> None:
            if on_event:
                for event in events:
                    on_event(event)

    return Relay()
