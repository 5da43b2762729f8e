"""Which cells of a run are built, from what, and which are up to date. Little is imported.

A cell is up to date if its key is that of the last run that finished it, and its wheels and their records are in the
output folder. By default, a cell whose key names an input that others can change under its name (a branch, a folder) is
never up to date, and for the tags of base images the engine is asked; ``--resume`` looks at the key alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.core.errors import BakeryError, OutputError
from bakery.core.source_manifest import EMPTY, SourceManifest
from bakery.core.target_kinds import TARGET_KINDS, Kind
from bakery.plan.cells import Cell, Image, Target
from bakery.plan.dockerfile import Add
from bakery.plan.model import Plan
from bakery.plan.values import expand
from bakery.runs.cell_tasks import CellTask, cell_keys, cell_tasks, publish_groups
from bakery.runs.journal import UNKNOWN, Record, Result, newest_records
from bakery.runs.lock.is_current import check_origins, load_lock, locked_images, with_lock, with_sources
from bakery.runs.lock.model import Materials
from bakery.runs.publish import holds
from bakery.runs.records.read import kept_records
from bakery.runs.repository import repository_digest
from bakery.runs.run_folders import run_folder, state_folder
from bakery.runs.run_options import CellSelection, Options
from bakery.runs.run_report import RunReport, about, finished_target
from bakery.runs.source_files import source_of

if TYPE_CHECKING:
    from bakery.engine.image_digests import PresentImages


@dataclass(frozen=True)
class Run:
    """One run of one recipe: what was asked for, and where.

    Attributes:
        directory: the recipe's output folder, relative to ``root``.
        environment: of the process, with the address of the engine.
        say: shows a line to the user.
    """

    root: Path
    recipe: str
    directory: str
    options: Options
    environment: Mapping[str, str]
    say: Callable[[str], None]

    @classmethod
    def of(
        cls,
        root: Path,
        plan: Plan,
        options: Options,
        environment: Mapping[str, str],
        say: Callable[[str], None] = lambda _: None,
    ) -> Run:
        """Return the run of the recipe of a plan."""
        return cls(root, plan.recipe, plan.output, options, environment, say)

    @property
    def output(self) -> Path:
        """The folder that receives wheels."""
        return self.options.output or self.root / self.directory

    @cached_property
    def state(self) -> Path:
        """The folder with the journals and the folders of runs. Raises as `state_folder`."""
        return self.options.state or state_folder(self.root, self.environment)

    def claim(self, cell: str, files: Mapping[str, str]) -> None:
        """Claim the names of a cell's wheels (name → sha256) for this command. Raises NameTaken."""
        self.options.claims.take(f"{self.recipe} {cell}", self.output, files)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The cells of a run: those that it builds, what they are built from, and those that are up to date.

    Attributes:
        plan: with locked commits instead of branches and tags.
        targets: all that were asked for.
        tasks: name → what is built.
        finished: cell → its record, if it is not built again.
        previous: cell → its newest record.
        keys: cell → digest of its inputs.
        source: as it is sent; empty for cibuildwheel, which may build in the project.
        locked: cell → the materials that its build must use.
        notes: what is to be said about the lock.
    """

    run: Run
    plan: Plan
    targets: tuple[Target, ...]
    tasks: Mapping[str, CellTask]
    previous: Mapping[str, Record]
    keys: Mapping[str, str]
    finished: Mapping[str, Record] = field(default_factory=dict)
    source: SourceManifest = EMPTY
    locked: Mapping[str, Materials] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @cached_property
    def present_images(self) -> PresentImages:
        """The digests of images that a bake takes from the engine."""
        from bakery.engine.image_digests import PresentImages

        return PresentImages(self.run.environment, self.run.options.builder)

    @cached_property
    def repository(self) -> str:
        """The digest of what the source's git repository answers to builds; empty without one."""
        return repository_digest(self.run.root, self.plan, self.run.environment)

    @property
    def task_targets(self) -> list[Target]:
        """The targets of all tasks."""
        return [target for task in self.tasks.values() for target in task.targets]

    @property
    def task_cells(self) -> list[Cell]:
        """The cells of all tasks."""
        return [task.cell for task in self.tasks.values()]

    @property
    def peaks(self) -> dict[str, int]:
        """Cell → MB that it needed in an earlier run."""
        return {name: record.memory for name, record in self.previous.items()}

    @property
    def keeps_going(self) -> bool:
        """Whether a failed cell stops only the cells that depend on it."""
        keep_going = self.run.options.keep_going
        return len(self.tasks) > 1 if keep_going is None else keep_going

    @property
    def holds(self) -> bool:
        """Whether it still holds once the engine is there: the source is the same, and no tag of an image is to be asked."""
        locked = locked_images(self.locked)
        return not any(tagged_images(task, locked) for task in self.tasks.values()) and not self.source.changed()

    def claim_finished(self) -> None:
        """Claim the names of the wheels that are not built again. Raises NameTaken."""
        for cell, record in self.finished.items():
            self.run.claim(cell, {wheel.name: wheel.sha256 for wheel in record.wheels})


