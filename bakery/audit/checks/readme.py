"""Would PyPI take the description and the rest of METADATA? twine is asked."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.audit.expectation import Promise
from bakery.audit.finding import Finding, Severity, unanswered
from bakery.audit.wheel import Wheel

IDS = {
    "readme-render": "PyPI cannot render the description, and refuses the upload",
}


def check(wheel: Wheel, promise: Promise) -> Iterator[Finding]:
    """Yield at most one finding; what twine has against other fields is the metadata check's."""
    answer = wheel.answers.readme
    if answer.failure:
        yield unanswered("readme-render", answer.failure, binding=promise.public_index)
    for remark in answer.remarks:
        if remark.code == "render":
            yield Finding(
                "readme-render",
                Severity.ERROR if promise.public_index else Severity.WARNING,
                f"the description cannot be rendered: {remark.text}",
                f"{wheel.metadata.folder}/METADATA",
                "mend its reStructuredText, or say text/markdown if it is Markdown",
            )
