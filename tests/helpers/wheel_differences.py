"""How a wheel differs from the one that pip built of the same source: files, modes, METADATA, entry points, WHEEL.

What repair does to every wheel with machine code is no difference: the platform tag, the folder of bundled libraries, the
bill of materials that auditwheel writes, and the bytes of shared objects and programs.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email import policy
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

ELF = b"\x7fELF"

_OF_REPAIR = r"[^/]+\.libs/[^/]+|[^/]+\.dist-info/sboms/auditwheel\.cdx\.json"


@dataclass(frozen=True, slots=True)
class Content:
    """What a wheel has.

    Attributes:
        files: path → (Unix mode, sha256; empty for machine code) of all files but METADATA, WHEEL and RECORD. In paths, the
            name of the dist-info and data folders has no version.
        metadata: field → its values in order, and ``(description)``.
        wheel: the same of WHEEL, without the platforms of the tags, and without the version of the generator.
        unlisted: files that RECORD does not have, or has with another digest; files that only RECORD has.
    """

    name: str
    files: Mapping[str, tuple[int, str]]
    metadata: Mapping[str, list[str]]
    wheel: Mapping[str, list[str]]
    unlisted: list[str]


def read(path: Path) -> Content:
    """Read a wheel, without trust in RECORD."""
    files: dict[str, tuple[int, str]] = {}
    digests: dict[str, str] = {}
    texts: dict[str, bytes] = {}
    with zipfile.ZipFile(path) as wheel:
        for item in wheel.infolist():
            if item.is_dir():
                continue
            data = wheel.read(item)
            digest = hashlib.sha256(data).digest()
            digests[item.filename] = "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            head, _, rest = item.filename.partition("/")
            if head.endswith(".dist-info") and rest in ("METADATA", "WHEEL", "RECORD"):
                texts[rest] = data
                continue
            plain = re.sub(r"-[^/]+?(\.(?:dist-info|data)/)", r"\1", item.filename, count=1)
            files[plain] = item.external_attr >> 16, "" if data.startswith(ELF) else digest.hex()
    return Content(
        path.name,
        files,
        _fields(texts["METADATA"]),
        _of_wheel(texts["WHEEL"]),
        sorted(_not_as_recorded(texts["RECORD"].decode(), digests)),
    )


def _fields(data: bytes) -> dict[str, list[str]]:
    message: Message = BytesParser(policy=policy.compat32).parsebytes(data)
    found: dict[str, list[str]] = {}
    for field, value in message.items():
        found.setdefault(field, []).append(str(value))
    body = message.get_payload()
    return {**found, "(description)": [body if isinstance(body, str) else repr(body)]}


def _of_wheel(data: bytes) -> dict[str, list[str]]:
    fields = _fields(data)
    fields["Tag"] = sorted({re.sub(r"-(?:many|musl)?linux[^-]*$", "-linux", tag) for tag in fields.get("Tag", [])})
    return fields


def _not_as_recorded(record: str, digests: Mapping[str, str]) -> Iterator[str]:
    rows = {row[0]: row[1] for row in csv.reader(record.splitlines()) if row}
    for name in {*rows, *digests}:
        if name.endswith((".dist-info/RECORD", ".dist-info/RECORD.jws", ".dist-info/RECORD.p7s")):
            continue
        if rows.get(name) != digests.get(name):
            yield name


def differences(pip: Content, ours: Content) -> list[str]:
    """Return how a wheel differs from pip's, one line each; none if they are equal."""
    return [*_names(pip.name, ours.name), *_files(pip, ours), *_of(pip, ours), *_record(ours)]


def _names(pip: str, ours: str) -> Iterator[str]:
    # distribution, version, and the build tag if any; then Python, ABI, platform
    theirs, mine = pip.removesuffix(".whl").split("-"), ours.removesuffix(".whl").split("-")
    parts = {
        "distribution": slice(0, 1),
        "version": slice(1, 2),
        "build tag": slice(2, -3),
        "Python and ABI": slice(-3, -1),
    }
    for title, part in parts.items():
        if theirs[part] != mine[part]:
            yield f"{title}: {'-'.join(theirs[part])} is {'-'.join(mine[part])}"
    if (theirs[-1] == "any") != (mine[-1] == "any"):
        yield f"platform: {theirs[-1]} is {mine[-1]}"


def _files(pip: Content, ours: Content) -> Iterator[str]:
    for path in sorted({*pip.files, *ours.files}):
        if path not in ours.files:
            yield f"file missing: {path}"
        elif path not in pip.files:
            if not re.fullmatch(_OF_REPAIR, path):
                yield f"file added: {path}"
        else:
            (their_mode, theirs), (mode, mine) = pip.files[path], ours.files[path]
            if their_mode != mode:
                yield f"mode of {path}: {their_mode:o} is {mode:o}"
            if theirs != mine:
                yield f"bytes of {path}"


def _of(pip: Content, ours: Content) -> Iterator[str]:
    for file, theirs, mine in (("METADATA", pip.metadata, ours.metadata), ("WHEEL", pip.wheel, ours.wheel)):
        for field in sorted({*theirs, *mine}):
            if theirs.get(field) != mine.get(field):
                old, new = (" | ".join(side.get(field, ["none"])) for side in (theirs, mine))
                yield f"{file}, {field}: {_short(old)} is {_short(new)}"


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _record(ours: Content) -> Iterator[str]:
    for name in ours.unlisted:
        yield f"RECORD is wrong about {name}"