def select(run: Run, plan: Plan, previous: Mapping[str, Record]) -> Selection:
    """Select the cells that a run builds, read what they must use, and leave out those that are up to date.

    ``previous``: cell → its newest record. Raises BakeryError if the lock or a file of the project cannot be read, or no
    cell matches.
    """
    root, options, notes = run.root, run.options, list[str]()
    targets = plan.select(options.groups, options.only)
    tasks = cell_tasks(targets)
    cells = [task.cell for task in tasks.values()]
    locked: Mapping[str, Materials]
    if options.pinned:
        locked = options.pinned.cells
        check_origins(root, plan, cells, locked, lock=False)
    else:
        locked = load_lock(root, plan, cells, notes.append, strict=options.locked)
    plan = with_sources(plan, locked)
    source = source_of(root, plan, run.output, options.sources)
    everything = Selection(
        run=run,
        plan=plan,
        targets=targets,
        tasks=tasks,
        previous=previous,
        keys=with_lock(cell_keys(plan, source.digest, tasks.values()), locked),
        source=source,
        locked=locked,
        notes=tuple(notes),
    )
    return without_finished(everything)


def select_early(root: Path, plan: Plan, options: Options, environment: Mapping[str, str]) -> Selection | None:
    """Select without the engine; None if all cells are to be baked, or only the engine can tell.

    A recipe that cannot be judged here is one to bake: the bake reports its error.
    """
    if options.bakes_all or options.selection is CellSelection.FAILED or plan.crosses:
        # The base images of a plan that cross-compiles are those of the engine's platform.
        return None
    try:
        run = Run.of(root, plan, options, environment)
        previous = newest_records(run.state, run.recipe)
        return select(run, plan, previous) if previous else None
    except BakeryError:
        return None


def early_report(chosen: Selection) -> RunReport | None:
    """Return the report of a selection that needs no bake; else None, also if the bake has to report an error."""
    try:
        return None if chosen.tasks else kept_report(chosen)
    except BakeryError:
        return None


def kept_report(chosen: Selection) -> RunReport:
    """Return the report of a run whose cells are all up to date, and write it. Raises NameTaken."""
    from bakery.runs.wheel_tags import run_warnings

    started, run = time.monotonic(), chosen.run
    chosen.claim_finished()
    targets = () if run.options.selection is CellSelection.FAILED else chosen.targets
    rows = tuple(finished_target(target, chosen.finished[target.cell.id], run.output) for target in targets)
    unfinished = sum(record.result is Result.CANCELED for record in chosen.finished.values()) if not rows else 0
    never = (f"{unfinished} cells were never built to the end; --resume builds them",) if unfinished else ()
    report = RunReport(
        recipe=run.recipe,
        targets=rows,
        output=run.output,
        state=run.state,
        seconds=time.monotonic() - started,
        warnings=(*run_warnings(run.root, chosen.plan, rows), *never),
        about=about(run.root),
    )
    try:
        with run_folder(run.state) as folder:
            report = replace(report, state=folder)
            report.write()
    except OutputError as error:
        # Nothing was to be done, so nothing is lost.
        report = replace(report, warnings=(*report.warnings, f"no report of this run: {error.message}"))
    return report


