"""What the loader brings in with an object: the wheel's own libraries, and the names of those from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import reduce
from operator import or_

from bakery.audit.elf import SharedObject

SYSTEM = (
    "ld-linux*.so*",
    "ld64.so*",
    "ld.so.1",
    "libanl.so.1",
    "libatomic.so.1",
    "libc.so.6",
    "libc.musl-*.so.1",
    "libcrypt.so.1",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libgfortran.so.*",
    "libgomp.so.1",
    "libm.so.6",
    "libmvec.so.1",
    "libnsl.so.1",
    "libpthread.so.0",
    "libquadmath.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libstdc++.so.6",
    "libutil.so.1",
)
"""Sonames of glibc, musl and GCC's runtime: each symbol of theirs has a name that is known to be theirs, or a version."""


class Outside:
    """The sonames that a wheel's objects want from elsewhere. A set of them is a number with a bit for each."""

    def __init__(self, names: Iterable[str]) -> None:
        self._bits = {name: 1 << index for index, name in enumerate(names)}
        self._matching: dict[tuple[str, ...], int] = {}

    def matching(self, globs: tuple[str, ...]) -> int:
        """Return the set of those that match one of ``globs``."""
        if globs not in self._matching:
            pattern = re.compile("|".join(map(translate, globs)))
            self._matching[globs] = sum(bit for name, bit in self._bits.items() if pattern.match(name))
        return self._matching[globs]


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the loader looks for what an object calls.

    Attributes:
        inside: the wheel's objects, as a number with a bit for the place of each.
        outside: sonames that come from elsewhere, a set of ``names``; what those need in turn is not known.
    """

    inside: int
    outside: int
    names: Outside

    def needs(self, globs: Iterable[str]) -> bool:
        """Whether a library from elsewhere matches one of ``globs``."""
        return bool(self.outside & self.names.matching(tuple(globs)))

    def only(self, globs: Iterable[str]) -> bool:
        """Whether every library from elsewhere matches one of ``globs``."""
        return not self.outside & ~self.names.matching(tuple(globs))


def matches(names: Iterable[str], globs: Iterable[str]) -> bool:
    """Return whether any of ``names`` matches any of ``globs``."""
    globs = tuple(globs)
    return any(fnmatchcase(name, glob) for name in names for glob in globs)


def by_soname(objects: Iterable[SharedObject]) -> dict[str, int]:
    """Return the places of a wheel's objects by the names under which the loader may find them."""
    return {name: index for index, binary in enumerate(objects) for name in (binary.file_name, binary.soname) if name}


def scopes(objects: Sequence[SharedObject]) -> list[Reach]:
    """Return what is looked through for each of a wheel's objects.

    That is what the object needs, and what everything that brings it in needs: the loader looks through all that
    came with the module that was imported, so a library may leave its own needs to who needs it.
    """
    indexes = by_soname(objects)
    external = {name: None for binary in objects for name in binary.needed if name not in indexes}
    bits = {name: 1 << index for index, name in enumerate(external)}
    needs = [[indexes[name] for name in binary.needed if name in indexes] for binary in objects]
    groups = _groups(needs)
    group_of = {index: number for number, group in enumerate(groups) for index in group}
    below = [{group_of[other] for index in group for other in needs[index]} - {n} for n, group in enumerate(groups)]
    inside = [sum(1 << index for index in group) for group in groups]
    outside = [
        reduce(or_, (bits[name] for index in group for name in objects[index].needed if name in bits), 0)
        for group in groups
    ]
    for sets in (inside, outside):
        for number, others in enumerate(below):
            for other in others:
                sets[number] |= sets[other]
        # Who brings it in comes later in the order.
        for number in reversed(range(len(groups))):
            for other in below[number]:
                sets[other] |= sets[number]
    names = Outside(external)
    return [Reach(inside[group_of[index]], outside[group_of[index]], names) for index in range(len(objects))]


def _groups(needs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the objects in groups that need one another, each group after those that it needs.

    Tarjan's algorithm without recursion: its work is linear in the objects and their needs.
    """
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
