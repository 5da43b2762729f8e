"""Differences of a lock from the requirements, or from the current materials: one line each, with the cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

from bakery.runs.lock.model import Materials, Packages, System
from bakery.runs.lock.requirements import Requirements
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
    none = Materials()
    return _merged({cell: _differences(locked.get(cell, none), materials) for cell, materials in current.items()})


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
    none = Packages((), {})
    before, now = locked or none, current or none
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
    none = System({}, {})
    old, new = locked or none, current or none
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
