"""Which cells a change affects: compares changed files with the files that cells use, and the plan with the old plan.

A file that a build can read counts as a change, whatever it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bakery.core.cell_ids import is_baked
from bakery.core.errors import OutputError, UsageError
from bakery.core.git import blobs, differing, top_of
from bakery.core.git_command import git
from bakery.core.inside import Inside
from bakery.core.source_manifest import SourceManifest
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.plan.stage_digests import Lineage
from bakery.recipe.toml_file import table
from bakery.resolve.repository import text_of
from wheel_audit.text import listed

RECIPES = ("bakery.toml", "pyproject.toml")
"""Files that may contain a recipe or a workspace."""

_MOST_RECIPES = 2000


_LARGEST = 4 << 20
"""The maximum size of a build file in bytes."""


@dataclass(frozen=True, slots=True)
class Change:
    """The differences to a revision; ``files`` are relative to ``top``, the root of the repository."""

    revision: str
    commit: str
    top: Path
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AffectedCells:
    """The cells of a plan: id → why it is built, and id → why it is skipped."""

    built: Mapping[str, str]
    skipped: Mapping[str, str]


def changes_since(folder: Path, revision: str) -> Change:
    """Return the changes in the repository of ``folder`` since ``revision``, including uncommitted ones.

    Raises:
        UsageError: it is no checkout, or git does not know the revision.
    """
    top = top_of(folder)
    if top is None:
        raise UsageError(
            f"--since: {folder} is not in a git checkout", hint="leave it out, or choose cells with --only"
        )
    commit = git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit is None:
        raise UsageError(
            f"--since: there is no revision {revision!r}",
            hint="a clone in CI often has only the newest commit: fetch the revision, or all of them (fetch-depth: 0)",
        )
    files = differing(top, commit.strip())
    if files is None:
        raise UsageError("--since: git cannot compare the files", hint="`git diff` and `git status` say why")
    return Change(revision, commit.strip(), top, tuple(sorted(files)))


def write_old_recipes(change: Change, folder: Path) -> None:
    """Write the recipe files of the revision into ``folder``, which is empty.

    Raises OutputError if git cannot read one, and UsageError for a path that leads out, or too many files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    inside = Inside(folder)
    texts = blobs(change.top, change.commit, RECIPES)
    if len(texts) > _MOST_RECIPES:
        raise UsageError(f"--since: {change.revision} has more than {_MOST_RECIPES} files named like recipes")
    for name, text in texts.items():
        if text is None:
            raise OutputError(f"git cannot read {name} of {change.revision}")
        try:
            inside.write(name, text.encode(errors="surrogateescape"))
        except OSError as error:
            raise OutputError(f"cannot write {name} of {change.revision}: {error.strerror}") from error


def affected_cells(
    now: Plan, then: Plan | str, change: Change, source: SourceManifest, relocked: Mapping[str, str]
) -> AffectedCells:
    """Return which cells of a project must be built.

    Args:
        now, then: the plan, and that at the revision or the reason why there is none, both without the commit's time.
        source: as it is sent now.
        relocked: cell → why its lock affects it.
    """
    used, unused = _uses(now, change, source)
    if used:
        return _all(now, f"changed: {listed(used)}")
    if isinstance(then, str):
        return _all(now, then)
    before, after = Lineage(then), Lineage(now)
    old = {_point(cell): cell for cell in then.cells}
    has_same_context = (then.ignore, then.context_paths()) == (now.ignore, now.context_paths())
    common = "" if has_same_context else "the recipe changed what is in the build context"
    why = {
        cell.id: common or _why(cell, old.get(_point(cell)), now, then, after, before) or relocked.get(cell.id, "")
        for cell in now.cells
    }
    built = {cell_id: text for cell_id, text in why.items() if text}
    # A shared wheel is published when it passed the tests of all its cells.
    for cell in now.cells:
        touched = next((other.id for other in now.cells if other.built_by == cell.built_by and why[other.id]), "")
        if touched and cell.id not in built:
            built[cell.id] = f"shares its wheel with {touched}"
    reason = f"of what changed since {change.revision}, it uses nothing" + (f" ({listed(unused)})" if unused else "")
    return AffectedCells(built, {cell.id: reason for cell in now.cells if cell.id not in built})


def _all(plan: Plan, reason: str) -> AffectedCells:
    return AffectedCells({cell.id: reason for cell in plan.cells}, {})


def _uses(plan: Plan, change: Change, source: SourceManifest) -> tuple[list[str], list[str]]:
    """Return the changed files that builds can read, and the others with the reason why they do not matter."""
    used, unused = [], []
    context, folders = source.folder.resolve(), plan.context_paths()
    for name in change.files:
        path = change.top.resolve() / name
        inside = path.relative_to(context).as_posix() if path.is_relative_to(context) else ""
        if not inside:
            unused.append(f"{name}: outside the project")
        elif not any(PurePosixPath(inside).is_relative_to(folder) for folder in folders):
            unused.append(f"{name}: outside the source")
        elif not source.would_send(inside):
            unused.append(f"{name}: never in the build context")
        elif path.name == "pyproject.toml" and _has_same_project(path, change, name):
            unused.append(f"{name}: only its [tool.wheel-bakery] changed")
        else:
            used.append(name)
    return used, unused


def _has_same_project(path: Path, change: Change, name: str) -> bool:
    before = git(change.top, "cat-file", "blob", f"{change.commit}:{name}")
    rest = _without_recipe(text_of(path, _LARGEST))
    return before is not None and rest is not None and rest == _without_recipe(before)


def _without_recipe(text: str) -> dict[str, object] | None:
    try:
        document = table(text)
    except ValueError:
        return None
    tool = document.get("tool")
    if isinstance(tool, dict):
        tool.pop("wheel-bakery", None)
        if not tool:
            del document["tool"]
    return document


def _point(cell: Cell) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(cell.axes.items()))


def _why(cell: Cell, old: Cell | None, now: Plan, then: Plan, after: Lineage, before: Lineage) -> str:
    if old is None:
        return "a new cell"
    new_digests, old_digests = after.of(cell), before.of(old)
    stages = [name for name in after.order if name in new_digests and new_digests[name] != old_digests.get(name)]
    if stages:
        return f"the recipe changed stage {stages[0]}"
    if now.args_of(cell) != then.args_of(old) or (cell.images, cell.needs) != (old.images, old.needs):
        return "the recipe changed its values"
    if (cell.abi3, _built_by(cell, now)) != (old.abi3, _built_by(old, then)):
        return "another cell builds its wheel"
    return _why_settings(cell, now.of(cell), then.of(old))


def _why_settings(cell: Cell, now: Plan, then: Plan) -> str:
    """Return which settings of a cell changed that are in no stage; ``now`` and ``then`` are the plans with its own settings."""
    if now.audit != then.audit:
        return "the recipe changed how wheels are named or what they promise"
    # What is baked has all of these in its stages.
    if not is_baked(cell.platform) and (now.cibuildwheel, now.facts) != (then.cibuildwheel, then.facts):
        return "the recipe changed the settings of cibuildwheel"
    return ""


def _built_by(cell: Cell, plan: Plan) -> tuple[tuple[str, str], ...]:
    return next(_point(other) for other in plan.cells if other.id == cell.built_by)
