"""Locks in use: which one fits a plan, what a build is pinned to by it, and how a new one is made."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from bakery.drive import digests
from bakery.drive.bake import BakeRequest, Bakes
from bakery.drive.listener import Listener
from bakery.drive.logfiles import LogFiles
from bakery.drive.mask import Mask
from bakery.drive.outcome import BakeFailure, BakeOutcome
from bakery.drive.process import Children, caught
from bakery.drive.progress import Board
from bakery.drive.runs import remove_tree, run_folder
from bakery.emit.files import generate
from bakery.errors import InterruptedBake, LockError, UsageError
from bakery.files import write
from bakery.images import familiar
from bakery.lock import document, hand
from bakery.lock.asked import Asked, asked
from bakery.lock.differences import differences, stale
from bakery.lock.materials import Materials, read
from bakery.names import Kind
from bakery.plan import Add, Cell, Image, Plan, Run, Script, Stage, Target, literal
from bakery.problems import count, nearest
from bakery.providers.scripts import requires

AGAIN = "run `bakery lock`: it keeps what still fits; `bakery lock --upgrade NAME` takes a newer one of NAME"
_SHOWN = 40
_KEPT = 3
"""Locks whose contexts are kept in ``.bakery/lock``."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a build of materials is given.

    Attributes:
        names: (image in the files, platform) → name of its stand-in.
        variables: variables of the bake file, beside the plan's own.
        reads: files outside the project that steps are given as secrets.
        mask: hides secrets in what steps print.
    """

    root: Path
    plan: Plan
    environment: Mapping[str, str]
    names: Mapping[tuple[str, str], str]
    variables: Mapping[str, str]
    listener: Listener
    reads: tuple[Path, ...] = ()
    mask: Mask = field(default_factory=lambda: Mask({}))
    builder: str | None = None
    no_cache: bool = False

    def name(self, image: Image) -> str:
        """Return the name that the engine has for an image."""
        return self.names.get((image.ref, image.platform), image.ref)


@dataclass(frozen=True, slots=True)
class Pins:
    """What a build is held to.

    Attributes:
        overrides: target → its overrides in bake's grammar: base images, and the context with its packages.
        environment: variables for buildx.
        locked: a lock holds all of it.
    """

    overrides: Mapping[str, tuple[str, ...]]
    environment: Mapping[str, str] = field(default_factory=dict)
    locked: bool = False


def file_of(root: Path, plan: Plan) -> Path:
    """Return where a plan's lock lies."""
    return root / plan.lock


# --- a lock that is there ------------------------------------------------------------------------


def fitting(
    root: Path, plan: Plan, cells: Sequence[Cell], say: Callable[[str], None], *, strict: bool
) -> dict[str, Materials]:
    """Return cell → what is locked for it; nothing where there is no lock, or one for other requirements.

    Args:
        say: told in one line that a build is not locked, and why.
        strict: there must be a lock that fits.

    Raises:
        LockError: it is damaged; or, where ``strict``, missing or out of date.
    """
    lock = document.read(file_of(root, plan), plan.lock)
    if lock is None:
        if strict:
            raise LockError(f"--locked: there is no {plan.lock}", hint="`bakery lock` makes it")
        say(f"{plan.recipe}: not locked; `bakery lock` makes {plan.lock}")
        return {}
    locked = document.cells(lock)
    told = stale(locked, {cell.id: _asked(root, plan, cell) for cell in cells})
    told += sorted(
        {
            f"base image {image.ref} ({image.platform}) is not in it"
            for cell in cells
            for image in cell.images
            if (image.ref, image.platform) not in _images(locked)
        }
    )
    if not told:
        return {cell.id: locked[cell.id] for cell in cells}
    if strict:
        raise LockError(f"{plan.lock} is out of date", details=_shown(told), hint=AGAIN)
    for line in (f"warning: {plan.recipe}: {plan.lock} is out of date, so this build is not locked:", *_shown(told)):
        say(line if line.startswith("warning") else f"  {line}")
    return {}


def keyed(keys: Mapping[str, str], locked: Mapping[str, Materials]) -> dict[str, str]:
    """Return cell → digest of what defines it, with what is locked for it."""
    return {cell: _key(key, cell, locked) if cell in locked else key for cell, key in keys.items()}


