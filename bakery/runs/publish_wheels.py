"""Publishes wheels together with their records: at no moment does a wheel stand beside the records of other bytes.

The records of a wheel are two files with its name. While they are replaced, they have names with the digest of their
wheel, so that a process that is killed between two renames leaves nothing wrong: whoever reads a record finds the right
one (`bakery.runs.records.read.provenance_of`), and the next process that publishes tidies up.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery.runs.publish import copied, digest_of, folder_of, sweep, sync, written
from bakery.runs.records.buildkit import FOLDER, PROVENANCE, SBOM, record_path, waiting_path


@dataclass(frozen=True, slots=True)
class NewWheel:
    """A wheel to publish, and its records: files with the names of `record_path`; none if nothing records its build."""

    path: Path
    sha256: str
    records: Sequence[Path] = ()


def publish_wheels(wheels: Sequence[NewWheel], output: Path, *, root: Path) -> list[str]:
    """Publish wheels with their records: all or, if a file cannot be written, none. Return the names of replaced wheels.

    The rest is as in `bakery.runs.publish.publish`. A wheel without records leaves none of another wheel beside it.
    """
    with written(output, root) as folder:
        home = folder_of(output / FOLDER, root)
        sweep(home)
        _settle(folder, home)
        records = [path for wheel in wheels for path in wheel.records]
        with copied([wheel.path for wheel in wheels], folder) as files, copied(records, home) as papers:
            replaced = [final.name for _, final in files.values() if final.is_file()]
            try:
                for wheel in wheels:
                    final, is_new = folder / wheel.path.name, wheel.path in files
                    for path in wheel.records:
                        suffix = path.name.removeprefix(final.name)
                        if path in papers or is_new:
                            # What has this content already may stand beside the old wheel.
                            source = papers[path][0] if path in papers else home / path.name
                            source.replace(waiting_path(final, wheel.sha256, suffix))
                    if is_new:
                        _set_aside(final)
                        sync(home)
                        files[wheel.path][0].replace(final)
                if files:
                    sync(folder)
            finally:
                _settle(folder, home)
            if papers:
                sync(home)
        # cibuildwheel's wheels have no records: then no empty folder stays.
        with contextlib.suppress(OSError):
            home.rmdir()
    return replaced


def _set_aside(wheel: Path) -> None:
    """Give the records of a wheel that will be replaced names with its digest."""
    # A link in its place is no wheel, and what stands beside it no record.
    sha256 = digest_of(wheel) if wheel.is_file() and not wheel.is_symlink() else "0" * 64
    for suffix in (PROVENANCE, SBOM):
        with contextlib.suppress(FileNotFoundError):
            record_path(wheel, suffix).replace(waiting_path(wheel, sha256, suffix))


_WAITING = re.compile(
    rf"(?P<wheel>.+\.whl)\.(?P<digest>[0-9a-f]{{12}})(?P<suffix>{re.escape(PROVENANCE)}|{re.escape(SBOM)})"
)


def _settle(folder: Path, home: Path) -> None:
    """Give the records with digests in their names the names of their wheels; remove those of other wheels."""
    for path, name, digest, suffix in list(_waiting(home)):
        try:
            is_right = digest_of(folder / name).startswith(digest)
        except OSError:
            is_right = False
        if is_right:
            path.replace(home / f"{name}{suffix}")
        else:
            path.unlink(missing_ok=True)


def _waiting(home: Path) -> Iterator[tuple[Path, str, str, str]]:
    with os.scandir(home) as entries:
        for entry in entries:
            if (match := _WAITING.fullmatch(entry.name)) and not entry.is_dir(follow_symlinks=False):
                yield Path(entry.path), match["wheel"], match["digest"], match["suffix"]
