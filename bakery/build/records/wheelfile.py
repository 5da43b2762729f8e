"""What a wheel's own archive says for its bill of materials."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path, PurePosixPath

from bakery.audit.wheel import is_grafted, original_soname


@dataclass(frozen=True, slots=True)
class Bundled:
    """A library that auditwheel put into a wheel; ``name`` is the one it had before."""

    name: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What is read of a wheel that passed the audit.

    Attributes:
        license: its SPDX expression; empty if it gives none.
        requires: its requirements, as METADATA writes them.
    """

    name: str
    version: str
    summary: str
    license: str
    requires: tuple[str, ...]
    bundled: tuple[Bundled, ...]


def contents(wheel: Path) -> Contents:
    """Read a wheel that passed the audit."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.count("/") == 1 and name.endswith(".dist-info/METADATA"))
        fields = BytesHeaderParser().parsebytes(archive.read(metadata))
        bundled = []
        for name in sorted(names):
            if is_grafted(name) and not name.endswith("/"):
                with archive.open(name) as member:
                    sha256 = hashlib.file_digest(member, "sha256").hexdigest()  # type: ignore[arg-type]
                bundled.append(Bundled(original_soname(PurePosixPath(name).name), name, sha256))
    texts = {key: str(fields.get(key) or "") for key in ("Name", "Version", "Summary", "License-Expression")}
    requires = tuple(str(item) for item in fields.get_all("Requires-Dist") or ())
    return Contents(
        texts["Name"], texts["Version"], texts["Summary"], texts["License-Expression"], requires, tuple(bundled)
    )
