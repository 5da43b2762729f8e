"""One recipe from plan to wheels: what is kept, what is locked, and the run of the rest."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bakery.build import compiler_cache
from bakery.build.buildx.entitlements import Grants
from bakery.build.buildx.listener import Listener
from bakery.build.buildx.outcome import Result
from bakery.build.cell_tasks import Work, is_image, keys, together, works
from bakery.build.display.display import QuietDisplay
from bakery.build.journal import Record, last_run
from bakery.build.lock.collect import compare
from bakery.build.lock.is_current import check_origins, fitting, keyed
from bakery.build.lock.make import Locked, make
from bakery.build.lock.pins import again, check_images, pins, with_sources
from bakery.build.lock.session import Bench, Pins
from bakery.build.options import Again, Options
from bakery.build.publish import check_output
from bakery.build.report import RunReport
from bakery.build.resume import is_left_out
from bakery.build.run import Run
from bakery.build.run_folders import run_folder
from bakery.build.secrets.private_files import private_files
from bakery.build.secrets.read import Revealed, revealed
from bakery.build.state_folder import state_folder
from bakery.core.errors import BakeError, InterruptedBake, OutputError, UsageError
from bakery.core.names import Kind, platform_of
from bakery.engine import package_index, platform_support
from bakery.engine.memory_peaks import is_here
from bakery.engine.qemu import emulated
from bakery.engine.session import EngineSession
from bakery.plan.cells import Cell, Image, Target
from bakery.plan.materials_targets import beside
from bakery.plan.model import Plan
from bakery.plan.options import Secret


def bake_plan(root: Path, plan: Plan, options: Options, engine: EngineSession, listener: Listener) -> RunReport:
    """Bake the chosen targets of a plan; each wheel that passes is published as soon as it is finished.

    Returns:
        The report, also of cells that failed and of a run that a signal or the time ended (`conclusion` judges it). It
        is written as ``report.json`` into the run's folder, too.

    Raises:
        BakeryError: what ends all cells. Wheels that were published by then stay.
    """
    plan = plan.for_builders(engine.platforms) if plan.crosses else plan
    targets = plan.select(options.groups, options.only)
    state = options.state or state_folder(root, engine.environment)
    known = last_run(state, plan.recipe)
    chosen = works(targets)
    cells = list({target.cell.id: target.cell for target in targets}.values())
    held = options.held
    if held:
        check_origins(root, plan, cells, held.cells, lock=False)
    locked = held.cells if held else fitting(root, plan, cells, engine.say, strict=options.locked)
    plan = with_sources(plan, locked)
    named = keyed(keys(plan, root, chosen.values()), locked)
    kept = _kept(root, plan, options, chosen, known, named)
    fresh = {name: work for name, work in chosen.items() if name not in kept}
    wanted = [target for work in fresh.values() for target in work.targets]
    told = plan.secrets_for({target.kind for target in wanted})
    _check_wants(root, plan, options, told)
    if any(target.kind is Kind.WHEEL for target in wanted):
        check_output(options.output or root / plan.output, root)
    if engine.nodes:
        engine.nodes.require(target.cell.platform for target in wanted)
    elif is_here(engine.environment):
        _say_ways(plan, wanted, engine)
    package_index.check(
        (need for work in fresh.values() for need in work.cell.needs),
        engine.index,
        ca_bundle=str(engine.ca_bundle or ""),
        memory=engine.paths.cache / "index.json",
    )
    pip_conf = engine.index.pip_conf().encode()
    with (
        private_files({"PIP_CONF": pip_conf} if pip_conf else {}) as own,
        revealed(plan.secrets, told, root, engine.environment) as secrets,
    ):
        fresh_cells = list({target.cell.id: target.cell for target in wanted}.values())
        # A lock holds all of a cell, whatever of it is baked.
        every = [image for cell in fresh_cells for image in cell.images]
        images = every if locked or options.locked or held else [image for item in wanted for image in item.images]
        bench = _bench(root, plan, images, options, engine, secrets, own, QuietDisplay())
        if held:
            locked = again(bench, locked, fresh_cells, held.images, engine.say)
        elif locked:
            check_images(bench, locked, fresh_cells)
        if options.locked and fresh_cells:
            engine.say(f"{plan.recipe}: comparing what is here with {plan.lock}")
            compare(bench, fresh_cells, locked)
        carried = _carried(plan, fresh_cells, options, engine)
        held_to = pins(bench, (*wanted, *beside(plan, wanted), *carried), locked, strict=options.locked)
        with run_folder(options.state or root) as place, _carrying(bench, held_to, carried, options, engine, place):
            run = Run(
                root, plan, fresh, named, options, engine, place, known, own.get("PIP_CONF"), secrets, held_to, bench
            )
            return run.go(listener, targets, kept)


def _say_ways(plan: Plan, wanted: Sequence[Target], engine: EngineSession) -> None:
    """Say how the engine has the platforms of cells that are not its own."""
    platforms = {target.cell.id: target.cell.platform for target in wanted}
    if not platforms or set(platforms.values()) == {platform_of(platform.machine())}:
        return
    found = platform_support.here(plan.filter_by_id(platforms), engine.platforms[0], emulated)
    for name, way in {platforms[cell]: way for cell, way in found.items() if way != platform_support.NATIVE}.items():
        engine.say(f"{plan.recipe}: {name}: {way}")


def _carried(plan: Plan, cells: Sequence[Cell], options: Options, engine: EngineSession) -> tuple[Target, ...]:
    """Return the targets that carry compiler caches in this run."""
    if options.compiler_cache and engine.nodes:
        engine.say("the compiler caches of nodes stay where they are: --compiler-cache is left out")
        return ()
    return compiler_cache.carriers(plan, cells) if options.compiler_cache else ()


@contextmanager
def _carrying(
    bench: Bench, pins: Pins, targets: Sequence[Target], options: Options, engine: EngineSession, state: Path
) -> Iterator[None]:
    """Carry compiler caches in before a run and out after it, whatever became of its cells; neither fails a build."""
    folder = options.compiler_cache
    for move in (compiler_cache.take_in, compiler_cache.pack):
        try:
            if folder:
                move(bench, pins, targets, folder, state / "compiler-cache")
        except (BakeError, OutputError) as error:
            if isinstance(error, InterruptedBake):
                raise
            engine.say(f"the compiler cache was not carried: {error.message}")
        if move is compiler_cache.take_in:
            yield


def lock_plan(
    root: Path, plan: Plan, options: Options, engine: EngineSession, listener: Listener, upgrade: Collection[str] = ()
) -> Locked:
    """Look up what the chosen cells of a plan are made of, keeping what its lock says as far as it fits.

    Args:
        upgrade: distributions and base images that are not kept.

    Raises:
        BakeryError: any of its kinds.
    """
    plan = plan.for_builders(engine.platforms) if plan.crosses else plan
    cells = list(plan.filter_by_pattern(options.only).cells)
    needed = plan.secrets_for({Kind.MATERIALS})
    _check_wants(root, plan, options, needed)
    pip_conf = engine.index.pip_conf().encode()
    with (
        private_files({"PIP_CONF": pip_conf} if pip_conf else {}) as own,
        revealed(plan.secrets, needed, root, engine.environment) as told,
    ):
        images = [image for cell in cells for image in cell.images]
        return make(_bench(root, plan, images, options, engine, told, own, listener), cells, upgrade)


def _bench(
    root: Path,
    plan: Plan,
    images: Sequence[Image],
    options: Options,
    engine: EngineSession,
    told: Revealed,
    own: Mapping[str, Path],
    listener: Listener,
) -> Bench:
    """Return what a build of cells' materials is given; the engine has these bases, where bakery can make them."""
    ca_bundle = engine.ca_bundle
    return Bench(
        root=root,
        plan=plan,
        environment=engine.environment,
        names=engine.bases.ensure(images),
        variables={
            "CA_BUNDLE": str(ca_bundle or ""),
            "PIP_CONF": str(own.get("PIP_CONF", "")),
            **told.variables,
        },
        listener=listener,
        state=options.state or state_folder(root, engine.environment),
        reads=(ca_bundle,) if ca_bundle else (),
        mask=told.mask,
        builder=options.builder,
        no_cache=options.no_cache,
        record=options.state / "record" if options.state and options.held else None,
    )


