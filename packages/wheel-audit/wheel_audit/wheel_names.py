"""Parses a wheel's file name. The name is not trusted: a file in a folder, a line of an index, a zip member."""

from __future__ import annotations

import re
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


_LABEL = re.compile(r"[0-9a-z_.]+\Z")


def split_label(name: str) -> tuple[str, str]:
    """Return a file name without the label of a wheel variant (PEP 825), and the label; empty for other wheels."""
    parts = name.removesuffix(".whl").split("-")
    # A build tag begins with a digit, a Python tag does not.
    parts_without = 6 if parts[2:3] and parts[2][:1].isdigit() else 5
    if name.endswith(".whl") and len(parts) == parts_without + 1 and _LABEL.match(parts[-1]):
        return "-".join(parts[:-1]) + ".whl", parts[-1]
    return name, ""


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
