"""What cells require, and how that, their materials or their lock at a revision differ from a lock."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from bakery.core.errors import LockError
from bakery.core.git_command import git
from bakery.core.names import TARGET_ARCH, with_derived
from bakery.plan.cells import Cell
from bakery.plan.dockerfile import Resolves, Run
from bakery.plan.model import Plan
from bakery.plan.values import expand
from bakery.resolve.changed_cells import Change
from bakery.runs.lock import lock_file
from bakery.runs.lock.model import Materials, Packages, System
from bakery.toolchains.programs import requires
from wheel_audit.text import listed

_FEW = 3


def stale(locked: Mapping[str, Materials], required: Mapping[str, Mapping[str, Requirements]]) -> list[str]:
    """Return what a recipe requires (cell → place → requirements) and its lock lacks, and the reverse."""
    return _merged({cell: _stale(locked.get(cell), places) for cell, places in required.items()})


def _stale(locked: Materials | None, required: Mapping[str, Requirements]) -> Iterator[str]:
    if locked is None:
        yield "the cell is not in it"
        return
    for place, requirements in required.items():
        if place not in locked.packages:
            yield f"{place}: nothing is locked for it"
            continue
        words = set(locked.packages[place].requirements)
        yield from _changed_words(
            place, words if requirements.complete else words & requirements.words, requirements.words
        )
    for place in locked.packages:
        if place not in required:
            yield f"{place}: is locked, but no longer installed"


def differences(locked: Mapping[str, Materials], current: Mapping[str, Materials]) -> list[str]:
    """Return what differs between the locked and the current materials of cells."""
    return _merged({cell: _differences(locked.get(cell, Materials()), item) for cell, item in current.items()})


def _differences(locked: Materials, current: Materials) -> Iterator[str]:
    for (ref, platform), digest in current.images.items():
        before = locked.images.get((ref, platform))
        if before != digest:
            yield f"base image {ref} ({platform}): {_change(before, digest)}"
    for address, commit in current.sources.items():
        # A build that is held to a lock asks for the commit itself.
        if (locked_commit := locked.sources.get(address)) != commit and not (
            address.endswith(f"#{commit}") and commit in locked.sources.values()
        ):
            yield f"source {address}: {_change(locked_commit, commit)}"
    for place in dict.fromkeys((*locked.packages, *current.packages)):
        yield from _place_differences(place, locked.packages.get(place), current.packages.get(place))
    for image in dict.fromkeys((*locked.system, *current.system)):
        yield from _image_differences(image, locked.system.get(image), current.system.get(image))


def _change(before: str | None, now: str | None) -> str:
    if before is None:
        return f"{now} is not locked"
    return f"{before} is locked, and here it is {now}" if now else f"{before} is locked, and is not here"


def _changed_words(place: str, locked: set[str], current: Set[str]) -> Iterator[str]:
    yield from (f"{place}: {word} is asked for, and was not when it was locked" for word in current - locked)
    yield from (f"{place}: {word} was locked, and is not asked for any more" for word in locked - current)


def _place_differences(place: str, locked: Packages | None, current: Packages | None) -> Iterator[str]:
    before, now = locked or Packages(), current or Packages()
    yield from _changed_words(place, set(before.requirements), set(now.requirements))
    for name in {*before.files, *now.files}:
        old, new = before.files.get(name), now.files.get(name)
        if old and new and old.sha256 != new.sha256:
            yield f"{place}: {name}: sha256 {_change(old.sha256, new.sha256)}"
    gone = {file.name: name for name, file in before.files.items() if name not in now.files}
    come = {file.name: name for name, file in now.files.items() if name not in before.files}
    for key in {*gone, *come}:
        yield f"{place}: {key}: {_change(gone.get(key), come.get(key))}"


def _image_differences(image: str, locked: System | None, current: System | None) -> Iterator[str]:
    old, new = locked or System(), current or System()
    for title, was, is_ in (("package", old.packages, new.packages), ("program", old.tools, new.tools)):
        for name in {*was, *is_}:
            if was.get(name) != is_.get(name):
                yield f"{image}: {title} {name}: {_change(was.get(name), is_.get(name))}"


def _merged(lines: Mapping[str, Iterable[str]]) -> list[str]:
    """Return each line once, sorted, with its cells unless these are all."""
    cells: dict[str, list[str]] = {}
    for cell, cell_lines in lines.items():
        for line in dict.fromkeys(cell_lines):
            cells.setdefault(line, []).append(cell)
    return sorted(line + _concerned(cell_lines, len(lines)) for line, cell_lines in cells.items())


def _concerned(cells: list[str], count: int) -> str:
    if len(cells) == count and count > 1:
        return ""
    return f" ({listed(cells, _FEW)})"


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements of one place, such as ``build`` or ``test``.

    Attributes:
        words: requirements and options of pip.
        complete: false if the project's source has more of them.
        direct: distributions that may come from an address.
    """

    words: frozenset[str]
    complete: bool
    direct: tuple[str, ...] = ()


