"""Do modules for the stable ABI keep to it? abi3audit is asked."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error, unanswered
from bakery.audit.wheel import ABI3_SUFFIX, Wheel

IDS = {
    "abi3-violation": "a module tagged for the stable ABI uses what is not in it, or came later than its tag says",
}


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every object that breaks the promise of its tag."""
    answer = wheel.answers.abi3
    if answer.failure:
        binding = bool(expected.abi3) or expected.public_index
        yield unanswered("abi3-violation", answer.failure, binding=binding)
    tagged = any(tag.abi == "abi3" for tag in wheel.filename.tags)
    paths = {found.file_name: found.path for found in wheel.archive.binaries}
    for remark in answer.remarks:
        for name in remark.files:
            if tagged or ABI3_SUFFIX in name:
                yield error(
                    "abi3-violation",
                    remark.text,
                    file=paths.get(name, name),
                    hint="compile with -DPy_LIMITED_API for the oldest Python, or tag the wheel for one Python",
                )