def _key(key: str, cell: str, locked: Mapping[str, Materials]) -> str:
    text = document.text(document.lock_of(cell, {cell: locked[cell]}))
    return hashlib.sha256(f"{key} {text}".encode()).hexdigest()


def _images(locked: Mapping[str, Materials]) -> Mapping[tuple[str, str], str]:
    return next(iter(locked.values())).images if locked else {}


def _shown(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]


def _asked(root: Path, plan: Plan, cell: Cell) -> dict[str, Asked]:
    return asked(plan, cell, _listed(root, plan))


def _listed(root: Path, plan: Plan) -> dict[str, list[str]]:
    """Return the files of requirements that are made of the project's own pyproject.toml; none for other sources."""
    project = next(stage for stage in plan.stages if stage.name == "project")
    run = next(step for step in project.steps if isinstance(step, Run))
    source = next(mount for mount in run.mounts if mount.target == "/src")
    if source.from_:
        return {}
    folder = str(root / plan.context / source.source)
    found = {}
    for command in run.commands:
        # What the step runs: PYTHON …/requires.py build|run /src [NAME...] > FILE
        words = command.text.split() if isinstance(command, Script) else []
        names, file = words[4:-2], words[-1]
        try:
            found[file] = requires.requirements(folder) if words[2] == "build" else requires.dependencies(folder, names)
        except SystemExit:
            return {}  # The build says it better, with its place.
    return found


def check_images(bench: Bench, locked: Mapping[str, Materials], cells: Iterable[Cell]) -> None:
    """Make sure that the locked base images can be had.

    Raises:
        LockError: one cannot; what is here in its place is told.
    """
    images = dict.fromkeys(image for cell in cells for image in cell.images)
    problems = []
    for image in images:
        digest = _images(locked)[image.ref, image.platform]
        here = _other_than(bench, image, digest)
        if here is not None:
            what = f"here it is {here}" if here else "it is not to be had here"
            problems.append(f"base image {image.ref} ({image.platform}): {digest} is locked, and {what}")
    if problems:
        raise LockError(
            f"{bench.plan.lock} names base images that cannot be had",
            details=problems,
            hint="load or pull the locked one, or take the one that is here: `bakery lock --upgrade IMAGE`",
        )


def _other_than(bench: Bench, image: Image, digest: str) -> str | None:
    """Return None where an image can be had by its digest, else the digest that its name has here."""
    name, platform = bench.name(image).partition("@")[0], image.platform
    own = digests.present(bench.environment, name, platform)
    if digest == own or digests.offered(bench.environment, f"{name}@{digest}") == digest:
        return None
    return own or digests.offered(bench.environment, name)


def pins(bench: Bench, targets: Sequence[Target], locked: Mapping[str, Materials], *, strict: bool) -> Pins:
    """Return what a build of targets is held to by what is locked for its cells; without a lock, its stand-ins alone."""
    if not locked:
        return Pins({target.name: _images_of(bench, target, {}) for target in targets})
    folder = _contexts(bench, locked, strict=strict)
    overrides = {
        target.name: (
            *_images_of(bench, target, _images(locked)),
            f"{target.name}.contexts.{hand.CONTEXT}={folder / target.cell.id}",
        )
        for target in targets
    }
    named = {
        (bench.name(image).partition("@")[0], digest)
        for target in targets
        for image in target.cell.images
        if (digest := _images(locked).get((image.ref, image.platform)))
    }
    policy = bench.root / folder / "policy.json"
    policy.write_text(hand.policy(named), encoding="utf-8")
    return Pins(overrides, {"EXPERIMENTAL_BUILDKIT_SOURCE_POLICY": str(policy.absolute())}, locked=True)


