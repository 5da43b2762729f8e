"""One recipe from plan to wheels: select cells, read the lock, check what is needed, then `run`."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.core.errors import UsageError
from bakery.core.names import CacheBackend, Kind, platform_of
from bakery.core.store_address import StoreAddress
from bakery.core.store_address import credentials as store_credentials
from bakery.engine import package_index, platform_support
from bakery.engine.cache_scope import KEY_VARIABLE
from bakery.engine.memory_peaks import Peaks, is_here
from bakery.engine.nodes import Watch
from bakery.engine.qemu import emulated
from bakery.engine.session import EngineSession
from bakery.plan.cells import Image
from bakery.plan.model import Plan
from bakery.plan.options import Secret
from bakery.runs.bake_session import BakeSession
from bakery.runs.buildx.bake import BakeRequest, open_bakes
from bakery.runs.buildx.board import Board, Listener
from bakery.runs.buildx_backend import BuildxBackend, LocalCaches
from bakery.runs.compiler_cache import FolderCache, compiler_cache_targets
from bakery.runs.context import BakeContext
from bakery.runs.journal import newest_records
from bakery.runs.lock.make import NewLock, check_materials, make
from bakery.runs.lock.pins import check_images, pin_recorded_images, pins_of
from bakery.runs.loop import run_tasks
from bakery.runs.processes import caught
from bakery.runs.publish import check_output
from bakery.runs.records.recorder import Recorder
from bakery.runs.run_folders import run_folder, state_folder
from bakery.runs.run_options import Options
from bakery.runs.run_report import RunReport
from bakery.runs.schedule_items import USABLE, schedule_items
from bakery.runs.scheduler import Item, Limits, Schedule, Seat
from bakery.runs.secrets.read import private_files, read_secrets
from bakery.runs.selection import kept_report, select_cells, unchanged_tasks
from bakery.runs.trust import check_grants, check_triggers, credentials

if TYPE_CHECKING:
    from bakery.runs.remote_cache import RemoteCache


def bake_plan(root: Path, plan: Plan, options: Options, engine: EngineSession, listener: Listener) -> RunReport:
    """Bake the selected targets of a plan; each wheel that passes the audit is published as soon as it is ready.

    Returns the report, which is also ``report.json`` in the run's folder; it has failed cells and the reason of an
    early end (`report.conclusion`). Raises BakeryError for what ends all cells; published wheels stay.
    """
    state = options.state or state_folder(root, engine.environment)
    with ExitStack() as resources:
        context = BakeContext(
            root=root,
            plan=plan.for_builders(engine.platforms) if plan.crosses else plan,
            options=options,
            environment=engine.environment,
            say=engine.say,
            state_folder=state,
            previous=newest_records(state, plan.recipe),
            engine=engine,
            resources=resources,
        )
        select_cells(context)
        if not context.tasks:
            return kept_report(context)
        check(context)
        open_session(context)
        pin(context)
        context.folder = resources.enter_context(run_folder(state))
        caches = _compiler_caches(context)
        for cache in caches.values():
            cache.restore()
        report = run(context, listener)
        for node, cache in caches.items() if not options.compiler_cache_read_only else ():
            cache.save({target.cell for target in report.targets if target.compiled and target.node == node})
        return report


def _compiler_caches(context: BakeContext) -> dict[str, FolderCache | RemoteCache]:
    """Return node → its compiler caches in the place of the run, if it has one; the engine is the node with no name."""
    place, folder = context.options.compiler_cache, context.folder / "compiler-cache"
    session, pins, targets = context.session, context.pins, context.cache_targets
    if not place or not targets:
        return {}
    if isinstance(place, Path):
        return {"": FolderCache(session, pins, targets, folder, place, context.say)}
    from bakery.runs.remote_cache import RemoteCache
    from bakery.runs.stores.store import open_store

    store = open_store(place, store_credentials(place, context.environment), str(context.engine.ca_bundle or ""))
    if not context.nodes:
        return {"": RemoteCache(session, pins, targets, folder, store, context.say)}
    pins = context.pins_on_node(targets)
    caches: dict[str, FolderCache | RemoteCache] = {}
    for status in context.nodes.alive:
        node = status.node
        caches[node.name] = RemoteCache(
            replace(session, builder=node.builder),
            pins,
            tuple(target for target in targets if target.cell.platform in status.platforms),
            folder / node.name,
            store,
            partial(_say_of_node, context.say, node.name),
        )
    return caches


def _say_of_node(say: Callable[[str], None], node: str, text: str) -> None:
    say(f"node {node}: {text}")


def check(context: BakeContext) -> None:
    """Check permissions, the output folder, the platforms and the package index."""
    plan, engine, targets = context.plan, context.engine, context.task_targets
    if isinstance(context.options.compiler_cache, StoreAddress) and not engine.environment.get(KEY_VARIABLE):
        raise UsageError(
            f"--compiler-cache {context.options.compiler_cache.text} needs {KEY_VARIABLE}",
            hint=f"set {KEY_VARIABLE} to the same secret text on all machines that share this recipe's objects",
        )
    given = credentials(plan, engine, plan.secrets_for({target.kind for target in targets}))
    images = _images(context)
    check_grants(context.root, plan, context.options, given, images)
    if any(target.kind is Kind.WHEEL for target in targets):
        check_output(context.output, context.root)
    if engine.nodes:
        engine.nodes.require(target.cell.platform for target in targets)
    elif is_here(engine.environment):
        _show_emulation(context)
    package_index.check(
        (need for cell in context.task_cells for need in cell.needs),
        engine.index,
        ca_bundle=str(engine.ca_bundle or ""),
        memory=engine.paths.cache / "index.json",
    )
    check_triggers(plan, context.options, engine, images, given)


def _images(context: BakeContext) -> list[Image]:
    """Return the base images of a run; a lock holds those of all targets of a cell."""
    options = context.options
    held = context.task_cells if context.locked or options.locked or options.pinned else context.task_targets
    return [image for item in held for image in item.images]


def open_session(context: BakeContext) -> None:
    """Read the secrets and provide the base images."""
    needed = context.plan.secrets_for({target.kind for target in context.task_targets})
    context.session = _session(
        context.resources,
        context.root,
        context.plan,
        _images(context),
        context.options,
        context.engine,
        needed,
        Listener(),
    )


def pin(context: BakeContext) -> None:
    """Pin base images, packages and commits to what is locked."""
    session, cells, options = context.session, context.task_cells, context.options
    if options.pinned:
        context.locked = pin_recorded_images(session, context.locked, cells, options.pinned.images, context.say)
    elif context.locked:
        check_images(session, context.locked, cells)
    if options.locked and cells:
        context.say(f"{context.plan.recipe}: comparing the materials on this machine with {context.plan.lock}")
        check_materials(session, cells, context.locked)
    if isinstance(options.compiler_cache, Path) and context.engine.nodes:
        context.say(
            "--compiler-cache with a folder is ignored: nodes keep their own compiler caches; a store can be used"
        )
    elif options.compiler_cache:
        context.cache_targets = compiler_cache_targets(context.plan, cells)
    targets = context.task_targets
    context.pins = pins_of(
        session,
        (*targets, *context.plan.materials_of(targets), *context.cache_targets),
        context.locked,
        strict=options.locked,
    )


def lock_plan(
    root: Path, plan: Plan, options: Options, engine: EngineSession, listener: Listener, upgrade: Collection[str] = ()
) -> NewLock:
    """Look up the materials of the selected cells; keep fitting entries of the lock, except names in ``upgrade``."""
    plan = plan.for_builders(engine.platforms) if plan.crosses else plan
    cells = list(plan.filter_by_pattern(options.only).cells)
    needed = plan.secrets_for({Kind.MATERIALS})
    given, images = credentials(plan, engine, needed), [image for cell in cells for image in cell.images]
    check_grants(root, plan, options, given, images)
    check_triggers(plan, options, engine, images, given)
    with ExitStack() as resources:
        session = _session(resources, root, plan, images, options, engine, needed, listener)
        return make(session, cells, upgrade)


def _session(  # noqa: PLR0913
    resources: ExitStack,
    root: Path,
    plan: Plan,
    images: Sequence[Image],
    options: Options,
    engine: EngineSession,
    needed: Sequence[Secret],
    listener: Listener,
) -> BakeSession:
    """Return the session of a run, valid as long as ``resources``; read its secrets, and provide base images."""
    pip_conf = engine.index.pip_conf().encode()
    files: Mapping[str, Path] = resources.enter_context(private_files({"PIP_CONF": pip_conf} if pip_conf else {}))
    given = credentials(plan, engine, needed)
    cargo = given.cargo
    secrets = resources.enter_context(read_secrets(plan.secrets, needed, root, engine.environment, given.values))
    return BakeSession(
        root=root,
        plan=plan,
        environment=engine.environment,
        image_names=engine.bases.ensure(images),
        variables={
            "CA_BUNDLE": str(engine.ca_bundle or ""),
            "PIP_CONF": str(files.get("PIP_CONF", "")),
            "CARGO_CONFIG": str(cargo or ""),
            **secrets.variables,
        },
        listener=listener,
        state_folder=options.state or state_folder(root, engine.environment),
        reads=tuple(filter(None, (engine.ca_bundle, cargo))),
        mask=secrets.mask,
        builder=options.builder,
        no_cache=options.no_cache,
        record_folder=options.state / "record" if options.state and options.pinned else None,
    )


def _show_emulation(context: BakeContext) -> None:
    """Show how the engine runs other platforms than this machine's."""
    platforms = {target.cell.id: target.cell.platform for target in context.task_targets}
    if not platforms or set(platforms.values()) == {platform_of(platform.machine())}:
        return
    support = platform_support.here(context.plan.filter_by_id(platforms), context.engine.platforms[0], emulated)
    ways = {platforms[cell]: way for cell, way in support.items() if way != platform_support.NATIVE}
    for name, way in ways.items():
        context.say(f"{context.plan.recipe}: {name}: {way}")


