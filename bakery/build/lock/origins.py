"""Addresses in a lock: a locked build takes files from the package index, and from addresses that the recipe allows."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Iterator, Mapping

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from bakery.build.lock.materials import Materials
from bakery.build.lock.requirements import Requirements


def foreign(locked: Mapping[str, Materials], required: Mapping[str, Mapping[str, Requirements]]) -> dict[str, str]:
    """Return file → what is wrong with the address that it is to come from.

    Args:
        locked: cell → what is locked for it.
        required: cell → place → its requirements.
    """
    return {
        key: problem
        for cell, places in required.items()
        for place, packages in locked[cell].packages.items()
        for key, file in packages.files.items()
        if file.origin and (problem := _wrong(file.name, file.origin, places.get(place)))
    }


def _wrong(name: str, origin: str, required: Requirements | None) -> str:
    """Return why a distribution may not come from an address; empty where it may."""
    if required is None or name not in [str(canonicalize_name(item)) for item in required.direct]:
        return f"{name} comes from {_shown(origin)}, and the recipe does not allow {name} to come from an address"
    named = [url for url in _addresses(name, required.words) if _location(url) != _location(origin)]
    return f"{name} comes from {_shown(origin)}, and {_shown(named[0])} is asked for" if named else ""


def _addresses(name: str, words: Iterable[str]) -> Iterator[str]:
    """Yield the addresses that requirements name for a distribution."""
    for word in sorted(words):
        try:
            requirement = Requirement(word)
        except InvalidRequirement:
            continue  # An option of pip.
        if requirement.url and canonicalize_name(requirement.name) == name:
            yield requirement.url


def _location(address: str) -> tuple[str, ...]:
    """Return what of an address stays, whatever commit or hash it names."""
    parts = urllib.parse.urlsplit(address)
    path = parts.path.rpartition("@")[0] or parts.path if parts.scheme.startswith("git+") else parts.path
    folder = dict(urllib.parse.parse_qsl(parts.fragment)).get("subdirectory", "")
    return parts.scheme, parts.netloc.rpartition("@")[2], path, parts.query, folder


def _shown(address: str) -> str:
    parts = urllib.parse.urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
