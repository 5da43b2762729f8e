"""Are the files those of a well-made project? check-wheel-contents is asked."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, unanswered
from bakery.audit.tools import Remark
from bakery.audit.wheel import Wheel

IDS = {
    "wheel-contents": "check-wheel-contents could not be asked",
    "wheel-contents-W001": "there are .pyc or .pyo files",
    "wheel-contents-W002": "files are there twice",
    "wheel-contents-W003": "something at the top level is no module",
    "wheel-contents-W004": "a module cannot be imported by its path",
    "wheel-contents-W005": "a folder at the top level has a name that many projects would claim",
    "wheel-contents-W006": "there is an __init__.py at the top level",
    "wheel-contents-W007": "nothing is installed for Python",
    "wheel-contents-W008": "the wheel is empty",
    "wheel-contents-W009": "there are several folders or modules at the top level",
    "wheel-contents-W010": "a folder at the top level has no module",
}
_ERRORS = ("W001", "W006", "W008")
"""Surely wrong: compiled files that no other Python reads, an __init__.py for nothing, an empty wheel."""
_MENTIONS = ("W002", "W003", "W004", "W009", "W010")
"""Often meant so: libraries, data and stubs beside the package."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield what the tool remarks, one finding for each of its codes."""
    answer = wheel.answers.contents
    if answer.failure:
        yield unanswered("wheel-contents", answer.failure, binding=expected.public_index)
    for remark in answer.remarks:
        # The folders of grafted libraries are auditwheel's, and rightly where they are.
        files = [file for file in remark.files if not file.partition("/")[0].endswith(".libs")]
        if remark.files and len(files) < (2 if remark.code == "W009" else 1):
            continue
        if f"wheel-contents-{remark.code}" in IDS:
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            text = remark.text[:1].lower() + remark.text[1:]
            yield Finding(
                f"wheel-contents-{remark.code}", _severity(remark, expected), text + more, files[0] if files else None
            )


def _severity(remark: Remark, expected: ExpectedWheel) -> Severity:
    if remark.code in _MENTIONS:
        return Severity.INFO
    return Severity.ERROR if remark.code in _ERRORS and not expected.is_empty else Severity.WARNING
