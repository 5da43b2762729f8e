"""Requirements of a distribution, each as ``Requires-Dist`` and pyproject.toml write it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

_PROJECT = re.compile(r"[A-Za-z0-9._-]+")


def parse_requirement(text: str) -> Requirement | None:
    """Return a requirement, or None if it is invalid or makes the parser fail."""
    try:
        requirement = Requirement(text)
        for bound in requirement.specifier:
            if bound.operator != "===":
                Version(bound.version.removesuffix(".*"))
    except (ValueError, RecursionError):
        return None
    return requirement


def requirements_for(requires_dist: Iterable[str], name: str, extra: str = "") -> list[Requirement]:
    """Return the valid requirements for a project: those of an extra, or those without one."""
    project = canonicalize_name(name)
    # Only matching lines are parsed.
    texts = (
        text for text in requires_dist if (match := _PROJECT.match(text)) and canonicalize_name(match[0]) == project
    )
    return [item for item in map(parse_requirement, texts) if item and extra_of(item) == extra]


def extra_of(requirement: Requirement) -> str:
    """Return the normalised extra that a requirement is for; empty if it is for none, ``*`` if its marker says more."""
    match = re.search(r"""\bextra\b(?: == ["']([^"']+)["'])?""", str(requirement.marker or ""))
    return canonicalize_name(match[1]) if match and match[1] else "*" * bool(match)
