"""Is the file name a wheel's, and the one that was promised?"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.metadata import same_version
from bakery.audit.wheel import Wheel

IDS = {
    "wheel-filename": "the file name is not a wheel's",
    "promised-name": "the project is not the promised one",
    "promised-version": "the version is not the promised one",
    "local-version-public": "a wheel for PyPI has a local version, which it refuses",
}


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield what is wrong with name and version."""
    filename = wheel.filename
    if filename.defect:
        yield error("wheel-filename", filename.defect)
        return
    if expected.name is not None and canonicalize_name(expected.name) != filename.name:
        yield error("promised-name", f"is named {filename.name}, expected {expected.name}")
    if expected.version is not None and not same_version(expected.version, filename.version):
        yield error("promised-version", f"has version {filename.version}, expected {expected.version}")
    _, _, local = filename.version.partition("+")
    if expected.public_index and local:
        yield error(
            "local-version-public",
            f"has the local version +{local}, which PyPI refuses",
            hint="give the public wheel its clean version, and the local one to another index",
        )
