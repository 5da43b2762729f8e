"""Does RECORD list every file once, with the right hash and size, and nothing else?"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator

from bakery.audit.archive import Entry, path_defect
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.metadata import RecordRow
from bakery.audit.wheel import Wheel

_SELF = ("/RECORD", "/RECORD.jws", "/RECORD.p7s")


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every difference between RECORD and the archive."""
    metadata = wheel.metadata
    record = f"{metadata.folder}/RECORD"
    if not metadata.folder or record in metadata.missing or not wheel.archive.is_read:
        return  # other checks report it
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
    digest = base64.urlsafe_b64encode(bytes.fromhex(entry.sha256)).rstrip(b"=").decode()
    if row.digest != f"sha256={digest}":
        yield error("record-hash", f"is sha256={digest}, RECORD says {row.digest or 'nothing'}", row.path)
    if row.size != str(entry.size):
        yield error("record-size", f"has {entry.size} bytes, RECORD says {row.size or 'nothing'}", row.path)
