"""The last step of a run: build the tasks, publish the wheels that pass, and write the report."""

from __future__ import annotations

from dataclasses import replace

from bakery.build.bake_context import BakeContext
from bakery.build.buildx.bake import BakeRequest, open_bakes
from bakery.build.buildx.listener import Listener
from bakery.build.buildx_backend import BuildxBackend
from bakery.build.cell_tasks import Machine, schedule_items
from bakery.build.local_layer_cache import LocalCaches
from bakery.build.records.recorder import Recorder
from bakery.build.report import RunReport
from bakery.build.run_tasks import run_tasks
from bakery.build.scheduler import Item, Limits, Schedule, Seat
from bakery.build.signals import caught
from bakery.core.names import CacheBackend
from bakery.engine.memory_peaks import Peaks, is_here
from bakery.engine.nodes import Watch
from bakery.plan.model import Plan, ignored_output

USABLE = 0.85
"""The share of an engine's memory that compilers may use, as ``with-jobs`` has it, too."""


def run(context: BakeContext, listener: Listener) -> RunReport:
    """Build the tasks of a context with buildx, and report on all of its targets."""
    engine, plan = context.engine, context.plan
    caches = LocalCaches(context.root, plan, context.keys)
    caches.check()
    request = _common_request(context)
    schedule = _schedule(context)
    recorder = Recorder(context, schedule)
    watch = Watch(engine.nodes.ask) if engine.nodes else None
    peaks = Peaks() if is_here(engine.environment) and not engine.nodes else None
    names = [target.name for target in context.task_targets]
    with caught() as signals, open_bakes(names, request.logs, signals, listener) as bakes:
        backend = BuildxBackend(context, bakes, caches, request, imports=_reads_layer_cache(plan))
        try:
            return run_tasks(context, backend, schedule, signals, recorder=recorder, watch=watch, peaks=peaks)
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
    if limits.parallel > 1 and (number := sum(not item.memory for item in items)):
        context.say(
            f"Memory use of {number} of {len(items)} cells is unknown; running at most {limits.parallel} in parallel. "
            "Set builder.job-memory to limit by memory."
        )
    return Schedule(items, limits)
