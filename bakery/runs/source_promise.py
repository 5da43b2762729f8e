"""What the source of a run promises about the files of its wheels, for the audit."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from bakery.core.dockerignore import Ignore
from bakery.core.git import listing
from bakery.core.source_manifest import SourceManifest
from wheel_audit.plain_files import file_sha256, open_plain
from wheel_audit.source_files import SourceFiles

_MADE = re.compile(r"(?i)(?:\.(?:so|pyd|dll|dylib|a|o|obj|lib|exe|pyc|pyo|mo|qm)|[^/]*version[^/]*)$")
"""Names of files that a build writes: machine code, catalogues of translations, the version. A local build left them."""

_SAYS_SO = re.compile(rb"(?i)\b(?:auto(?:matically)?[ -]?)?generated\b|do not edit")
_HEAD = 2048
"""Bytes: a program says at the top that it wrote a file (Cython, protoc, SWIG, setuptools-scm)."""


def source_files(sent: SourceManifest, accepted: tuple[str, ...], inside: str) -> SourceFiles | None:
    """Return what git says of the files that were sent; None if they are in no checkout,
    or in a folder that it ignores.

    Args:
        sent: the build context.
        accepted: patterns of files that may be packed although git ignores them, relative to the context.
        inside: the source in the context, ``.`` for all of it; its files are named relative to it.

    Raises OutputError if a file cannot be read.
    """
    seen = listing(sent.folder)
    if seen is None:
        return None
    accept = Ignore(accepted)
    prefix = "" if inside == "." else f"{inside}/"
    digests = {name: digest for name, digest in sent.files.items() if name.startswith(prefix) and name[-1:] != "/"}
    if all(map(seen.ignores, digests)):
        # A repository that ignores the whole folder says nothing of the files in it.
        return None
    ignored = [
        name for name in digests if seen.ignores(name) and not accept.ignores(name) and not _is_made(sent.folder / name)
    ]
    return SourceFiles(
        tuple((name.removeprefix(prefix), digests[name]) for name in digests if name in seen.tracked),
        tuple((name.removeprefix(prefix), digests[name]) for name in ignored),
        tuple((name.removeprefix(prefix), target, digest) for name, target, digest in _left_links(sent, digests)),
    )


def _is_made(path: Path) -> bool:
    """Whether a build wrote a file, or it is a link, by its name and its first lines."""
    if path.is_symlink() or _MADE.search(path.name):
        return True
    try:
        with open_plain(path) as file:
            return _SAYS_SO.search(file.read(_HEAD)) is not None
    except OSError:
        return False


def _left_links(sent: SourceManifest, names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each link that leads to something that was not sent: path, target, and the target's sha256."""
    root = os.path.realpath(sent.folder)
    for name in names:
        path = sent.folder / name
        if not stat.S_ISLNK(sent.entries[name].st_mode) or not path.exists():
            continue
        real = os.path.relpath(os.path.realpath(path), root)
        if real != "." and real not in sent.entries:
            try:
                digest = file_sha256(path) if path.is_file() else ""
            except OSError:
                digest = ""
            yield name, str(path.readlink()), digest
