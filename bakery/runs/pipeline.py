"""One recipe from plan to wheels, as one story: `bake_plan`. Each step takes and returns values that do not change."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from bakery.core.cell_ids import platform_of
from bakery.core.errors import UsageError
from bakery.core.names import CacheBackend
from bakery.core.store_address import StoreAddress
from bakery.core.store_address import credentials as store_credentials
from bakery.core.target_kinds import Kind
from bakery.engine import package_index, platform_support
from bakery.engine.cache_scope import KEY_VARIABLE
from bakery.engine.memory_peaks import Peaks, is_here
from bakery.engine.nodes import Watch
from bakery.engine.qemu import emulated
from bakery.engine.session import EngineSession
from bakery.plan.cells import Image, Target
from bakery.plan.delivery import Secret
from bakery.plan.model import Plan
from bakery.resolve.device_promises import device_promises
from bakery.runs.bake_session import BakeSession, Pins
from bakery.runs.buildx.bake import open_bakes
from bakery.runs.buildx.board import Board, Listener
from bakery.runs.buildx_backend import BuildxBackend, LocalCaches
from bakery.runs.compiler_cache import FolderCache, RemoteCache, compiler_cache_targets
from bakery.runs.device_watch import DeviceWatch
from bakery.runs.finish import Finisher
from bakery.runs.journal import newest_records, open_journal
from bakery.runs.lock.make import NewLock, check_materials, make
from bakery.runs.lock.pins import NodeImages, check_images, pin_recorded_images, pins_of
from bakery.runs.loop import run_tasks, unfinished
from bakery.runs.processes import caught
from bakery.runs.publish import check_output
from bakery.runs.records.recorder import Recorder
from bakery.runs.run_folders import run_folder
from bakery.runs.run_options import Options
from bakery.runs.run_report import RunReport
from bakery.runs.scheduler import USABLE, Item, Limits, Schedule, Worker, schedule_items
from bakery.runs.secrets.read import private_files, read_secrets
from bakery.runs.selection import Run, Selection, has_same_inputs, kept_report, select
from bakery.runs.stores import open_store
from bakery.runs.trust import check_grants, check_triggers, credentials


def bake_plan(
    root: Path, plan: Plan, options: Options, engine: EngineSession, listener: Listener, early: Selection | None = None
) -> RunReport:
    """Bake the selected targets of a plan; each wheel that passes the audit is published as soon as it is ready.

    Returns the report, which is also ``report.json`` in the run's folder; it has failed cells and the reason of an
    early end (`bakery.runs.conclusion.conclusion`). Raises BakeryError for what ends all cells; published wheels stay.

    Args:
        early: what `select_early` found for these options.
    """
    run = Run.of(root, plan, options, engine.environment, engine.say)
    if early and early.holds:
        chosen = replace(early, run=run)
    else:
        plan = plan.for_builders(engine.platforms) if plan.crosses else plan
        chosen = select(run, plan, newest_records(run.state, run.recipe))
    for text in chosen.notes:
        run.say(text)
    if not chosen.tasks:
        return kept_report(chosen)
    require(engine, chosen)
    with session_of(engine, chosen) as session:
        pins = pin(engine, session, chosen)
        with run_folder(run.state) as folder:
            caches = _compiler_caches(engine, session, pins, chosen, folder / "compiler-cache")
            for cache in caches.values():
                cache.restore()
            report = _bake_cells(engine, session, pins, chosen, folder, listener)
            for node, cache in caches.items() if not options.compiler_cache_read_only else ():
                cache.save({target.cell for target in report.targets if target.compiled and target.node == node})
    return report


def require(engine: EngineSession, chosen: Selection) -> None:
    """Check permissions, the output folder, the platforms and the package index."""
    run, plan, targets = chosen.run, chosen.plan, chosen.task_targets
    place = run.options.compiler_cache
    if isinstance(place, StoreAddress) and not engine.environment.get(KEY_VARIABLE):
        raise UsageError(
            f"--compiler-cache {place.text} needs {KEY_VARIABLE}",
            hint=f"set {KEY_VARIABLE} to the same secret text on all machines that share this recipe's objects",
        )
    given = credentials(plan, engine, plan.secrets_for({target.kind for target in targets}))
    images = _images(chosen)
    check_grants(run.root, plan, run.options, given, images)
    if any(target.kind is Kind.WHEEL for target in targets):
        check_output(run.output, run.root)
    platforms = {target.cell.id: target.cell.platform for target in targets}
    if engine.nodes:
        engine.nodes.require(platforms.values())
    elif is_here(engine.environment) and set(platforms.values()) != {platform_of(platform.machine())}:
        support = platform_support.here(plan.filter_by_id(platforms), engine.platforms[0], emulated)
        ways = {platforms[cell]: way for cell, way in support.items() if way != platform_support.NATIVE}
        for name, way in ways.items():
            run.say(f"{run.recipe}: {name}: {way}")
    package_index.check(
        (need for cell in chosen.task_cells for need in cell.needs),
        engine.index,
        ca_bundle=str(engine.ca_bundle or ""),
        memory=engine.paths.cache / "index.json",
    )
    check_triggers(plan, run.options, engine, images, given)


def _images(chosen: Selection) -> list[Image]:
    """Return the base images of a run; a lock holds those of all targets of a cell."""
    options = chosen.run.options
    held = chosen.task_cells if chosen.locked or options.locked or options.pinned else chosen.task_targets
    return [image for item in held for image in item.images]


def session_of(engine: EngineSession, chosen: Selection) -> AbstractContextManager[BakeSession]:
    """Return the session of a run's bakes, which reads its secrets and provides its base images."""
    needed = chosen.plan.secrets_for({target.kind for target in chosen.task_targets})
    return _session(chosen.run, chosen.plan, _images(chosen), engine, needed)


