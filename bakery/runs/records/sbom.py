"""The bill of materials of a wheel, in CycloneDX: what it is, has inside, needs at run time, and was built from.

The same wheel from the same materials gives the same text: its serial number follows from the wheel's hash, and its time
is that of the source.
"""

from __future__ import annotations

import hashlib
import json
import uuid
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesHeaderParser
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bakery import __version__
from bakery.plan.values import Json
from bakery.runs.records.buildkit import Material
from wheel_audit.wheel import is_grafted, original_soname

ROLE = "bakery:role"
"""The property with the role of a component: ``bundled``, ``runtime`` or ``build``."""

_TYPES = {"image": "container", "source": "file"}

Component = dict[str, Json]


def sbom(path: Path, sha256: str, materials: Iterable[Material], epoch: int) -> str:
    """Return the bill of materials of a wheel that passed the audit; ``epoch`` is its time in seconds since 1970.

    Its format is CycloneDX 1.6 in JSON: https://cyclonedx.org/docs/1.6/json.
    """
    metadata, inside = contents(path)
    name, version, summary, license_ = (
        str(metadata.get(key) or "") for key in ("Name", "Version", "Summary", "License-Expression")
    )
    wheel = _component(
        "wheel",
        "library",
        name,
        version=version,
        description=summary,
        hashes=[{"alg": "SHA-256", "content": sha256}],
        licenses=[{"expression": license_}] if license_ else [],
        purl=f"pkg:pypi/{canonicalize_name(name)}@{quote(version, safe='')}?file_name={quote(path.name, safe='')}",
    )
    needed = [_requirement(text) for text in dict.fromkeys(map(str, metadata.get_all("Requires-Dist") or ()))]
    components = [*inside, *needed, *(_material(number, item) for number, item in enumerate(materials))]
    bakery = _component("bakery", "application", "wheel-bakery", version=__version__)
    document: dict[str, Json] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_OID, f"sha256:{sha256}").urn,
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(),
            "tools": {"components": [bakery]},
            "component": wheel,
        },
        "components": [*components],
        "dependencies": [
            {"ref": "wheel", "dependsOn": [item["bom-ref"] for item in (*inside, *needed)]},
            *({"ref": item["bom-ref"]} for item in components),
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def contents(wheel: Path) -> tuple[Message, list[Component]]:
    """Return a wheel's METADATA, and the libraries that auditwheel added."""
    bundled = []
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.count("/") == 1 and name.endswith(".dist-info/METADATA"))
        for name in sorted(names):
            if is_grafted(name) and not name.endswith("/"):
                with archive.open(name) as member:
                    sha256 = hashlib.file_digest(member, "sha256").hexdigest()  # type: ignore[arg-type]
                bundled.append(
                    _component(
                        f"bundled:{name}",
                        "library",
                        original_soname(PurePosixPath(name).name),
                        scope="required",
                        hashes=[{"alg": "SHA-256", "content": sha256}],
                        properties=_properties("bundled", path=name),
                    )
                )
        return BytesHeaderParser().parsebytes(archive.read(metadata)), bundled


def _requirement(text: str) -> Component:
    """Return a run-time requirement; the release is chosen at installation."""
    requirement = Requirement(text)
    name = canonicalize_name(requirement.name)
    scope = "optional" if "extra" in str(requirement.marker or "") else "required"
    properties = _properties("runtime", requirement=text)
    return _component(f"runtime:{text}", "library", name, scope=scope, purl=f"pkg:pypi/{name}", properties=properties)


def _material(number: int, item: Material) -> Component:
    """Return a material, which is not itself in the wheel."""
    is_package = item.uri.startswith("pkg:")
    version = str(item.notes.get("version") or "")
    digests = {name: value for name, value in item.digest.items() if name != "sha256"}
    uri = {"uri": item.uri} if item.uri and not is_package else {}
    return _component(
        f"build:{number}",
        _TYPES.get(item.kind, "library"),
        item.name.removesuffix(f" {version}"),
        version=version,
        scope="excluded",
        hashes=[{"alg": "SHA-256", "content": item.digest["sha256"]}] if "sha256" in item.digest else [],
        purl=item.uri if is_package else "",
        properties=_properties("build", kind=item.kind, **digests, **uri),
    )


def _component(ref: str, kind: str, name: str, **fields: Json) -> Component:
    return {"bom-ref": ref, "type": kind, "name": name, **{key: value for key, value in fields.items() if value}}


def _properties(role: str, **more: str) -> list[Json]:
    return [
        {"name": name, "value": value}
        for name, value in {ROLE: role, **{f"bakery:{key}": text for key, text in more.items()}}.items()
    ]
