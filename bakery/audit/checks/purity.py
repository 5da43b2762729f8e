"""Do the tags and Root-Is-Purelib say truly whether the wheel holds machine code?"""

from __future__ import annotations

from collections.abc import Iterator

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, error
from bakery.audit.wheel import Wheel

IDS = {
    "promised-pure": "the wheel holds machine code, or none, against the promise",
    "any-tag": "a wheel for any platform holds machine code",
    "root-is-purelib": "WHEEL's Root-Is-Purelib contradicts the contents",
}


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield where the claim and the contents differ."""
    if not wheel.archive.is_read or wheel.filename.defect:
        return
    native = next((found.path for found in wheel.native), None)
    portable = any(tag.system == "any" for tag in wheel.platforms)
    if expected.pure is False and not any(entry.kind for entry in wheel.archive.entries):
        yield error(
            "promised-pure",
            "holds no machine code, but extension modules were promised",
            hint="an optional extension that failed to build leaves a pure wheel: see the build's log",
        )
    if expected.pure is True and (native is not None or not portable):
        yield error("promised-pure", "is not the pure wheel that was promised", file=native)
    if portable and native is not None:
        severity = Severity.WARNING if expected.platform is None else Severity.ERROR
        yield Finding("any-tag", severity, "is machine code in a wheel tagged for any platform", native)
    yield from _check_purelib(wheel, native, expected)


def _check_purelib(wheel: Wheel, native: str | None, expected: ExpectedWheel) -> Iterator[Finding]:
    said = wheel.metadata.root_is_purelib
    if not wheel.metadata.folder or f"{wheel.metadata.folder}/WHEEL" in wheel.metadata.missing:
        return
    file = f"{wheel.metadata.folder}/WHEEL"
    if said not in ("true", "false"):
        yield error("root-is-purelib", f"Root-Is-Purelib is {said!r}, not true or false", file=file)
    elif said == "true" and native is not None:
        # It only matters where purelib and platlib differ; NVIDIA's own wheels do it.
        severity = Severity.WARNING if expected.is_empty else Severity.ERROR
        yield Finding("root-is-purelib", severity, f"Root-Is-Purelib is true, yet {native} is machine code", file)
