"""Parses a wheel's file name. The name is not trusted: a file in a folder, a line of an index, a zip member."""

from __future__ import annotations

from math import prod

from packaging.tags import Tag
from packaging.utils import (
    BuildTag,
    InvalidWheelFilename,
    NormalizedName,
    is_normalized_name,
    parse_wheel_filename,
)
from packaging.version import Version

LONGEST = 255
"""Characters that a file name may have on every common file system."""

MOST_TAGS = 1000
"""Tags that a name may stand for. Each of its three parts is a list, and ``packaging`` makes all combinations."""


def parse_wheel_name(name: str) -> tuple[NormalizedName, Version, BuildTag, frozenset[Tag]]:
    """Return project, version, build tag and tags. Raises InvalidWheelFilename if an index cannot offer such a name."""
    if len(name) > LONGEST:
        raise InvalidWheelFilename(f"a wheel's name has at most {LONGEST} characters: {name[:60]!a}…")
    if not (name.isascii() and name.isprintable()):
        raise InvalidWheelFilename(f"a wheel's name has printable ASCII characters only: {name!a}")
    if tag_count(name.removesuffix(".whl")) > MOST_TAGS:
        raise InvalidWheelFilename(f"a wheel's name stands for at most {MOST_TAGS} tags: {name!a}")
    try:
        project, version, build, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        raise
    except ValueError as error:  # a number with more digits than Python reads
        raise InvalidWheelFilename(f"Invalid wheel filename: {name!a}: {error}") from error
    if not is_normalized_name(project):
        raise InvalidWheelFilename(f"a project's name begins and ends with a letter or a digit: {name!a}")
    return project, version, build, tags


def tag_count(text: str) -> int:
    """Return how many tags a text such as ``py2.py3-none-any`` stands for, counted without making them."""
    return prod(part.count(".") + 1 for part in text.split("-")[-3:])
