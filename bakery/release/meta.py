"""The meta package of wheels with a distribution for each CUDA release: no files, and an extra for each of them.

`pip install my-kernels[cu13]` then installs `my-kernels-cu13` of the same version.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from bakery.core.errors import AuditError, OutputError
from bakery.plan.model import Plan
from bakery.plan.values import substitute
from wheel_audit.plain_files import open_plain
from wheel_audit.text import listed
from wheel_audit.wheel_names import parse_wheel_name
from wheel_audit.zips import ZIP_ERRORS, open_zip

_LARGEST = 4 << 20
"""Bytes of the metadata that is copied."""

_OWN = (
    "name",
    "version",
    "requires-dist",
    "provides-extra",
    "license-file",
    "dynamic",
    "import-name",
    "import-namespace",
)
"""Fields of the wheels' metadata that the meta package has values of its own for, or none."""

_FIRST = (1980, 1, 1, 0, 0, 0)


def extras(plan: Plan) -> dict[str, dict[str, str]]:
    """Return each meta package of a plan: name → extra → distribution."""
    found: dict[str, dict[str, str]] = {}
    for cell in (*plan.cells, *plan.cibuildwheel_cells):
        for naming in plan.of(cell).audit.namings:
            if naming.meta:
                name = canonicalize_name(substitute(naming.name, plan.values_of_wheel(cell)))
                meta = canonicalize_name(naming.meta)
                found.setdefault(meta, {})[name.removeprefix(f"{meta}-")] = name
    return found


def meta_packages(plan: Plan, wheels: Sequence[Path]) -> dict[str, bytes]:
    """Return file name → content of the meta packages for finished wheels; the same wheels give the same bytes.

    Raises:
        AuditError: there is no wheel of a distribution, or the wheels have several versions.
        OutputError: a wheel cannot be read.
    """
    return dict(_made(meta, members, wheels) for meta, members in extras(plan).items())


def _made(meta: str, members: dict[str, str], wheels: Sequence[Path]) -> tuple[str, bytes]:
    parsed = [(*parse_wheel_name(path.name)[:2], path) for path in sorted(wheels)]
    own = {
        name: [(version.public, path) for item, version, path in parsed if item == name] for name in members.values()
    }
    if missing := [name for name, found in own.items() if not found]:
        raise AuditError(
            f"no meta package {meta}: no wheel of {listed(missing)}", hint="bake all cells, and name their folder"
        )
    versions = sorted({version for found in own.values() for version, _ in found})
    if len(versions) > 1:
        raise AuditError(
            f"no meta package {meta}: its wheels have the versions {listed(versions)}",
            hint="remove the older wheels from the folder",
        )
    folder = f"{meta.replace('-', '_')}-{versions[0]}"
    texts = {
        f"{folder}.dist-info/METADATA": _metadata(meta, versions[0], members, next(iter(own.values()))[0][1]),
        f"{folder}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: bakery\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},{_digest(text)},{len(text.encode())}\n" for name, text in texts.items())
    texts[f"{folder}.dist-info/RECORD"] = f"{record}{folder}.dist-info/RECORD,,\n"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in texts.items():
            info = zipfile.ZipInfo(name, _FIRST)
            info.external_attr = 0o100644 << 16
            archive.writestr(info, text)
    return f"{folder}-py3-none-any.whl", content.getvalue()


def _digest(text: str) -> str:
    return f"sha256={urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()}"


def _metadata(meta: str, version: str, members: dict[str, str], wheel: Path) -> str:
    """Return the metadata of a wheel, such as summary, license and description, with the extras as its requirements."""
    try:
        with open_plain(wheel, follow=True) as stream, open_zip(stream) as archive:
            (name,) = (name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
            with archive.open(name) as member:
                text = member.read(_LARGEST).decode(errors="replace")
    except (*ZIP_ERRORS, ValueError) as error:
        raise OutputError(f"cannot read the metadata of {wheel.name}: {error}") from error
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    fields = [
        field
        for field in re.split(r"\n(?![ \t])", head.rstrip())
        if field.partition(":")[0].strip().lower() not in _OWN
    ]
    # The first field is the version of the format.
    lines = [*fields[:1], f"Name: {meta}", f"Version: {version}", *fields[1:], *_requirements(version, members.items())]
    return "\n".join(lines) + "\n" + (f"\n{body}" if body else "")


def _requirements(version: str, members: Iterable[tuple[str, str]]) -> Iterator[str]:
    for extra, name in sorted(members):
        yield f"Provides-Extra: {extra}"
        yield f'Requires-Dist: {name}=={version}; extra == "{extra}"'
