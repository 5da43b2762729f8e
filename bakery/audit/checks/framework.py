"""Does a wheel that is linked with torch also require it, in the releases it can work with?"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from bakery.audit.finding import Finding, Severity, warning
from bakery.audit.promise import Promise
from bakery.audit.wheel import Wheel

IDS = {
    "framework-pin": "the wheel is linked with torch but its METADATA does not pin it",
}
_TORCH = ("libtorch", "libc10")


def check(wheel: Wheel, promise: Promise) -> Iterator[Finding]:
    """Yield at most one finding."""
    linked = next((name for name in wheel.external if name.startswith(_TORCH)), None)
    if linked is None or not wheel.metadata.folder:
        return
    pins = [requirement for text in wheel.metadata.requires_dist if (requirement := _torch(text))]
    hint = "add the release it was built with to the project's dependencies: torch's C++ ABI changes with each"
    file = f"{wheel.metadata.folder}/METADATA"
    if not pins:
        # Somebody else's wheel may rely on the user to have torch; one made to a promise may not.
        severity = Severity.WARNING if promise.is_empty else Severity.ERROR
        yield Finding("framework-pin", severity, f"needs {linked}, but does not require torch", file, hint)
    elif not any(pin.specifier or pin.url for pin in pins):
        yield warning("framework-pin", f"needs {linked}, but any torch will do for METADATA", file=file, hint=hint)


def _torch(text: str) -> Requirement | None:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return None
    return requirement if canonicalize_name(requirement.name) == "torch" else None
