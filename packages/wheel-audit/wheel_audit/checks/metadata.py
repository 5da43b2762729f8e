"""Do the file name, the dist-info folder, RECORD, the archive and the recipe agree?"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from packaging.requirements import Requirement
from packaging.tags import InvalidTag, Tag, parse_tag
from packaging.utils import canonicalize_name

from wheel_audit.archive import Entry, path_defect
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, error, error_if
from wheel_audit.metadata import RecordRow, same_version
from wheel_audit.requirements import extra_of, requirements_for
from wheel_audit.wheel import Wheel
from wheel_audit.wheel_names import MOST_TAGS, tag_count

_SELF = ("/RECORD", "/RECORD.jws", "/RECORD.p7s")


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every disagreement."""
    metadata, filename = wheel.metadata, wheel.filename
    if filename.defect:
        yield error("wheel-filename", filename.defect)
    else:
        yield from _check_filename(wheel, expected)
    if not wheel.archive.is_read:
        return
    if not metadata.folder:
        folders = ", ".join(metadata.folders) or "none"
        yield error("dist-info", f"there must be one dist-info folder, found: {folders}")
        return
    yield from _check_requirements(wheel, expected)
    for path in metadata.missing:
        yield error("dist-info", "is missing or cannot be read", path)
    if not (metadata.missing or filename.defect):
        yield from _check_identity(wheel)
        yield from _check_fields(wheel, expected)
        yield from _check_wheel_file(wheel)
    yield from _check_record(wheel)


def _check_filename(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    filename = wheel.filename
    if expected.name is not None and canonicalize_name(expected.name) != filename.name:
        yield error("promised-name", f"is named {filename.name}, expected {expected.name}")
    if expected.version is not None and not same_version(expected.version, filename.version):
        yield error("promised-version", f"has version {filename.version}, expected {expected.version}")
    _, _, local = filename.version.partition("+")
    if expected.public_index and local:
        yield error("local-version-public", f"has the local version +{local}, which PyPI refuses")


def _check_requirements(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    file = f"{wheel.metadata.folder}/METADATA"
    for text in expected.requires:
        promised = Requirement(text)
        requirements = requirements_for(wheel.metadata.requires_dist, promised.name, extra_of(promised))
        if not requirements:
            hint = "name it in the project's dependencies, or let the recipe add it"
            yield error("promised-requirement", f"does not require {text}", file, hint)
        elif not any(_admits(item, promised) for item in requirements):
            listed = ", ".join(map(str, requirements))
            yield error("promised-requirement", f"requires {listed}, which refuses {text}", file)


def _admits(requirement: Requirement, promised: Requirement) -> bool:
    """Whether ``requirement`` accepts a release from the bounds of ``promised``."""
    releases = [
        version
        for bound in promised.specifier
        for version in (bound.version.removesuffix(".*"), bound.version.removesuffix(".*") + ".99")
        if promised.specifier.contains(version, prereleases=True)
    ]
    takes = requirement.specifier.contains
    return not releases or bool(requirement.url) or any(takes(version, prereleases=True) for version in releases)


def _check_identity(wheel: Wheel) -> Iterator[Finding]:
    metadata, filename = wheel.metadata, wheel.filename
    stem_name, _, stem_version = metadata.folder.removesuffix(".dist-info").rpartition("-")
    sources = (
        (f"{metadata.folder}/METADATA", metadata.name, metadata.version),
        (metadata.folder, stem_name, stem_version.replace("_", "-")),
    )
    for file, name, version in sources:
        if canonicalize_name(name) != filename.name:
            yield error("metadata-name", f"says {name!r}, the file name {filename.name!r}", file)
        if not same_version(version, filename.version):
            yield error("metadata-version", f"says {version!r}, the file name {filename.version!r}", file)


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
        yield error("metadata-field", f"has no {field}", file)
    if not missing:
        for reason in metadata.defects:
            # Installers accept these, package indexes do not.
            yield Finding("metadata-field", error_if(not expected.is_empty), reason, about)


def _check_wheel_file(wheel: Wheel) -> Iterator[Finding]:
    metadata, filename = wheel.metadata, wheel.filename
    file = f"{metadata.folder}/WHEEL"
    try:
        if sum(map(tag_count, metadata.tags)) > MOST_TAGS:
            raise InvalidTag(f"together they have more than {MOST_TAGS} tags")
        tags = {tag for line in metadata.tags for tag in parse_tag(line)}
    except (InvalidTag, ValueError) as reason:
        yield error("metadata-tags", f"has an invalid Tag line: {reason}", file)
        return
    if tags != set(filename.tags):
        text = f"says {_listed(tags)}; the file name says {_listed(filename.tags)}"
        hint = "a wheel is retagged with `wheel tags` or `auditwheel repair`, not by renaming it"
        yield error("metadata-tags", text, file, hint)
    # 01cu128 in the file is (1, "cu128"), as in the name.
    if re.sub(r"^0+(?=\d)", "", metadata.build) != filename.build:
        yield error("metadata-build", f"says {metadata.build!r}, the file name {filename.build!r}", file)


def _listed(tags: Iterable[Tag]) -> str:
    return ", ".join(sorted(map(str, tags))) or "nothing"


def _check_record(wheel: Wheel) -> Iterator[Finding]:
    metadata = wheel.metadata
    record = f"{metadata.folder}/RECORD"
    if record in metadata.missing:
        return
    if metadata.record_defect:
        yield error("record-malformed", metadata.record_defect, record)
        return
    entries = {entry.path: entry for entry in wheel.archive.entries if not entry.is_dir}
    listed = Counter(row.path for row in metadata.record)
    for path, count in listed.items():
        if count > 1:
            yield error("record-duplicate", f"RECORD lists it {count} times", path)
    signatures = {metadata.folder + name for name in _SELF}
    for path in sorted(entries.keys() - listed.keys() - signatures):
        yield error("record-unlisted", "is in the archive but not in RECORD", path)
    for row in metadata.record:
        if reason := path_defect(row.path):
            yield error("record-path", f"the path in RECORD is {reason}", row.path)
        elif row.path not in entries:
            yield error("record-absent", "is in RECORD but not in the archive", row.path)
        elif row.path not in signatures:
            yield from _check_row(row, entries[row.path])


def _check_row(row: RecordRow, entry: Entry) -> Iterator[Finding]:
    if not entry.sha256:
        return  # the archive check reports it
    named = row.digest.partition("=")[0]
    algorithm = named if named in entry.digests else "sha256"
    digest = base64.urlsafe_b64encode(bytes.fromhex(entry.digests[algorithm])).rstrip(b"=").decode()
    if row.digest != f"{algorithm}={digest}":
        yield error("record-hash", f"is {algorithm}={digest}, RECORD says {row.digest or 'nothing'}", row.path)
    # The size may be empty (packaging.python.org, "Recording installed projects").
    if row.size not in ("", str(entry.size)):
        yield error("record-size", f"has {entry.size} bytes, RECORD says {row.size or 'nothing'}", row.path)