def without_finished(chosen: Selection) -> Selection:
    """Return a selection without the tasks that are not built again; tasks that share a wheel are built together."""
    tasks, groups = chosen.tasks, publish_groups(chosen.tasks)
    done = {name for name, task in tasks.items() if _is_finished(chosen, task)}
    over = [name for name in tasks if done.issuperset(groups[name])]
    never = Record("", "", Result.CANCELED)
    return replace(
        chosen,
        finished={cell: chosen.previous.get(cell, never) for name in over for cell in tasks[name].cells},
        tasks={name: task for name, task in tasks.items() if name not in over},
    )


def _is_finished(chosen: Selection, task: CellTask) -> bool:
    """Whether a task is not built, as the user selects cells."""
    options = chosen.run.options
    match CellSelection.ALL if options.bakes_all else options.selection:
        case CellSelection.ALL:
            return False
        case CellSelection.CHANGED:
            return _is_up_to_date(chosen, task)
        case CellSelection.UNFINISHED:
            return _is_unchanged(chosen, task)
        case CellSelection.FAILED:
            records = (chosen.previous.get(cell) for cell in task.cells)
            return not any(record and record.result is Result.FAILED for record in records)


def has_same_inputs(chosen: Selection, task: CellTask) -> bool:
    """Whether the last run finished a task with the same inputs: the engine still has its steps, most likely."""
    return all(
        (record := chosen.previous.get(cell))
        and record.result is Result.DONE
        and record.key == chosen.keys[cell]
        # A build that asks git depends on more than the files: another commit or tag may change its wheel.
        and record.repository in ("", chosen.repository or UNKNOWN)
        for cell in task.cells
    )


def _is_unchanged(chosen: Selection, task: CellTask) -> bool:
    """Whether the last run finished a task with the same inputs, and its wheels are in the output folder."""
    if any(TARGET_KINDS[target.kind].exporter == "docker" for target in task.targets):
        # A user may have removed the image from the engine.
        return False
    if not has_same_inputs(chosen, task):
        return False
    wheels = [wheel for cell in task.cells for wheel in chosen.previous[cell].wheels]
    is_complete = bool(wheels) or not task.has(Kind.WHEEL)
    return is_complete and all(holds(chosen.run.output, wheel.name, wheel.sha256) for wheel in wheels)


def _is_up_to_date(chosen: Selection, task: CellTask) -> bool:
    wheels = (wheel for cell in task.cells for wheel in chosen.previous[cell].wheels)
    return (
        _is_unchanged(chosen, task)
        and not mutable_names(chosen.plan, task)
        and all(kept_records(chosen.run.output, wheel) for wheel in wheels)
        and _has_same_images(chosen, task)
    )


def _has_same_images(chosen: Selection, task: CellTask) -> bool:
    """Return whether a bake would take the base images that the last one took."""
    images = tagged_images(task, locked_images(chosen.locked))
    recorded = [chosen.previous[cell].images for cell in task.cells]
    if not all(image.key in known for image in images for known in recorded):
        return False
    present = {image.key: chosen.present_images.digest(image.ref, image.platform) for image in images}
    return all(known[key] == digest for key, digest in present.items() for known in recorded)


_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?(?::.*)?\Z")


def tagged_images(task: CellTask, locked: Mapping[tuple[str, str], str]) -> tuple[Image, ...]:
    """Return the base images of a task without a digest. Bakery never replaces a Debian image that the engine has.

    ``locked``: (name, platform) → digest of base images.
    """
    return tuple(
        image
        for image in task.cell.images
        if "@" not in image.ref and not image.suite and (image.ref, image.platform) not in locked
    )


def mutable_names(plan: Plan, task: CellTask) -> tuple[str, ...]:
    """Return other inputs of a task that may change while its key stays: branches, tags of git, folders."""
    args = plan.args_of(task.cell)
    addresses = [expand(step.source, args) for stage in plan.stages for step in stage.steps if isinstance(step, Add)]
    branches = [address for address in addresses if not _COMMIT.match(address.partition("#")[2])]
    # A named context is a folder, an image or a repository; the others ask for a bake without the cache.
    settings = [
        str(item)
        for item in plan.overrides
        if item.key.partition(".")[0] == "contexts" or (item.key in ("no-cache", "pull") and item.value == "true")
    ]
    return tuple(dict.fromkeys((*branches, *settings)))
