"""Builds a wheel again from its provenance, and compares the bytes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bakery import __version__
from bakery.core.errors import AuditError, BakeryError, UnavailableError
from bakery.core.git import clone
from bakery.core.inside import temporary_tree
from bakery.core.source_manifest import tree_hash
from bakery.core.target_kinds import Kind
from bakery.emit.dockerfile import build_digest
from bakery.engine.session import EngineSession
from bakery.plan.dockerfile import Add
from bakery.plan.model import Plan
from bakery.recipe.files import is_inside, shipped
from bakery.recipe.load import Loaded, load
from bakery.recipe.models import Cache
from bakery.recipe.problems import shorten
from bakery.resolve.plan import resolve
from bakery.resolve.set_option import SetOptions, parse_set_options
from bakery.resolve.settings import build_variables
from bakery.runs.buildx.board import Listener
from bakery.runs.conclusion import conclusion
from bakery.runs.lock.failure import LockFailure
from bakery.runs.pipeline import bake_plan
from bakery.runs.records.read import Provenance, locked_from_provenance, read, recorded_images
from bakery.runs.run_options import Options, PinnedMaterials
from bakery.runs.source_files import source_of
from wheel_audit.byte_difference import Difference, differences
from wheel_audit.worker import LimitExceeded

_SHIPPED = "shipped recipe "


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The result of building a wheel again, as lines: the inputs of the two builds that differ, the inputs from the
    provenance or the command line instead of the recipe, and what was not compared.
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
    """How to build a wheel again: with another recipe than in its provenance, with more settings, as in ``--set``, and with
    grants, as in ``--allow``.

    With ``here``, the project is built as it is now; the source and recipe in the provenance are ignored.
    """

    recipe: str | None = None
    provenance: Path | None = None
    here: bool = False
    sets: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


def reproduce(
    wheel: Path, cwd: Path, options: RebuildOptions, engine: EngineSession, listener: Listener
) -> Reproduction:
    """Build a wheel of the project in ``cwd`` again without caches, and compare. The project is not changed.

    Raises UnavailableError if its inputs are not available or its provenance cannot be verified, BakeryError if the
    build fails.
    """
    recorded = read(wheel, options.provenance)
    with _project(recorded, cwd, options) as (root, plan), temporary_tree("bakery-") as folder:
        output, state = folder / "output", folder / "state"
        state.mkdir()
        pinned = None if options.here else _pinned_materials(plan, recorded)
        if pinned and not recorded.requirements:
            engine.say("the provenance names no packages: the build uses those that the index has now")
        cells = (f"wheel-{recorded.cell}",)
        request = Options(("wheel",), cells, output, no_cache=True, pinned=pinned, state=state, allow=options.allow)
        error = conclusion([bake_plan(root, plan, request, engine, listener)])
        if isinstance(error, LockFailure):
            text = "the wheel cannot be built again: some of its inputs are not available"
            raise UnavailableError(text, details=error.details, hint="--here builds with what there is now") from error
        if error:
            raise error
        taken, not_compared = tuple(_taken(recorded, options, pinned)), tuple(_not_compared(pinned))
        built = output / wheel.name
        if not built.exists():
            names = tuple(sorted(path.name for path in output.glob("*.whl")))
            return Reproduction(wheel, (Difference("", "file name", (wheel.name,), names),), (), taken, not_compared)
        materials = tuple(_materials(recorded, read(built)))
        return Reproduction(wheel, _compared(wheel, built), materials, taken, not_compared)


def _compared(wheel: Path, other: Path) -> tuple[Difference, ...]:
    try:
        return differences(wheel, other)
    except LimitExceeded as error:
        raise AuditError(error.message) from error


def against(wheel: Path, other: Path) -> Reproduction:
    """Compare two wheels without a build. Raises BakeryError if one cannot be read."""
    return Reproduction(wheel, _compared(wheel, other), not_compared=("how the two were built",))


def _taken(recorded: Provenance, options: RebuildOptions, pinned: PinnedMaterials | None) -> Iterator[str]:
    """Yield the inputs that the build took from the provenance or the command line."""
    if options.recipe:
        yield f"the recipe, from the command line: {options.recipe}"
    yield from (f"a setting, from the command line: {text}" for text in options.sets)
    yield from (f"a setting, from the provenance: {text}" for text in recorded.settings if text not in options.sets)
    if pinned:
        yield from (f"a base image, from the provenance: {name}@{digest}" for name, digest in pinned.images.items())
        for address, commit in pinned.cells[recorded.cell].sources.items():
            yield f"a commit, from the provenance: {address.partition('#')[0]} at {commit}"


def _not_compared(pinned: PinnedMaterials | None) -> Iterator[str]:
    yield "the test of the wheel (it was not run)"
    if pinned is None:
        yield "the recorded source (the project as it is now was built)"
        return
    if pinned.images:
        yield "what the tags of base images name now"
    if any(cell.sources for cell in pinned.cells.values()):
        yield "what the branches and tags of cloned repositories name now"
    yield "who wrote the provenance (it is not signed)"


def _pinned_materials(plan: Plan, recorded: Provenance) -> PinnedMaterials:
    """Return the recorded materials with the commits by the plan's addresses, as a locked build needs them."""
    materials = locked_from_provenance(recorded)
    by_repository = {address.partition("#")[0]: commit for address, commit in materials.sources.items()}
    texts = (
        "".join(part for part in step.source if isinstance(part, str))
        for stage in plan.stages
        for step in stage.steps
        if isinstance(step, Add)
    )
    commits = {text: commit for text in texts if (commit := by_repository.get(text.partition("#")[0]))}
    return PinnedMaterials({recorded.cell: replace(materials, sources=commits)}, recorded_images(recorded))


