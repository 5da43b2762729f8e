"""What the loader brings in with an object: the wheel's own libraries, and the names of those from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

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


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the loader looks for what an object calls.

    Attributes:
        inside: objects of the wheel.
        outside: sonames that come from elsewhere; what those need in turn is not known.
    """

    inside: tuple[SharedObject, ...]
    outside: frozenset[str]

    def needs(self, globs: Iterable[str]) -> bool:
        """Whether a library from elsewhere matches one of ``globs``."""
        return matches(self.outside, globs)

    def only(self, globs: Iterable[str]) -> bool:
        """Whether every library from elsewhere matches one of ``globs``."""
        globs = tuple(globs)
        return all(matches([name], globs) for name in self.outside)


def matches(names: Iterable[str], globs: Iterable[str]) -> bool:
    """Return whether any of ``names`` matches any of ``globs``."""
    globs = tuple(globs)
    return any(fnmatchcase(name, glob) for name in names for glob in globs)


def by_soname(objects: Iterable[SharedObject]) -> dict[str, SharedObject]:
    """Return a wheel's objects by the names under which the loader may find them."""
    return {name: found for found in objects for name in (found.file_name, found.soname) if name}


def scopes(objects: Iterable[SharedObject]) -> dict[str, Reach]:
    """Return what is looked through for each of a wheel's objects, by its path.

    That is what the object needs, and what everything that brings it in needs: the loader looks through all that
    came with the module that was imported, so a library may leave its own needs to who needs it.
    """
    objects = tuple(objects)
    names = by_soname(objects)
    reaches = {found.path: _reach(found, names) for found in objects}
    around: dict[str, list[Reach]] = {found.path: [] for found in objects}
    for item in reaches.values():
        for found in item.inside:
            around[found.path].append(item)
    return {path: _union(items) for path, items in around.items()}


def _reach(start: SharedObject, names: Mapping[str, SharedObject]) -> Reach:
    """Follow the needs of ``start`` through the objects of its wheel, which are ``names``."""
    inside = {start.path: start}
    outside: set[str] = set()
    left = [start]
    while left:
        for soname in left.pop().needed:
            other = names.get(soname)
            if other is None:
                outside.add(soname)
            elif other.path not in inside:
                inside[other.path] = other
                left.append(other)
    return Reach(tuple(inside.values()), frozenset(outside))


def _union(reaches: list[Reach]) -> Reach:
    if len(reaches) == 1:
        return reaches[0]
    inside = {found.path: found for item in reaches for found in item.inside}
    return Reach(tuple(inside.values()), frozenset().union(*(item.outside for item in reaches)))
