"""Builds a wheel again from what its provenance says, and tells whether it is the same bytes."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bakery import __version__
from bakery.audit.difference import Difference, differences
from bakery.checkout import clone
from bakery.conclusion import conclusion
from bakery.drive.context import files, tree_hash
from bakery.drive.listener import Listener
from bakery.emit.files import generate
from bakery.errors import BakeryError, UnavailableError
from bakery.load import Loaded, load
from bakery.lock.materials import Materials
from bakery.locker import LockFailure
from bakery.models import Builder
from bakery.options import Held, Options
from bakery.oven import Oven
from bakery.pipeline import bake_plan
from bakery.plan import Add, Plan
from bakery.record import made
from bakery.record.read import Recorded, read
from bakery.resolve.lower import resolve

_SHIPPED = "shipped recipe "


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What building a wheel again came to.

    Attributes:
        differences: empty if the wheel is the same bytes.
        materials: what both were made from, where that differs, one line each.
    """

    wheel: Path
    differences: tuple[Difference, ...]
    materials: tuple[str, ...] = ()

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
        }


@dataclass(frozen=True, slots=True)
class Again:
    """How a wheel is to be built again.

    Attributes:
        recipe: in place of the one that the provenance names; None for that.
        here: build the project as it is now, whatever the provenance says of its source and its recipe.
    """

    recipe: str | None = None
    provenance: Path | None = None
    here: bool = False


def reproduce(wheel: Path, cwd: Path, again: Again, oven: Oven, listener: Listener) -> Reproduction:
    """Build a wheel again, no step from a cache, and compare.

    Args:
        cwd: the project that the wheel is of.

    Raises:
        UnavailableError: it cannot be built again: what it was made from is not there.
        BakeryError: any other of its kinds, from the build.
    """
    recorded = read(wheel, again.provenance)
    with _project(recorded, cwd, again) as (root, plan), tempfile.TemporaryDirectory(prefix="bakery-") as folder:
        output = Path(folder)
        held = None if again.here else Held({recorded.cell: _held(plan, made.again(recorded))}, made.images(recorded))
        if held and not recorded.requirements:
            oven.say("its provenance names no packages: those that the index has now are taken")
        options = Options(("wheel",), (f"wheel-{recorded.cell}",), output, no_cache=True, held=held)
        error = conclusion([bake_plan(root, plan, options, oven, listener)])
        if isinstance(error, LockFailure):
            said = "the wheel cannot be built again: not all of what it was made from is to be had"
            raise UnavailableError(said, details=error.details, hint="--here builds with what there is now") from error
        if error:
            raise error
        built = output / wheel.name
        if not built.exists():
            names = tuple(sorted(path.name for path in output.glob("*.whl")))
            return Reproduction(wheel, (Difference("", "file name", (wheel.name,), names),))
        return Reproduction(wheel, differences(wheel, built), tuple(_materials(recorded, read(built))))


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
def _project(recorded: Recorded, cwd: Path, again: Again) -> Iterator[tuple[Path, Plan]]:
    """Give the root of a project as the wheel was built from, and the plan to build it again.

    Raises:
        UnavailableError: there is none; ``details`` says why.
    """
    if again.here:
        present = _loaded(recorded, cwd, again)
        yield present.root, _plan(present, recorded)
        return
    reasons: list[str] = []
    loaded, refusal = _fitting(recorded, cwd, again, "the project as it is")
    reasons += refusal
    commit = recorded.source[0].get("gitCommit") if recorded.source else None
    if not reasons and loaded:
        yield loaded.root, _plan(loaded, recorded)
        return
    if recorded.source and not commit:
        base, changed = (recorded.source[1].get(key) for key in ("basedOn", "changed"))
        if base:
            listed = ", ".join(map(str, changed or ()))[:500]
            reasons.append(f"it was built from no commit: on top of {base}, these files were changed: {listed}")
    with tempfile.TemporaryDirectory(prefix="bakery-source-") as folder:
        if commit:
            place = clone(cwd, commit, Path(folder))
            if place is None:
                reasons.append(f"commit {commit} is not in this repository")
            else:
                there, refusal = _fitting(recorded, place, again, f"commit {commit[:12]}")
                if there and not refusal:
                    yield there.root, _plan(there, recorded)
                    return
                reasons += refusal
        raise UnavailableError(
            "the wheel cannot be built again: what it was made from is not here",
            details=reasons,
            hint="work in the wheel's project (-C DIR) with its commit fetched; --here builds the project as it is",
        )


def _fitting(recorded: Recorded, cwd: Path, again: Again, what: str) -> tuple[Loaded | None, list[str]]:
    """Return the recipe in a folder, and why it would not build the wheel that was recorded."""
    try:
        loaded = _loaded(recorded, cwd, again)
        plan = resolve(loaded, recorded.settings, {})
        found: list[str] = []
        if hashlib.sha256(generate(plan)[plan.dockerfile].encode()).hexdigest() != recorded.dockerfile:
            said = f"recorded by bakery {recorded.bakery}, this is {__version__}"
            found.append(f"{what}: its recipe gives other build steps ({said})")
        if recorded.source:
            digest, notes = recorded.source
            sent = files(loaded.root / plan.context, [str(path) for path in notes.get("paths", ())], plan.ignore)
            if tree_hash(sent) != digest["dirHash"]:
                found.append(f"{what}: its files are not those that the wheel was built from")
    except BakeryError as error:
        return None, [f"{what}: {error.message}", *error.details]
    return loaded, found


def _loaded(recorded: Recorded, cwd: Path, again: Again) -> Loaded:
    file = recorded.recipe_file
    reference = again.recipe or (file.removeprefix(_SHIPPED) if file.startswith(_SHIPPED) else f"./{file}")
    found = [item for item in load(reference, cwd) if item.recipe.name == recorded.recipe]
    if not found:
        raise UnavailableError(f"{reference} holds no recipe {recorded.recipe!r}")
    return found[0]


def _plan(loaded: Loaded, recorded: Recorded) -> Plan:
    """Return the plan as it was, but for caches: what they give back was not built again, and nobody asked to write them."""
    builder = (loaded.recipe.builder or Builder()).model_copy(update={"compiler_cache": False})
    recipe = loaded.recipe.model_copy(update={"builder": builder})
    return resolve(replace(loaded, recipe=recipe), [*recorded.settings, "CACHE=none"], {})