def _materials(old: Provenance, new: Provenance) -> Iterator[str]:
    before, after = (_digests(side) for side in (old, new))
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{name}: {before.get(name, 'not there')} → {after.get(name, 'not there')}"
    if old.bakery != new.bakery:
        yield f"bakery: {old.bakery} → {new.bakery}"


def _digests(recorded: Provenance) -> dict[str, str]:
    """Return material → its digests, or its address if it has none."""
    return {
        item.name: ", ".join(f"{key}:{value}" for key, value in sorted(item.digest.items())) or item.uri
        for item in recorded.materials
    }


@contextmanager
def _project(recorded: Provenance, cwd: Path, options: RebuildOptions) -> Iterator[tuple[Path, Plan]]:
    """Give the root of the project that the wheel was built from, and its plan, or raise UnavailableError."""
    if options.here:
        loaded = _load_recipe(recorded, cwd, options)
        yield loaded.root, _plan(loaded, recorded, options)
        return
    problems: list[str] = []
    with temporary_tree("bakery-source-") as folder:
        for what, root in _sources(recorded, cwd, folder, problems):
            try:
                loaded = _load_recipe(recorded, root, options)
                mismatches = [f"{what}: {text}" for text in _mismatches(recorded, loaded, options)]
            except _UnverifiableError:
                raise
            except BakeryError as error:
                mismatches = [f"{what}: {error.message}", *error.details]
            if not mismatches:
                yield loaded.root, _plan(loaded, recorded, options)
                return
            problems += mismatches
        raise UnavailableError(
            "the wheel cannot be built again: its source is not here",
            details=problems,
            hint="work in the wheel's project (-C DIR) with its commit fetched; --here builds the project as it is",
        )


def _sources(recorded: Provenance, cwd: Path, folder: Path, problems: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield possible sources of the wheel, each with a name; ``problems`` gets why there are no more."""
    yield "the project as it is", cwd
    digests, facts = recorded.source or ({}, {})
    if commit := digests.get("gitCommit"):
        if root := clone(cwd, commit, folder):
            yield f"commit {commit[:12]}", root
        else:
            problems.append(f"commit {shorten(commit)} is not in this repository")
    elif base := facts.get("basedOn"):
        changed = facts.get("changed")
        files = shorten(", ".join(map(str, changed if isinstance(changed, list) else ())), 500)
        problems.append(
            f"it was built from no commit: on top of {shorten(str(base))}, these files were changed: {files}"
        )


def _mismatches(recorded: Provenance, loaded: Loaded, options: RebuildOptions) -> Iterator[str]:
    """Yield why a recipe would not build the recorded wheel."""
    plan = resolve(loaded, _settings(recorded, loaded, options), {})
    if recorded.cell not in {cell.id for cell in plan.cells}:
        yield f"its recipe has no cell {shorten(recorded.cell)!r}"
    if build_digest(plan) != recorded.dockerfile:
        versions = f"recorded by bakery {shorten(recorded.bakery)}, this is {__version__}"
        yield f"its recipe gives other build steps ({versions})"
    # The plan, not the provenance, says which files are compared.
    paths = plan.context_paths()
    if paths and not recorded.source:
        yield "the provenance has no hash of its files (dirHash)"
    elif paths and recorded.source:
        digest = tree_hash(source_of(loaded.root, plan).files)
        if digest != recorded.source[0]["dirHash"]:
            yield "its files are not those that the wheel was built from"


class _UnverifiableError(UnavailableError):
    """A provenance asks for what cannot be verified."""


def _load_recipe(recorded: Provenance, cwd: Path, options: RebuildOptions) -> Loaded:
    reference = options.recipe or _reference(recorded, cwd)
    for loaded in load(reference, cwd):
        if loaded.recipe.name == recorded.recipe:
            return loaded
    raise UnavailableError(f"{reference} has no recipe {recorded.recipe!r}")


def _reference(recorded: Provenance, cwd: Path) -> str:
    """Return the reference to load the recipe that a provenance names: a shipped recipe or a file of the project."""
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


def _settings(recorded: Provenance, loaded: Loaded, options: RebuildOptions) -> SetOptions:
    """Return the settings of the provenance, which may set only the recipe's variables, and of the command line."""
    variables = build_variables(loaded)
    prefix = f"{Kind.WHEEL}-{recorded.cell}.args."
    settings = [text for text in recorded.settings if text not in options.sets]
    refused = [text for text in settings if text.partition("=")[0].removeprefix(prefix) not in variables]
    if refused:
        raise _UnverifiableError(
            "the provenance sets values that are not variables of the recipe",
            details=[f"--set {shlex.quote(shorten(text, 200))}" for text in refused],
            hint="anyone may have written the provenance: pass these on the command line if you want them",
        )
    return parse_set_options((*settings, *options.sets))


def _plan(loaded: Loaded, recorded: Provenance, options: RebuildOptions) -> Plan:
    """Return the recorded plan without caches: nothing is read from them, and nothing is written."""
    builder = loaded.recipe.builder.model_copy(update={"compiler_cache": False})
    recipe = loaded.recipe.model_copy(update={"builder": builder, "cache": Cache()})
    plan = resolve(replace(loaded, recipe=recipe), _settings(recorded, loaded, options), {})
    if recorded.cell not in {cell.id for cell in plan.cells}:
        raise UnavailableError(f"the recipe has no cell {shorten(recorded.cell)!r}")
    return plan
