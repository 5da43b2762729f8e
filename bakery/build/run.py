"""The last step of a run: build the tasks, publish the wheels that pass, and write the report."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bakery.build.bake_context import BakeContext
from bakery.build.buildx.bake import BakeRequest
from bakery.build.buildx.listener import Listener
from bakery.build.buildx_backend import BuildxBackend, bakes_of
from bakery.build.cell_tasks import Machine, schedule_items
from bakery.build.local_layer_cache import LocalCaches
from bakery.build.records import buildkit as recorded
from bakery.build.records.buildkit import image_purl
from bakery.build.records.recorder import Recorder
from bakery.build.report import RunReport
from bakery.build.run_tasks import run_tasks
from bakery.build.scheduler import Item, Limits, Schedule, Seat, unknown
from bakery.build.signals import caught
from bakery.core.names import MACHINES, CacheBackend
from bakery.engine.memory_peaks import Peaks, is_here
from bakery.engine.nodes import Watch
from bakery.plan.cells import Cell
from bakery.plan.model import Plan, ignored_output
from bakery.plan.stage_digests import Lineage

USABLE = 0.85
"""The share of an engine's memory that compilers may use, as ``with-jobs`` has it, too."""


def run(context: BakeContext, listener: Listener) -> RunReport:
    """Build the tasks of a context with buildx, and report on all of its targets."""
    engine, plan = context.engine, context.plan
    caches = LocalCaches(context.root, plan, context.keys)
    caches.check()
    common = _common_request(context)
    schedule = _schedule(context)
    recorder = Recorder(
        plan=plan,
        root=context.root,
        output=context.output,
        state=context.folder,
        environment=engine.environment,
        built_on=lambda cell: _machine(context, schedule, cell),
        sent=_sent_images(context),
    )
    watch = Watch(engine.nodes.ask) if engine.nodes else None
    peaks = Peaks() if is_here(engine.environment) and not engine.nodes else None
    with caught() as signals, bakes_of(context.tasks.values(), signals, listener, common) as bakes:
        backend = BuildxBackend(
            plan=plan,
            bakes=bakes,
            caches=caches,
            request=partial(context.request, common),
            imports=_reads_layer_cache(plan),
            lock=context.lock_name,
            lineage=Lineage(plan),
        )
        try:
            return run_tasks(
                context,
                backend,
                schedule,
                signals,
                recorder=recorder,
                mask=context.secrets.mask,
                nodes=engine.nodes,
                watch=watch,
                peaks=peaks,
            )
        finally:
            if watch:
                watch.end()


def _common_request(context: BakeContext) -> BakeRequest:
    """Write the files of the run, and return the request of all tasks."""
    request = context.session.request(
        context.task_targets, context.folder, context.pins, ignore=_ignored_output(context)
    )
    options, state = context.options, context.options.state
    several = any(len(task.targets) > 1 for task in context.tasks.values())
    return replace(
        request,
        pull=options.pull,
        timeout_s=options.cell_timeout_s,
        defer_errors=several and context.keeps_going and context.engine.offers_execution,
        reads=(*request.reads, *((state,) if state else ())),
    )


def _ignored_output(context: BakeContext) -> tuple[str, ...]:
    """Return the pattern of an output folder inside the project: its wheels must not change the next build context."""
    output, root = context.output.absolute(), context.root.absolute()
    if not output.is_relative_to(root):
        return ()
    pattern = ignored_output(output.relative_to(root).as_posix())
    return (pattern,) if pattern and pattern not in context.plan.ignore else ()


def _reads_layer_cache(plan: Plan) -> bool:
    overridden = any(override.key == "cache-from" and override.value for override in plan.overrides)
    return overridden or plan.cache.backend is not CacheBackend.NONE


def _schedule(context: BakeContext) -> Schedule:
    options, tasks, nodes = context.options, context.tasks, context.engine.nodes
    if nodes:
        # The slots of nodes limit the cells that run in parallel, whatever memory these need.
        seats = [Seat(one.node.name, one.node.slots, frozenset(one.platforms)) for one in nodes.alive]
        parallel = options.parallel or sum(seat.slots for seat in seats)
        items = schedule_items(context.plan, tasks.values(), Machine(0, 0), {})
        return Schedule(items, Limits(parallel, 0, options.retries, context.keeps_going), seats)
    if len(tasks) < 2:
        return Schedule([Item(name) for name in tasks], Limits(1, 0, options.retries, context.keeps_going))
    info = context.engine.info
    machine = Machine(info.cpus, round(info.memory * USABLE / 1e6))
    limits = Limits(options.parallel or machine.cores, machine.memory, options.retries, context.keeps_going)
    items = schedule_items(context.plan, tasks.values(), machine, context.peaks)
    if limits.parallel > 1 and (number := unknown(items)):
        context.say(
            f"Memory use of {number} of {len(items)} cells is unknown; running at most {limits.parallel} in parallel. "
            "Set builder.job-memory to limit by memory."
        )
    return Schedule(items, limits)


def _sent_images(context: BakeContext) -> dict[str, str]:
    """Return sha256 → package URL of the base images that nodes are sent."""
    if not context.engine.nodes:
        return {}
    return {
        layout.digest.removeprefix("sha256:"): image_purl(context.session.image_name(image), image.platform)
        for cell in context.task_cells
        for image, layout in context.layouts(cell).items()
    }


def _machine(context: BakeContext, schedule: Schedule, cell: Cell) -> recorded.Machine | None:
    """Return the node that built a cell, for its provenance; None for the one engine."""
    seats = context.engine.nodes.seats if context.engine.nodes else ()
    seat = next((seat for seat in seats if seat.node.name == schedule.seat(cell.id)), None)
    if seat is None:
        return None
    platform = seat.platforms[0] if seat.platforms else ""
    return recorded.Machine(seat.version, "", f"linux/{MACHINES.get(platform, platform)}", "buildkit")
