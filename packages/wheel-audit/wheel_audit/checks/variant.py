"""Is variant.json valid, and does the device code have the properties that it claims?"""

from __future__ import annotations

from collections.abc import Iterator

from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, error
from wheel_audit.variant import FILE, BadVariant, contradictions, read
from wheel_audit.wheel import Wheel


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield what is wrong with a wheel variant."""
    label, file = wheel.filename.label, f"{wheel.metadata.folder}/{FILE}"
    text = wheel.archive.texts.get(file)
    if not wheel.archive.is_read or not wheel.metadata.folder or (text is None and not label):
        return
    if text is None:
        yield error("variant-file", f"the file name has the label {label}, and the wheel has no {FILE}")
        return
    if not label:
        yield error("variant-file", "is there, and the file name has no label", file)
        return
    try:
        variant = read(text)
    except BadVariant as reason:
        yield error("variant-file", str(reason), file)
        return
    if variant.label != label:
        yield error("variant-label", f"says {variant.label!r}, the file name {label!r}", file)
    for fault in contradictions(variant, wheel.device_objects):
        yield error("variant-property", fault, file)
