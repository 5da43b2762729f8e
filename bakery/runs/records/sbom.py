"""The bill of materials of a wheel, in CycloneDX: what it is, has inside, needs at run time, and was built from.

The same wheel from the same materials gives the same text: its serial number follows from the wheel's hash, and its time
is that of the source.
"""

from __future__ import annotations

import hashlib
import uuid
import warnings
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesHeaderParser
from pathlib import Path, PurePosixPath

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bakery import __version__
from bakery.runs.records.buildkit import Material
from wheel_audit.wheel import is_grafted, original_soname

ROLE = "bakery:role"
"""The property with the role of a component: ``bundled``, ``runtime`` or ``build``."""

# A wheel that needs nothing is complete without dependencies.
warnings.filterwarnings("ignore", message="The Component this BOM is describing", category=UserWarning)

_TYPES = {"image": ComponentType.CONTAINER, "source": ComponentType.FILE}


def sbom(path: Path, sha256: str, materials: Iterable[Material], epoch: int) -> str:
    """Return the bill of materials of a wheel that passed the audit; ``epoch`` is its time in seconds since 1970."""
    metadata, inside = contents(path)
    name, version, summary, license_ = (
        str(metadata.get(key) or "") for key in ("Name", "Version", "Summary", "License-Expression")
    )
    wheel = Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref="wheel",
        description=summary or None,
        purl=PackageURL("pypi", None, canonicalize_name(name), version, {"file_name": path.name}),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)],
        licenses=[LicenseFactory().make_from_string(license_)] if license_ else None,
    )
    needed = [_requirement(text) for text in dict.fromkeys(map(str, metadata.get_all("Requires-Dist") or ()))]
    built = [_material(number, item) for number, item in enumerate(materials)]
    bakery = Component(name="wheel-bakery", version=__version__, type=ComponentType.APPLICATION, bom_ref="bakery")
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, f"sha256:{sha256}"),
        metadata=BomMetaData(
            component=wheel,
            timestamp=datetime.fromtimestamp(epoch, UTC),
            tools=ToolRepository(components=[bakery]),
        ),
        components=[*inside, *needed, *built],
        dependencies=[
            Dependency(wheel.bom_ref, [Dependency(item.bom_ref) for item in (*inside, *needed)]),
            *(Dependency(item.bom_ref) for item in (*inside, *needed, *built)),
        ],
    )
    text: str = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)
    return text + "\n"


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
                    Component(
                        name=original_soname(PurePosixPath(name).name),
                        type=ComponentType.LIBRARY,
                        bom_ref=f"bundled:{name}",
                        scope=ComponentScope.REQUIRED,
                        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)],
                        properties=_properties("bundled", path=name),
                    )
                )
        return BytesHeaderParser().parsebytes(archive.read(metadata)), bundled


def _requirement(text: str) -> Component:
    """Return a run-time requirement; the release is chosen at installation."""
    requirement = Requirement(text)
    name = canonicalize_name(requirement.name)
    optional = "extra" in str(requirement.marker or "")
    return Component(
        name=name,
        type=ComponentType.LIBRARY,
        bom_ref=f"runtime:{text}",
        scope=ComponentScope.OPTIONAL if optional else ComponentScope.REQUIRED,
        purl=PackageURL("pypi", None, name),
        properties=_properties("runtime", requirement=text),
    )


def _material(number: int, item: Material) -> Component:
    """Return a material, which is not itself in the wheel."""
    package = item.uri.startswith("pkg:")
    version = str(item.notes["version"]) if "version" in item.notes else None
    return Component(
        name=item.name.removesuffix(f" {version}"),
        type=_TYPES.get(item.kind, ComponentType.LIBRARY),
        bom_ref=f"build:{number}",
        scope=ComponentScope.EXCLUDED,
        version=version,
        purl=PackageURL.from_string(item.uri) if package else None,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=item.digest["sha256"])]
        if "sha256" in item.digest
        else None,
        properties=_properties("build", **_other_fields(item, package=package)),
    )


def _other_fields(item: Material, *, package: bool) -> dict[str, str]:
    """Return fields that components do not have."""
    digests = {name: value for name, value in item.digest.items() if name != "sha256"}
    return {"kind": item.kind, **digests, **({"uri": item.uri} if item.uri and not package else {})}


def _properties(role: str, **more: str) -> list[Property]:
    return [
        Property(name=ROLE, value=role),
        *(Property(name=f"bakery:{key}", value=value) for key, value in more.items()),
    ]
