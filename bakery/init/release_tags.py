"""The newest release among the tags of a checkout, read from its files: git, which the checkout configures, is not run."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

from packaging.version import InvalidVersion, Version

from bakery.core.files import read_plain

_LARGEST = 1 << 20
_MOST = 10_000
_TAG = re.compile(r"(?:.*[^0-9.])?(\d{1,6}(?:\.\d{1,6}){1,3})")


def newest_release(root: Path) -> str:
    """Return the highest version that a tag of the checkout in ``root`` ends with; empty if there is none."""
    versions = []
    for tag in (*_packed(root), *_loose(root)):
        match = _TAG.fullmatch(tag[:100])
        try:
            versions += [Version(match[1])] if match else []
        except InvalidVersion:
            continue
    return str(max(versions)) if versions else ""


def _packed(root: Path) -> list[str]:
    try:
        content = read_plain(root / ".git" / "packed-refs", _LARGEST, follow=False)
    except OSError:
        return []
    return re.findall(r" refs/tags/(\S{1,100})$", content.decode("utf-8", "replace"), re.MULTILINE)[:_MOST]


def _loose(root: Path) -> list[str]:
    folder = root / ".git" / "refs" / "tags"
    if folder.is_symlink() or (root / ".git").is_symlink():
        return []
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in itertools.islice(entries, _MOST)]
    except OSError:
        return []