_MORE = 2
"""Cells that run besides as many as there are cores, if their compilers share slots."""


def run(context: BakeContext, listener: Listener) -> RunReport:
    """Build the tasks of a context with buildx, and report on all of its targets."""
    engine, plan = context.engine, context.plan
    caches = LocalCaches(context.root, plan, context.keys)
    caches.check()
    request = _common_request(context)
    schedule = _schedule(context)
    recorder = Recorder(context, schedule)
    watch = Watch(engine.nodes.fault) if engine.nodes else None
    peaks = Peaks() if is_here(engine.environment) and not engine.nodes else None
    board = Board({target.name: target.cell.id for target in context.task_targets}, context.times)
    with caught() as signals, open_bakes(board, request.logs, signals, listener) as bakes:
        backend = BuildxBackend(context, bakes, caches, request, imports=_reads_layer_cache(plan))
        try:
            return run_tasks(context, backend, schedule, signals, recorder=recorder, watch=watch, peaks=peaks)
        finally:
            if watch:
                watch.end()


def _common_request(context: BakeContext) -> BakeRequest:
    """Write the files of the run, and return the request of all tasks."""
    request = context.session.request(context.task_targets, context.folder, context.pins, ignore=context.source.ignore)
    options, state = context.options, context.options.state
    several = any(len(task.targets) > 1 for task in context.tasks.values())
    return replace(
        request,
        pull=options.pull,
        timeout_s=options.cell_timeout_s,
        defer_errors=several and context.keeps_going and context.engine.offers_execution,
        reads=(*request.reads, *((state,) if state else ())),
    )


