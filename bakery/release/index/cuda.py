"""Which wheels are for which release of CUDA, by the local version: ``1.0+cu128torch2.9``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from packaging.version import Version

from bakery.release.index.files import File

_LABEL = re.compile(r"(?:^|\.)(?P<release>cu[0-9]{2,4})(?![0-9])(?:\.?(?:pt|torch)(?P<torch>[0-9]+(?:\.[0-9]+)?))?")


def label(file: File) -> tuple[str, str]:
    """Return the folder of a wheel's CUDA release, such as ``cu128``, and its torch; empty for a wheel without them."""
    found = _LABEL.search(Version(file.version).local or "")
    return (found["release"], found["torch"] or "") if found else ("", "")


def dotted(release: str) -> str:
    """Return the CUDA release of a folder: ``cu128`` is 12.8, ``cu12`` is 12, ``cu92`` is 9.2, which is older than 10."""
    digits = release.removeprefix("cu")
    major = digits[: 1 if digits > "4" else 2]
    return ".".join(filter(None, (major, digits[len(major) :])))


def releases(files: Iterable[File]) -> set[str]:
    """Return the folders of all CUDA releases."""
    return {release for file in files if (release := label(file)[0])}


def served(files: Sequence[File], release: str) -> list[File]:
    """Return the wheels of a project for a CUDA release: all, if it has none for any release.

    A wheel without CUDA is not among those of a project that has some: a newer one would be installed instead.
    """
    return [file for file in files if label(file)[0] == release] if releases(files) else list(files)
