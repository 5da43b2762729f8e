"""Can PyPI render the description? readme-renderer is what PyPI itself uses."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, unanswered
from bakery.audit.wheel import Wheel

IDS = {
    "readme-render": "PyPI cannot render the description, and refuses the upload",
}


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield at most one finding."""
    answer = wheel.answers.readme
    if answer.failure:
        yield unanswered("readme-render", answer.failure, binding=expected.public_index)
    for remark in answer.remarks:
        yield Finding(
            "readme-render",
            Severity.ERROR if expected.public_index else Severity.WARNING,
            f"the description cannot be rendered: {remark.text}",
            f"{wheel.metadata.folder}/METADATA",
            "fix its reStructuredText, or set the content type text/markdown if it is Markdown",
        )
