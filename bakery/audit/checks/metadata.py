"""Does the dist-info folder agree with the file name?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.tags import InvalidTag, Tag, parse_tag
from packaging.utils import canonicalize_name

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, error
from bakery.audit.metadata import same_version
from bakery.audit.wheel import Wheel
from bakery.core.wheel_names import MOST_TAGS, tag_count

IDS = {
    "dist-info": "there is not exactly one dist-info folder, or it lacks a file",
    "metadata-name": "METADATA or the dist-info folder names another project",
    "metadata-version": "METADATA or the dist-info folder names another version",
    "metadata-field": "a field of METADATA or WHEEL is missing or breaks the rules for it",
    "metadata-tags": "WHEEL's Tag lines differ from the file name",
    "metadata-build": "WHEEL's Build differs from the file name",
}


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every disagreement."""
    if not wheel.archive.is_read:
        return
    metadata = wheel.metadata
    if not metadata.folder:
        found = ", ".join(metadata.folders) or "none"
        yield error("dist-info", f"there must be one dist-info folder, found: {found}")
        return
    for path in metadata.missing:
        yield error("dist-info", "is missing or cannot be read", file=path)
    if metadata.missing or wheel.filename.defect:
        return
    yield from _check_identity(wheel)
    yield from _check_fields(wheel, expected)
    yield from _check_wheel_file(wheel)


def _check_identity(wheel: Wheel) -> Iterator[Finding]:
    metadata, filename = wheel.metadata, wheel.filename
    stem_name, _, stem_version = metadata.folder.removesuffix(".dist-info").rpartition("-")
    sources = (
        (f"{metadata.folder}/METADATA", metadata.name, metadata.version),
        (metadata.folder, stem_name, stem_version.replace("_", "-")),
    )
    for file, name, version in sources:
        if canonicalize_name(name) != filename.name:
            yield error("metadata-name", f"says {name!r}, the file name {filename.name!r}", file=file)
        if not same_version(version, filename.version):
            yield error("metadata-version", f"says {version!r}, the file name {filename.version!r}", file=file)


def _check_fields(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    metadata = wheel.metadata
    about = f"{metadata.folder}/METADATA"
    required = {
        "Metadata-Version": (metadata.metadata_version, about),
        "Name": (metadata.name, about),
        "Version": (metadata.version, about),
        "Wheel-Version": (metadata.wheel_version, f"{metadata.folder}/WHEEL"),
    }
    missing = {field: file for field, (value, file) in required.items() if not value}
    for field, file in missing.items():
        yield error("metadata-field", f"has no {field}", file=file)
    if not missing:
        for reason in metadata.defects:
            # Installers are patient, indexes are not.
            severity = Severity.WARNING if expected.is_empty else Severity.ERROR
            yield Finding("metadata-field", severity, reason, about)


def _check_wheel_file(wheel: Wheel) -> Iterator[Finding]:
    metadata, filename = wheel.metadata, wheel.filename
    file = f"{metadata.folder}/WHEEL"
    try:
        if sum(map(tag_count, metadata.tags)) > MOST_TAGS:
            raise InvalidTag(f"together they stand for more than {MOST_TAGS} tags")
        tags = {tag for line in metadata.tags for tag in parse_tag(line)}
    except (InvalidTag, ValueError) as reason:
        yield error("metadata-tags", f"has a Tag line that is none: {reason}", file=file)
        return
    if tags != set(filename.tags):
        yield error(
            "metadata-tags",
            f"says {_listed(tags)}; the file name says {_listed(filename.tags)}",
            file=file,
            hint="a wheel is retagged with `wheel tags` or `auditwheel repair`, not by renaming it",
        )
    if metadata.build != filename.build:
        yield error("metadata-build", f"says {metadata.build!r}, the file name {filename.build!r}", file=file)


def _listed(tags: Iterable[Tag]) -> str:
    return ", ".join(sorted(map(str, tags))) or "nothing"