def _images_of(bench: Bench, target: Target, pinned: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    found = []
    for image in target.cell.images:
        name, digest = bench.name(image), pinned.get((image.ref, image.platform), "")
        name += f"@{digest}" if digest and "@" not in name else ""
        if name != image.ref:
            found.append(f"{target.name}.contexts.{image.ref}=docker-image://{name}")
    return tuple(found)


def _contexts(bench: Bench, locked: Mapping[str, Materials], *, strict: bool) -> Path:
    """Write the contexts of all cells, and return their folder relative to the project; the same lock is the same one."""
    text = document.text(document.lock_of(bench.plan.recipe, locked))
    digest = hashlib.sha256(f"{strict} {hand.places(bench.plan)} {text}".encode()).hexdigest()[:16]
    home = Path(".bakery") / "lock"
    folder = bench.root / home / digest
    for cell, own in locked.items():
        hand.pinned(folder / cell, bench.plan, own, strict=strict)
    folder.touch()
    others = sorted((path for path in folder.parent.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for path in others[:-_KEPT]:
        remove_tree(path)
    return home / digest


def with_sources(plan: Plan, locked: Mapping[str, Materials]) -> Plan:
    """Return the plan with the commits that are locked in place of branches and tags."""
    known = {address: commit for own in locked.values() for address, commit in own.sources.items()}

    def pinned(stage: Stage) -> Stage:
        return replace(
            stage, steps=tuple(_pinned(step, known) if isinstance(step, Add) else step for step in stage.steps)
        )

    return replace(plan, stages=tuple(map(pinned, plan.stages))) if known else plan


def _pinned(step: Add, known: Mapping[str, str]) -> Add:
    text = "".join(part for part in step.source if isinstance(part, str))
    commit = known.get(text)
    return replace(step, source=literal(f"{text.partition('#')[0]}#{commit}")) if commit else step


def compare(bench: Bench, cells: Sequence[Cell], locked: Mapping[str, Materials]) -> None:
    """Make sure that cells are made here of exactly what is locked. Nothing is compiled.

    Raises:
        LockError: they are not; ``details`` says what differs.
    """
    targets = _targets(bench.plan, cells)
    found = tell(bench, targets, pins(bench, targets, locked, strict=True))
    told = differences(locked, found)
    if told:
        dated = ", ".join(f"{suite} of {date}" for suite, date in next(iter(locked.values())).suites.items())
        more = (
            f"; packages of Debian were locked from {dated}: a snapshot archive of that day has them" if dated else ""
        )
        raise LockError(f"what is here is not what {bench.plan.lock} says", details=_shown(told), hint=AGAIN + more)


# --- what cells are made of ----------------------------------------------------------------------


def _targets(plan: Plan, cells: Iterable[Cell]) -> tuple[Target, ...]:
    wanted = {cell.id for cell in cells}
    return tuple(item for item in plan.targets() if item.kind is Kind.MATERIALS and item.cell.id in wanted)


def tell(bench: Bench, targets: Sequence[Target], held: Pins) -> dict[str, Materials]:
    """Build the materials of cells and return what they are: cell → materials.

    Raises:
        BakeError: a step failed.
    """
    with run_folder(bench.root) as state:
        place = state.relative_to(bench.root)
        own = replace(bench.plan, dockerfile=str(place / "Dockerfile"), bakefile=str(place / "bake.hcl"))
        write(bench.root, generate(own))
        request = BakeRequest(
            root=bench.root,
            bakefile=Path(own.bakefile),
            targets=tuple(targets),
            environment={**bench.environment, **held.environment, **digests.PROVENANCE},
            variables={**bench.plan.values(), "DEST": str(state / "stage"), **bench.variables},
            state=state,
            overrides=(*map(str, bench.plan.overrides), *(item for own in held.overrides.values() for item in own)),
            builder=bench.builder,
            no_cache=bench.no_cache,
            reads=bench.reads,
            mask=bench.mask,
        )
        outcome = _bake(request, bench.listener)
        found = {}
        for target in targets:
            images, sources = digests.used(outcome.targets[target.name].metadata)
            own_images = {
                (image.ref, image.platform): images[name]
                for image in target.cell.images
                if (name := familiar(bench.name(image))) in images
            }
            made = read(request.stage / "materials" / target.cell.id)
            found[target.cell.id] = replace(made, images=own_images, sources=_of_plan(bench.plan, sources))
        return found


def _bake(request: BakeRequest, listener: Listener) -> BakeOutcome:
    """Bake one request to its end.

    Raises:
        BakeFailure: a target failed.
        InterruptedBake: a signal ended it.
    """
    board = Board([target.name for target in request.targets])
    ended: list[BakeOutcome] = []
    with caught() as signals, LogFiles(request.logs) as logs, Children(signals) as children:
        bakes = Bakes(children, logs, board, listener)
        listener.start(board)
        try:
            bakes.start(request)
            while not ended:
                ended = [outcome for _, outcome in bakes.turn()]
        finally:
            listener.finish()
    if signals.arrived:
        raise InterruptedBake(f"interrupted by {signals.name}: the build was ended", hint="nothing was changed")
    if ended[0].failures:
        raise BakeFailure(ended[0])
    return ended[0]


def _of_plan(plan: Plan, sources: Mapping[str, str]) -> dict[str, str]:
    """Return the commits of the sources that a plan names."""
    named = {
        "".join(part for part in step.source if isinstance(part, str))
        for stage in plan.stages
        for step in stage.steps
        if isinstance(step, Add)
    }
    return {address: commit for address, commit in sources.items() if address in named}


# --- a new lock ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Locked:
    """A lock that was made.

    Attributes:
        text: the file.
        changes: what differs from the one before; all of it, where there was none.
        kept: there was one before.
    """

    text: str
    changes: tuple[str, ...]
    kept: bool


def make(bench: Bench, cells: Sequence[Cell], upgrade: Collection[str]) -> Locked:
    """Look up what cells are made of, keeping what the lock that is there says as far as it fits.

    Args:
        cells: the others keep what is locked for them.
        upgrade: distributions and base images that are not kept.

    Raises:
        UsageError: what is to be upgraded is in no lock.
        LockError: the lock that is there is damaged.
        BakeError: a step failed: a requirement cannot be satisfied, for one.
    """
    plan = bench.plan
    before = document.read(file_of(bench.root, plan), plan.lock)
    locked = document.cells(before) if before else {}
    names = _upgraded(plan, locked, upgrade)
    none = Materials()
    # Content that no run had before: the index is asked again, whatever the engine remembers.
    stamp = f"{time.time_ns()}"
    folder = Path(".bakery") / "lock" / f"new-{stamp}"
    targets = _targets(plan, cells)
    keep = {
        (image.ref, image.platform): digest
        for cell in cells
        for image in cell.images
        if image.ref not in upgrade
        and (digest := _images(locked).get((image.ref, image.platform)))
        and _other_than(bench, image, digest) is None
    }
    try:
        for cell in cells:
            hand.preferred(bench.root / folder / cell.id, plan, locked.get(cell.id, none), names, stamp)
        overrides = {
            target.name: (
                *_images_of(bench, target, keep),
                f"{target.name}.contexts.{hand.CONTEXT}={folder / target.cell.id}",
            )
            for target in targets
        }
        found = tell(bench, targets, Pins(overrides))
    finally:
        shutil.rmtree(bench.root / folder, ignore_errors=True)
    others = {cell.id: locked[cell.id] for cell in plan.cells if cell.id in locked and cell.id not in found}
    made = {cell.id: {**others, **found}[cell.id] for cell in plan.cells if cell.id in {**others, **found}}
    changes = differences({cell: locked.get(cell, none) for cell in found}, found) if before else []
    return Locked(document.text(document.lock_of(plan.recipe, made)), tuple(changes), before is not None)


def _upgraded(plan: Plan, locked: Mapping[str, Materials], upgrade: Collection[str]) -> set[str]:
    """Return the distributions among what is to be upgraded, their names normalised."""
    files = (file for own in locked.values() for item in own.packages.values() for file in item.files.values())
    distributions = {file.name for file in files}
    images = {ref for ref, _ in _images(locked)}
    names = {canonicalize_name(name): name for name in upgrade if name not in images}
    unknown = [name for key, name in names.items() if key not in distributions]
    if unknown:
        near = [close for name in unknown if (close := nearest(name, {*distributions, *images}))]
        raise UsageError(
            f"--upgrade: {plan.lock} has no {', '.join(unknown)}",
            hint=f"did you mean {' or '.join(near)}?"
            if near
            else "it names a distribution or a base image of the lock",
        )
    return set(names)


def summary(locked: Locked) -> str:
    """Return what a lock holds, in one line."""
    sizes = {
        "base image": locked.text.count("sha256:"),
        "file": locked.text.count("sha256 = "),
    }
    return ", ".join(count(number, noun) for noun, number in sizes.items())
