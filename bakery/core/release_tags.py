"""Reads the version in the name of a git tag, and compares it with that of a wheel (PEP 440)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

LONGEST = 200
"""Characters of a tag that is read. Python refuses numbers with many more digits."""

_WORD = re.compile(r"(?:(?:versions?|vers?|releases?|rel)[-_./]?)?(?:[vr][-_./]?)?(?=\d)", re.IGNORECASE)
"""What stands before a version: ``v1.0``, ``V1.0``, ``release-1.0``, ``release/v1.0``, ``rel_1_0``."""

_LAST_WORD = re.compile(r"(?<![A-Za-z0-9])(?:v|r)?[\d.]*\Z", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}\Z")
_UNDERSCORES = re.compile(r"\d+(?:_\d+)+")


def tag_version(tag: str, names: Iterable[str]) -> Version | None:
    """Return the version that a tag names; None if it names none, or that of another project.

    Args:
        tag: ``v1.2.0rc1``, ``v7``, ``2026.11.3``, ``release-1.2``, ``pkg-v1.2``, ``pkg/1.2``, ``pkg@1.2``.
        names: what a project's tags may begin with; ``-``, ``_``, ``.`` and the case are as in names of distributions.
    """
    text = tag.removeprefix("refs/tags/")
    if len(text) > LONGEST:
        return None
    named = sorted({name for name in names if name}, key=len, reverse=True)
    versions = (_version(text[len(start) :]) for start in (*(_start(text, name) for name in named), ""))
    return next((version for version in versions if version), None)


def tag_prefix(pattern: str) -> str:
    """Return what the tags of a glob such as ``pkg-v*`` begin with, without the version and its ``v``."""
    literal = re.split(r"[*?+!\[]", pattern, maxsplit=1)[0]
    return _LAST_WORD.sub("", literal).rstrip("-_./@=")


def is_release(version: Version, tag: Version, locals_: bool) -> bool:
    """Whether a wheel of a version is one of the release that a tag names.

    Args:
        locals_: the recipe gives wheels local versions of its own.
    """
    same = version.epoch == tag.epoch and Version(version.public) == Version(tag.public)
    return same and (version.local == tag.local or (locals_ and tag.local is None))


def _start(text: str, name: str) -> str:
    """Return the name and the separator that a text begins with; empty if it begins otherwise."""
    pattern = r"[-_./]+".join(map(re.escape, re.split(r"[-_./]+", name)))
    match = re.match(rf"{pattern}(?:[-_./@]+|==)", text, re.IGNORECASE)
    return match[0] if match else ""


def _version(text: str) -> Version | None:
    word = _WORD.match(text)
    if word is None:
        return None
    plain = text[word.end() :]
    if _DATE.match(plain):
        plain = plain.replace("-", ".")
    elif _UNDERSCORES.match(plain):
        plain = plain.replace("_", ".")
    try:
        return Version(plain)
    except (InvalidVersion, ValueError):
        return None