def _reads_layer_cache(plan: Plan) -> bool:
    overridden = any(override.key == "cache-from" and override.value for override in plan.overrides)
    return overridden or plan.cache.backend is not CacheBackend.NONE


def _schedule(context: BakeContext) -> Schedule:
    options, tasks, nodes = context.options, context.tasks, context.engine.nodes
    if nodes:
        # The slots of nodes limit the cells that run in parallel, whatever memory these need.
        seats = [Seat(one.node.name, one.node.slots, frozenset(one.platforms)) for one in nodes.alive]
        parallel = options.parallel or sum(seat.slots for seat in seats)
        items = schedule_items(context.plan, tasks.values(), 0, 0, {})
        return Schedule(items, Limits(parallel, 0, options.retries, context.keeps_going), seats)
    if len(tasks) < 2:
        return Schedule([Item(name) for name in tasks], Limits(1, 0, options.retries, context.keeps_going))
    info = context.engine.info
    memory = round(info.memory * USABLE)
    # Cells that share slots may be more: while one resolves, links or repairs, the others compile.
    parallel = options.parallel or info.cpus + (_MORE if context.plan.shares_slots else 0)
    limits = Limits(parallel, memory, options.retries, context.keeps_going)
    cached = () if options.no_cache or options.pull else unchanged_tasks(context)
    items = schedule_items(context.plan, tasks.values(), info.cpus, memory, context.peaks, cached)
    number = 0 if context.plan.shares_slots else sum(not (item.memory or item.cached) for item in items)
    if limits.parallel > 1 and number:
        context.say(
            f"Memory use of {number} of {len(items)} cells is unknown; running at most {limits.parallel} in parallel. "
            "Set builder.job-memory to limit by memory."
        )
    return Schedule(items, limits)