def requirements_of(plan: Plan, cell: Cell, files: Mapping[str, Sequence[str]]) -> dict[str, Requirements]:
    """Return place → its requirements, for the stages that a cell's materials need.

    ``files``: file that words name with ``-r`` → its lines; the build knows the others.
    """
    arguments = {**with_derived(plan.args_of(cell)), TARGET_ARCH: cell.platform.partition("/")[2]}
    stages = {stage.name: stage for stage in plan.stages}
    waiting, seen = [f"{plan.recipe}-materials"], set[str]()
    requirements: dict[str, Requirements] = {}
    while waiting:
        stage = stages.get(waiting.pop())
        if stage is None or stage.name in seen:
            continue
        seen.add(stage.name)
        waiting += stage.dependencies(arguments)
        for step in stage.steps:
            if isinstance(step, Run) and step.resolves:
                requirements[step.resolves.place] = _requirements(step.resolves, arguments, files)
    return requirements


def _requirements(resolves: Resolves, arguments: Mapping[str, str], files: Mapping[str, Sequence[str]]) -> Requirements:
    words = iter([expand(word, arguments) for word in resolves.words])
    expanded: list[str] = []
    complete = True
    for word in words:
        if word != "-r":
            expanded.append(word)
        else:
            file = next(words)
            complete = complete and file in files
            expanded += files.get(file, ())
    return Requirements(frozenset(expanded), complete, resolves.direct)


def project_requirements(root: Path, plan: Plan) -> dict[str, list[str]]:
    """Return requirements file → its lines, from the project's pyproject.toml; empty for other sources."""
    step = next(step for stage in plan.stages for step in stage.steps if isinstance(step, Run) and step.lists)
    source = next(mount for mount in step.mounts if mount.target == "/src")
    if source.from_:
        return {}
    folder = str(root / plan.context / source.source)
    try:
        return {
            item.path: requires.requirements(folder)
            if item.kind == "build"
            else requires.dependencies(folder, list(item.without), item.extra)
            for item in step.lists
        }
    except SystemExit:
        return {}  # The build reports it with more context.


def relocked(root: Path, plan: Plan, change: Change) -> dict[str, str]:
    """Return cell → why it is built: its materials in the lock of the project in ``root`` are not those at the revision.

    A lock that cannot be read counts as changed for all cells.
    """
    path, top = (root / plan.lock).resolve(), change.top.resolve()
    name = path.relative_to(top).as_posix() if path.is_relative_to(top) else ""
    if name not in change.files:
        return {}
    before = git(top, "cat-file", "blob", f"{change.commit}:{name}")
    with tempfile.TemporaryDirectory(prefix="bakery-") as folder:
        old = Path(folder) / "old.lock"
        if before is not None:
            old.write_text(before, encoding="utf-8", errors="surrogateescape")
        try:
            then, now = (lock_file.read(item, plan.lock) for item in (old, path))
        except LockError:
            return {cell.id: f"changed: {plan.lock}" for cell in plan.cells}
    was, has = (lock_file.cells(item) if item else {} for item in (then, now))
    return {
        cell.id: f"its materials in {plan.lock} changed"
        for cell in plan.cells
        if _own(was.get(cell.id), cell) != _own(has.get(cell.id), cell)
    }


def _own(materials: Materials | None, cell: Cell) -> Materials | None:
    """Return the materials of a cell without the base images of others."""
    refs = {image.ref for image in cell.images}
    return materials and replace(
        materials, images={key: digest for key, digest in materials.images.items() if key[0] in refs}
    )
