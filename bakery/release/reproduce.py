"""Builds a wheel again from what its provenance says, and tells whether it is the same bytes."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bakery import __version__
from bakery.audit.difference import Difference, differences
from bakery.build.buildx.listener import Listener
from bakery.build.context_digest import files, tree_hash
from bakery.build.exit_status import conclusion
from bakery.build.lock.failure import LockFailure
from bakery.build.lock.materials import Materials
from bakery.build.options import Held, Options
from bakery.build.pipeline import bake_plan
from bakery.build.records import materials as made
from bakery.build.records.read import Recorded, read
from bakery.core.errors import BakeryError, UnavailableError
from bakery.core.git import clone
from bakery.core.names import Kind
from bakery.emit.files import generate
from bakery.engine.session import EngineSession
from bakery.plan.dockerfile import Add
from bakery.plan.model import Plan
from bakery.recipe.files import is_inside, shipped
from bakery.recipe.load import Loaded, load
from bakery.recipe.models import Builder
from bakery.recipe.problems import shorten
from bakery.resolve.plan import resolve
from bakery.resolve.set_option import SetOptions, parse_set_options
from bakery.resolve.settings import build_variables

_SHIPPED = "shipped recipe "


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What building a wheel again came to.

    Attributes:
        differences: empty if the wheel is the same bytes.
        materials: what both were made from, where that differs, one line each.
        taken: what the build took from the provenance or the command line in place of the recipe's own, one line each.
        not_compared: what nothing was compared with, one phrase each.
    """

    wheel: Path
    differences: tuple[Difference, ...]
    materials: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the two are the same bytes."""
        return not self.differences

    def to_json(self) -> dict[str, object]:
        """Return the machine report."""
        return {
            "version": 1,
            "wheel": self.wheel.name,
            "same": self.same,
            "differences": [item.to_json() for item in self.differences],
            "materials": list(self.materials),
            "taken": list(self.taken),
            "not-compared": list(self.not_compared),
        }


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """How a wheel is to be built again.

    Attributes:
        recipe: in place of the one that the provenance names; None for that.
        here: build the project as it is now, whatever the provenance says of its source and its recipe.
        sets: further settings, as ``--set`` has them; a person gave them.
    """

    recipe: str | None = None
    provenance: Path | None = None
    here: bool = False
    sets: tuple[str, ...] = ()


def reproduce(wheel: Path, cwd: Path, again: RebuildOptions, engine: EngineSession, listener: Listener) -> Reproduction:
    """Build a wheel again, no step from a cache, and compare. Nothing is written into the project.

    Args:
        cwd: the project that the wheel is of.

    Raises:
        UnavailableError: it cannot be built again: what it was made from is not there, or its provenance asks for what
            nobody can verify.
        BakeryError: any other of its kinds, from the build.
    """
    recorded = read(wheel, again.provenance)
    with _project(recorded, cwd, again) as (root, plan), tempfile.TemporaryDirectory(prefix="bakery-") as folder:
        output, state = Path(folder) / "output", Path(folder) / "state"
        state.mkdir()
        held = None if again.here else Held({recorded.cell: _held(plan, made.again(recorded))}, made.images(recorded))
        if held and not recorded.requirements:
            engine.say("its provenance names no packages: those that the index has now are taken")
        options = Options(("wheel",), (f"wheel-{recorded.cell}",), output, no_cache=True, held=held, state=state)
        error = conclusion([bake_plan(root, plan, options, engine, listener)])
        if isinstance(error, LockFailure):
            said = "the wheel cannot be built again: not all of what it was made from is to be had"
            raise UnavailableError(said, details=error.details, hint="--here builds with what there is now") from error
        if error:
            raise error
        taken, not_compared = tuple(_taken(recorded, again, held)), tuple(_not_compared(held, again))
        built = output / wheel.name
        if not built.exists():
            names = tuple(sorted(path.name for path in output.glob("*.whl")))
            return Reproduction(wheel, (Difference("", "file name", (wheel.name,), names),), (), taken, not_compared)
        materials = tuple(_materials(recorded, read(built)))
        return Reproduction(wheel, differences(wheel, built), materials, taken, not_compared)


def against(wheel: Path, other: Path) -> Reproduction:
    """Compare two wheels; nothing is built.

    Raises:
        BakeryError: one cannot be read.
    """
    return Reproduction(wheel, differences(wheel, other), not_compared=("how the two were built",))


def _taken(recorded: Recorded, again: RebuildOptions, held: Held | None) -> Iterator[str]:
    """Yield what the build took from the provenance or the command line, one line each."""
    if again.recipe:
        yield f"the recipe, from the command line: {again.recipe}"
    yield from (f"a setting, from the command line: {text}" for text in again.sets)
    yield from (f"a setting, from the provenance: {text}" for text in recorded.settings if text not in again.sets)
    if held:
        yield from (f"a base image, from the provenance: {name}@{digest}" for name, digest in held.images.items())
        for address, commit in held.cells[recorded.cell].sources.items():
            yield f"a commit, from the provenance: {address.partition('#')[0]} at {commit}"


def _not_compared(held: Held | None, again: RebuildOptions) -> Iterator[str]:
    """Yield what the result says nothing about."""
    yield "the test of the wheel (it was not run)"
    if again.here or held is None:
        yield "the recorded source (the project as it is now was built)"
        return
    if held.images:
        yield "what the tags of base images name now"
    if held.cells and any(own.sources for own in held.cells.values()):
        yield "what the branches and tags of cloned repositories name now"
    yield "who wrote the provenance (it is not signed)"


def _held(plan: Plan, materials: Materials) -> Materials:
    """Return materials with the commits under the addresses that the plan has: a locked build asks for commits."""
    by_repository = {address.partition("#")[0]: commit for address, commit in materials.sources.items()}
    texts = (
        "".join(part for part in step.source if isinstance(part, str))
        for stage in plan.stages
        for step in stage.steps
        if isinstance(step, Add)
    )
    found = {text: commit for text in texts if (commit := by_repository.get(text.partition("#")[0]))}
    return replace(materials, sources=found)


def _materials(old: Recorded, new: Recorded) -> Iterator[str]:
    before, after = (_digests(side) for side in (old, new))
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{name}: {before.get(name, 'not there')} → {after.get(name, 'not there')}"
    if old.bakery != new.bakery:
        yield f"bakery: {old.bakery} → {new.bakery}"


def _digests(recorded: Recorded) -> dict[str, str]:
    """Return material → its digests; where it has none, its address."""
    return {
        item.name: ", ".join(f"{key}:{value}" for key, value in sorted(item.digest.items())) or item.uri
        for item in recorded.materials
    }


@contextmanager
def _project(recorded: Recorded, cwd: Path, again: RebuildOptions) -> Iterator[tuple[Path, Plan]]:
    """Give the root of a project as the wheel was built from, and the plan to build it again.

    Raises:
        UnavailableError: there is none; ``details`` says why.
    """
    if again.here:
        present = _loaded(recorded, cwd, again)
        yield present.root, _plan(present, recorded, again)
        return
    reasons: list[str] = []
    loaded, refusal = _fitting(recorded, cwd, again, "the project as it is")
    reasons += refusal
    commit = recorded.source[0].get("gitCommit") if recorded.source else None
    if not reasons and loaded:
        yield loaded.root, _plan(loaded, recorded, again)
        return
    if recorded.source and not commit:
        base, changed = (recorded.source[1].get(key) for key in ("basedOn", "changed"))
        if base:
            listed = shorten(", ".join(map(str, changed if isinstance(changed, list) else ())), 500)
            reasons.append(
                f"it was built from no commit: on top of {shorten(str(base))}, these files were changed: {listed}"
            )
    with tempfile.TemporaryDirectory(prefix="bakery-source-") as folder:
        if commit:
            place = clone(cwd, commit, Path(folder))
            if place is None:
                reasons.append(f"commit {shorten(commit)} is not in this repository")
            else:
                there, refusal = _fitting(recorded, place, again, f"commit {commit[:12]}")
                if there and not refusal:
                    yield there.root, _plan(there, recorded, again)
                    return
                reasons += refusal
        raise UnavailableError(
            "the wheel cannot be built again: what it was made from is not here",
            details=reasons,
            hint="work in the wheel's project (-C DIR) with its commit fetched; --here builds the project as it is",
        )


def _fitting(recorded: Recorded, cwd: Path, again: RebuildOptions, what: str) -> tuple[Loaded | None, list[str]]:
    """Return the recipe in a folder, and why it would not build the wheel that was recorded.

    Raises:
        _UnverifiableError: the provenance asks for what nobody can verify, whatever the folder holds.
    """
    try:
        loaded = _loaded(recorded, cwd, again)
        plan = resolve(loaded, _settings(recorded, loaded, again), {})
        found: list[str] = []
        if not _has_cell(recorded, plan):
            found.append(f"{what}: its recipe has no cell {shorten(recorded.cell)!r}")
        if hashlib.sha256(generate(plan)[plan.dockerfile].encode()).hexdigest() != recorded.dockerfile:
            said = f"recorded by bakery {shorten(recorded.bakery)}, this is {__version__}"
            found.append(f"{what}: its recipe gives other build steps ({said})")
        # Which files are looked at is never the provenance's to say.
        sent = plan.context_paths()
        if sent and not recorded.source:
            found.append(f"{what}: the provenance has no hash of its files (dirHash)")
        elif sent and recorded.source:
            own = tree_hash(files(loaded.root / plan.context, sent, plan.ignore))
            if own != recorded.source[0]["dirHash"]:
                found.append(f"{what}: its files are not those that the wheel was built from")
    except _UnverifiableError:
        raise
    except BakeryError as error:
        return None, [f"{what}: {error.message}", *error.details]
    return loaded, found


class _UnverifiableError(UnavailableError):
    """A provenance asks for what nobody can verify."""


def _loaded(recorded: Recorded, cwd: Path, again: RebuildOptions) -> Loaded:
    reference = again.recipe or _reference(recorded, cwd)
    found = [item for item in load(reference, cwd) if item.recipe.name == recorded.recipe]
    if not found:
        raise UnavailableError(f"{reference} holds no recipe {recorded.recipe!r}")
    return found[0]


def _reference(recorded: Recorded, cwd: Path) -> str:
    """Return how the recipe that a provenance names is loaded.

    Raises:
        UnavailableError: it is neither a shipped recipe nor a file of the project.
    """
    file = recorded.recipe_file
    name = file.removeprefix(_SHIPPED)
    if name != file and name in shipped():
        return name
    if name != file or not is_inside(file, cwd):
        raise _UnverifiableError(
            f"the provenance names a recipe that is not the project's: {shorten(file)!r}",
            hint="--recipe names the recipe to build with",
        )
    return f"./{file}"


def _settings(recorded: Recorded, loaded: Loaded, again: RebuildOptions) -> SetOptions:
    """Return the settings to build with: those of the provenance, which may set the recipe's variables, and a person's.

    Raises:
        UnavailableError: the provenance sets something else.
    """
    known = build_variables(loaded)
    own = f"{Kind.WHEEL}-{recorded.cell}.args."
    wanted = [text for text in recorded.settings if text not in again.sets]
    refused = [text for text in wanted if text.partition("=")[0].removeprefix(own) not in known]
    if refused:
        raise _UnverifiableError(
            "the provenance sets what is no variable of the recipe",
            details=[f"--set {shlex.quote(shorten(text, 200))}" for text in refused],
            hint="anybody may have written it: give these on the command line if you want them",
        )
    return parse_set_options((*wanted, *again.sets))


def _has_cell(recorded: Recorded, plan: Plan) -> bool:
    """Whether the recipe has a cell of the recorded name; a pattern is none."""
    return recorded.cell in {cell.id for cell in plan.cells}


def _plan(loaded: Loaded, recorded: Recorded, again: RebuildOptions) -> Plan:
    """Return the plan as it was, without the caches: what one gives back was not built again, and none is written."""
    builder = (loaded.recipe.builder or Builder()).model_copy(update={"compiler_cache": False})
    recipe = loaded.recipe.model_copy(update={"builder": builder, "cache": None})
    plan = resolve(replace(loaded, recipe=recipe), _settings(recorded, loaded, again), {})
    if not _has_cell(recorded, plan):
        raise UnavailableError(f"the recipe has no cell {shorten(recorded.cell)!r}")
    return plan