def pin(engine: EngineSession, session: BakeSession, chosen: Selection) -> Pins:
    """Return the base images, packages and commits that a run must use. Raises LockError if some are not available."""
    run, cells, locked = chosen.run, chosen.task_cells, chosen.locked
    if run.options.pinned:
        locked = pin_recorded_images(session, locked, cells, run.options.pinned.images, run.say)
    elif locked:
        check_images(session, locked, cells)
    if run.options.locked and cells:
        run.say(f"{run.recipe}: comparing the materials on this machine with {session.plan.lock}")
        check_materials(session, cells, locked)
    if isinstance(run.options.compiler_cache, Path) and engine.nodes:
        run.say("--compiler-cache with a folder is ignored: nodes keep their own compiler caches; a store can be used")
    targets = (*chosen.task_targets, *session.plan.materials_of(chosen.task_targets))
    return pins_of(session, (*targets, *_cache_targets(engine, chosen)), locked, strict=run.options.locked)


def _cache_targets(engine: EngineSession, chosen: Selection) -> tuple[Target, ...]:
    """Return the targets that move compiler caches; none without a place for them."""
    place = chosen.run.options.compiler_cache
    if not place or (isinstance(place, Path) and engine.nodes):
        return ()
    return compiler_cache_targets(chosen.plan, chosen.task_cells)


def _compiler_caches(
    engine: EngineSession, session: BakeSession, pins: Pins, chosen: Selection, folder: Path
) -> dict[str, FolderCache | RemoteCache]:
    """Return node → its compiler caches in the place of the run, if it has one; the engine is the node with no name."""
    place, say, targets = chosen.run.options.compiler_cache, chosen.run.say, _cache_targets(engine, chosen)
    if not place or not targets:
        return {}
    if isinstance(place, Path):
        return {"": FolderCache(session, pins, targets, folder, place, say)}
    store = open_store(place, store_credentials(place, engine.environment), str(engine.ca_bundle or ""))
    if not engine.nodes:
        return {"": RemoteCache(session, pins, targets, folder, store, say)}
    pins = NodeImages(session, engine.layouts).added(pins, targets)
    return {
        status.node.name: RemoteCache(
            replace(session, builder=status.node.builder),
            pins,
            tuple(target for target in targets if target.cell.platform in status.platforms),
            folder / status.node.name,
            store,
            partial(_say_of_node, say, status.node.name),
        )
        for status in engine.nodes.alive
    }


def _say_of_node(say: Callable[[str], None], node: str, text: str) -> None:
    say(f"node {node}: {text}")


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
    run = Run.of(root, plan, options, engine.environment, engine.say)
    with _session(run, plan, images, engine, needed, listener) as session:
        return make(session, cells, upgrade)


