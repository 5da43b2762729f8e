"""What the loader loads with an object: libraries of the wheel, and the names of external ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import reduce
from operator import or_

from wheel_audit.elf import SharedObject


class ExternalLibraries:
    """The external sonames that a wheel's objects need. A set of them is a number with a bit for each."""

    def __init__(self, names: Iterable[str]) -> None:
        self.bits = {name: 1 << index for index, name in enumerate(names)}
        self._matching: dict[tuple[str, ...], int] = {}

    def matching(self, globs: tuple[str, ...]) -> int:
        """Return the set of names that match one of ``globs``."""
        if globs not in self._matching:
            pattern = re.compile("|".join(map(translate, globs)))
            self._matching[globs] = sum(bit for name, bit in self.bits.items() if pattern.match(name))
        return self._matching[globs]


@dataclass(frozen=True, slots=True)
class LoadScope:
    """Where the loader searches for the symbols that an object needs.

    ``inside`` is a set of the wheel's objects, a number with a bit for the index of each; ``outside`` is a set of the
    external ``names``, whose own needs are not known.
    """

    inside: int
    outside: int
    names: ExternalLibraries

    def needs(self, globs: Iterable[str]) -> bool:
        """Whether an external library matches one of ``globs``."""
        return bool(self.outside & self.names.matching(tuple(globs)))

    def only(self, globs: Iterable[str]) -> bool:
        """Whether every external library matches one of ``globs``."""
        return not self.outside & ~self.names.matching(tuple(globs))


def matches(names: Iterable[str], globs: Iterable[str]) -> bool:
    """Return whether any of ``names`` matches any of ``globs``."""
    globs = tuple(globs)
    return any(fnmatchcase(name, glob) for name in names for glob in globs)


def by_soname(objects: Iterable[SharedObject]) -> dict[str, int]:
    """Return the indexes of a wheel's objects by the names under which the loader may find them."""
    return {name: index for index, binary in enumerate(objects) for name in (binary.file_name, binary.soname) if name}


def scopes(objects: Sequence[SharedObject]) -> list[LoadScope]:
    """Return where the loader searches for each of a wheel's objects.

    That is everything that was loaded with the imported module: what the object needs, and the needs of all objects
    that need it.
    """
    indexes = by_soname(objects)
    names = ExternalLibraries({name: None for binary in objects for name in binary.needed if name not in indexes})
    needs = [[indexes[name] for name in binary.needed if name in indexes] for binary in objects]
    groups = _groups(needs)
    group_of = {index: number for number, group in enumerate(groups) for index in group}
    below = [{group_of[other] for index in group for other in needs[index]} - {n} for n, group in enumerate(groups)]
    inside = [sum(1 << index for index in group) for group in groups]
    outside = [
        reduce(or_, (names.bits[name] for index in group for name in objects[index].needed if name in names.bits), 0)
        for group in groups
    ]
    for sets in (inside, outside):
        for number, others in enumerate(below):
            for other in others:
                sets[number] |= sets[other]
        # Objects that need it come later in the order.
        for number in reversed(range(len(groups))):
            for other in below[number]:
                sets[other] |= sets[number]
    return [LoadScope(inside[group_of[index]], outside[group_of[index]], names) for index in range(len(objects))]


def _groups(needs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected components, each after those that it needs: Tarjan's algorithm, not recursive."""
    groups: list[list[int]] = []
    order: dict[int, int] = {}
    lowest: dict[int, int] = {}
    path: list[int] = []
    grouped: set[int] = set()
    for start in range(len(needs)):
        if start in order:
            continue
        order[start] = lowest[start] = len(order)
        path.append(start)
        stack = [(start, iter(needs[start]))]
        while stack:
            index, others = stack[-1]
            other = next((other for other in others if other not in grouped), None)
            if other is None:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    lowest[above] = min(lowest[above], lowest[index])
                if lowest[index] == order[index]:
                    group = [path.pop()]
                    while group[-1] != index:
                        group.append(path.pop())
                    groups.append(group)
                    grouped.update(group)
            elif other in order:
                lowest[index] = min(lowest[index], order[other])
            else:
                order[other] = lowest[other] = len(order)
                path.append(other)
                stack.append((other, iter(needs[other])))
    return groups
