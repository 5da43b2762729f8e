"""Which cells of a run are up to date and not baked again. Little is imported.

A cell is up to date if its key is that of the last run that finished it, and its wheels and their records are in the
output folder. By default, a cell whose key names an input that others can change under its name (a branch, a folder) is
never up to date, and for the tags of base images the engine is asked; ``--resume`` looks at the key alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from bakery.core.errors import BakeryError, OutputError
from bakery.core.names import TARGET_KINDS, Kind
from bakery.plan.cells import Image
from bakery.plan.dockerfile import Add
from bakery.plan.model import Plan
from bakery.plan.values import expand
from bakery.runs.cell_tasks import CellTask, cell_keys, cell_tasks, publish_groups
from bakery.runs.context import RunContext
from bakery.runs.journal import UNKNOWN, Record, Result, newest_records
from bakery.runs.lock.is_current import check_origins, load_lock, locked_images, with_lock, with_sources
from bakery.runs.publish import holds
from bakery.runs.records.read import kept_records
from bakery.runs.run_folders import run_folder, state_folder
from bakery.runs.run_options import CellSelection, Options
from bakery.runs.run_report import RunReport, finished_target
from bakery.runs.source_files import source_of


def kept_run(root: Path, plan: Plan, options: Options, environment: Mapping[str, str]) -> RunReport | None:
    """Return the report of a run that bakes nothing; None if a cell is to be baked, or only the engine can tell.

    A recipe that cannot be judged here is one to bake: the bake reports its error.
    """
    if options.bakes_all or options.selection is CellSelection.FAILED or plan.crosses:
        # The base images of a plan that cross-compiles are those of the engine's platform.
        return None
    try:
        state = options.state or state_folder(root, environment)
        context = RunContext(
            root=root,
            plan=plan,
            options=options,
            environment=environment,
            say=lambda _: None,
            state_folder=state,
            previous=newest_records(state, plan.recipe),
        )
        if not context.previous:
            return None
        select_cells(context)
        return None if context.tasks else kept_report(context)
    except BakeryError:
        return None


def kept_report(context: RunContext) -> RunReport:
    """Return the report of a run whose cells are all up to date, and write it. Raises NameTaken."""
    from bakery.runs.tag_differences import run_warnings

    started = time.monotonic()
    context.claim_finished()
    is_reported = context.options.selection is not CellSelection.FAILED
    rows = [
        finished_target(target, context.finished[target.cell.id], context.output)
        for target in (context.targets if is_reported else ())
    ]
    unfinished = sum(record.result is Result.CANCELED for record in context.finished.values()) if not rows else 0
    report = RunReport(
        recipe=context.plan.recipe,
        targets=tuple(rows),
        output=context.output,
        state=context.state_folder,
        seconds=time.monotonic() - started,
        warnings=(
            *run_warnings(context.root, context.plan, rows),
            *([f"{unfinished} cells were never built to the end; --resume builds them"] if unfinished else []),
        ),
    )
    try:
        with run_folder(context.state_folder) as folder:
            report = replace(report, state=folder)
            report.write()
    except OutputError as error:
        # Nothing was to be done, so nothing is lost.
        report = replace(report, warnings=(*report.warnings, f"no report of this run: {error.message}"))
    return report


def select_cells(context: RunContext) -> None:
    """Select the cells of a run that bakes, read what they must use, and leave out those that are up to date.

    Raises BakeryError if the lock or a file of the project cannot be read, or no cell matches.
    """
    options = context.options
    context.times = {cell: record.times for cell, record in context.previous.items()}
    context.targets = context.plan.select(options.groups, options.only)
    context.tasks = cell_tasks(context.targets)
    _read_lock(context)
    context.source = source_of(context.root, context.plan, context.output, options.sources)
    keys = cell_keys(context.plan, context.source.digest, context.tasks.values())
    context.keys = with_lock(keys, context.locked)
    skip_finished(context)


def _read_lock(context: RunContext) -> None:
    """Read the materials that cells must use: from the lock, or from the provenance of a wheel to reproduce."""
    root, plan, pinned = context.root, context.plan, context.options.pinned
    cells = [task.cell for task in context.tasks.values()]
    if pinned:
        check_origins(root, plan, cells, pinned.cells, lock=False)
        context.locked = pinned.cells
    else:
        context.locked = load_lock(root, plan, cells, context.say, strict=context.options.locked)
    context.plan = with_sources(plan, context.locked)


def skip_finished(context: RunContext) -> None:
    """Remove the tasks that an earlier run finished; tasks that share a wheel are built together or not at all."""
    tasks, selection = context.tasks, context.options.selection
    no_record = Record("", "", Result.CANCELED)
    is_finished: Callable[[CellTask], bool] = {
        CellSelection.ALL: lambda _: False,
        CellSelection.CHANGED: lambda task: _is_up_to_date(context, task),
        CellSelection.UNFINISHED: lambda task: _is_unchanged(context, task),
        CellSelection.FAILED: lambda task: not _has_failed(context, task),
    }[CellSelection.ALL if context.options.bakes_all else selection]
    groups = publish_groups(tasks)
    finished = {name for name, task in tasks.items() if is_finished(task)}
    over = [name for name in tasks if finished.issuperset(groups[name])]
    context.finished = {cell: context.previous.get(cell, no_record) for name in over for cell in tasks[name].cells}
    context.tasks = {name: task for name, task in tasks.items() if name not in over}


def _has_failed(context: RunContext, task: CellTask) -> bool:
    records = (context.previous.get(cell) for cell in task.cells)
    return any(record is not None and record.result is Result.FAILED for record in records)


def unchanged_tasks(context: RunContext) -> set[str]:
    """Return the tasks that the last run finished with the same inputs: the engine still has their steps, most likely."""
    return {name for name, task in context.tasks.items() if _has_same_inputs(context, task)}


def _has_same_inputs(context: RunContext, task: CellTask) -> bool:
    """Whether the last run finished a task with the same inputs."""
    return all(
        record is not None
        and record.result is Result.DONE
        and record.key == context.keys[cell]
        # A build that asks git depends on more than the files: another commit or tag may change its wheel.
        and record.repository in ("", context.repository or UNKNOWN)
        for cell in task.cells
        for record in (context.previous.get(cell),)
    )


def _is_unchanged(context: RunContext, task: CellTask) -> bool:
    """Whether the last run finished a task with the same inputs, and its wheels are in the output folder."""
    if any(TARGET_KINDS[target.kind].exporter == "docker" for target in task.targets):
        # A user may have removed the image from the engine.
        return False
    if not _has_same_inputs(context, task):
        return False
    wheels = [wheel for cell in task.cells for wheel in context.previous[cell].wheels]
    is_complete = bool(wheels) or not task.has(Kind.WHEEL)
    return is_complete and all(holds(context.output, wheel.name, wheel.sha256) for wheel in wheels)


def _is_up_to_date(context: RunContext, task: CellTask) -> bool:
    return (
        _is_unchanged(context, task)
        and not mutable_names(context.plan, task)
        and all(kept_records(context.output, wheel) for cell in task.cells for wheel in context.previous[cell].wheels)
        and _has_same_images(context, task)
    )


def _has_same_images(context: RunContext, task: CellTask) -> bool:
    """Return whether a bake would take the base images that the last one took."""
    images = tagged_images(task, locked_images(context.locked))
    if not images:
        return True
    recorded = [context.previous[cell].images for cell in task.cells]
    if not all(image.key in known for image in images for known in recorded):
        return False
    present = {image.key: context.present_images.digest(image.ref, image.platform) for image in images}
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