def _check_wants(root: Path, plan: Plan, options: Options, needed: Sequence[Secret]) -> None:
    """Check what a recipe asks of this machine, as far as this run needs it.

    Raises:
        UsageError: something that nobody allowed, or a compiler cache that could be the checkout's own.
    """
    folder = options.compiler_cache
    if folder and folder.resolve().is_relative_to(root.resolve()):
        raise UsageError(
            f"--compiler-cache {folder} is in the project, where a checkout may have one of its own",
            hint="name a folder outside of the project",
        )
    idle = {text for secret in plan.secrets for text in secret.grants if secret not in needed}
    if options.output:
        idle.add(f"fs.write={plan.output}")
    Grants.parse(options.allow).require([want for want in plan.requested_grants if want not in idle], root)


def _kept(
    root: Path,
    plan: Plan,
    options: Options,
    chosen: Mapping[str, Work],
    known: Mapping[str, Record],
    named: Mapping[str, str],
) -> dict[str, Record]:
    """Return the cells that need not be baked, and what is known of them.

    Cells that share a wheel are baked together or not at all: their tests speak of one build of it.
    """
    output = options.output or root / plan.output

    def is_over(name: str) -> bool:
        may_be_gone = options.again is Again.UNFINISHED and is_image(plan, chosen[name])
        return not may_be_gone and is_left_out(options.again, known.get(name), named[name], output)

    members = together(chosen)
    unknown = Record("", "", Result.CANCELED)
    return {name: known.get(name, unknown) for name in chosen if all(is_over(member) for member in members[name])}