@contextmanager
def _session(
    run: Run,
    plan: Plan,
    images: Sequence[Image],
    engine: EngineSession,
    needed: Sequence[Secret],
    listener: Listener | None = None,
) -> Iterator[BakeSession]:
    """Provide a session: read its secrets, and provide base images. ``listener``: of the bakes that look up materials."""
    options, pip_conf = run.options, engine.index.pip_conf().encode()
    given = credentials(plan, engine, needed)
    with (
        private_files({"PIP_CONF": pip_conf} if pip_conf else {}) as files,
        read_secrets(plan.secrets, needed, run.root, engine.environment, given.values) as secrets,
    ):
        yield BakeSession(
            root=run.root,
            plan=plan,
            environment=engine.environment,
            image_names=engine.bases.ensure(images),
            variables={
                "CA_BUNDLE": str(engine.ca_bundle or ""),
                "PIP_CONF": str(files.get("PIP_CONF", "")),
                "CARGO_CONFIG": str(given.cargo or ""),
                **secrets.variables,
            },
            listener=listener or Listener(),
            state_folder=run.state,
            reads=tuple(filter(None, (engine.ca_bundle, given.cargo))),
            mask=secrets.mask,
            builder=options.builder,
            no_cache=options.no_cache,
            record_folder=options.state / "record" if options.state and options.pinned else None,
        )


def _bake_cells(
    engine: EngineSession, session: BakeSession, pins: Pins, chosen: Selection, folder: Path, listener: Listener
) -> RunReport:
    """Build the tasks of a run with buildx, and report on all of its targets."""
    run, plan, options, nodes = chosen.run, chosen.plan, chosen.run.options, engine.nodes
    node_images = NodeImages(session, engine.layouts) if nodes else None
    caches = LocalCaches(run.root, plan, chosen.keys)
    caches.check()
    several = any(len(task.targets) > 1 for task in chosen.tasks.values())
    common = session.request(chosen.task_targets, folder, pins, ignore=chosen.source.ignore)
    common = replace(
        common,
        pull=options.pull,
        timeout_s=options.cell_timeout_s,
        defer_errors=several and chosen.keeps_going and engine.offers_execution,
        reads=(*common.reads, *((options.state,) if options.state else ())),
    )
    schedule = _schedule(engine, chosen)
    recorder = Recorder(chosen, folder, engine, session, node_images, schedule)
    times = {cell: record.times for cell, record in chosen.previous.items()}
    journal = open_journal(run.state, run.recipe, unfinished(chosen))
    finisher = Finisher(chosen, folder, journal, session.mask, recorder, times)
    imports = plan.cache.backend is not CacheBackend.NONE or any(
        override.key == "cache-from" and override.value for override in plan.overrides
    )
    lock_name = "" if not pins.locked else options.pinned.record if options.pinned else plan.lock
    watch = Watch(nodes.fault) if nodes else None
    peaks = Peaks() if is_here(engine.environment) and not nodes else None
    board = Board({target.name: target.cell.id for target in chosen.task_targets}, times)
    shown = DeviceWatch(listener, device_promises(plan), run.say)
    with caught() as signals, open_bakes(board, common.logs, signals, shown) as bakes:
        backend = BuildxBackend(plan, engine, bakes, caches, common, pins, lock_name, node_images, imports)
        try:
            return run_tasks(finisher, backend, schedule, signals, nodes=nodes, watch=watch, peaks=peaks)
        finally:
            if watch:
                watch.end()


_MORE = 2
"""Cells that run besides as many as there are cores, if their compilers share slots."""


def _schedule(engine: EngineSession, chosen: Selection) -> Schedule:
    options, tasks, plan, keeps_going = chosen.run.options, chosen.tasks, chosen.plan, chosen.keeps_going
    if engine.nodes:
        # The slots of nodes limit the cells that run in parallel, whatever memory these need.
        workers = [Worker(one.node.name, one.node.slots, frozenset(one.platforms)) for one in engine.nodes.alive]
        parallel = options.parallel or sum(worker.slots for worker in workers)
        items = schedule_items(plan, tasks.values(), 0, 0, {})
        return Schedule(items, Limits(parallel, 0, options.retries, keeps_going), workers)
    if len(tasks) < 2:
        return Schedule([Item(name) for name in tasks], Limits(1, 0, options.retries, keeps_going))
    info = engine.info
    memory = round(info.memory * USABLE)
    # Cells that share slots may be more: while one resolves, links or repairs, the others compile.
    parallel = options.parallel or info.cpus + (_MORE if plan.shares_slots else 0)
    runs_all = options.no_cache or options.pull
    cached = {name for name, task in tasks.items() if not runs_all and has_same_inputs(chosen, task)}
    items = schedule_items(plan, tasks.values(), info.cpus, memory, chosen.peaks, cached)
    number = 0 if plan.shares_slots else sum(not (item.memory or item.cached) for item in items)
    if parallel > 1 and number:
        chosen.run.say(
            f"Memory use of {number} of {len(items)} cells is unknown; running at most {parallel} in parallel. "
            "Set builder.job-memory to limit by memory."
        )
    return Schedule(items, Limits(parallel, memory, options.retries, keeps_going))
