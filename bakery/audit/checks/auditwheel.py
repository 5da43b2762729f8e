"""Does auditwheel agree with the tag?"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from bakery.audit.auditwheel_verdict import AuditwheelReport
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, error
from bakery.audit.tags import KNOWN_EXTERNAL, PlatformTag, parse_platform, policy_of, release_text
from bakery.audit.wheel import Wheel

IDS = {
    "auditwheel-policy": "auditwheel finds that the wheel does not fulfil its tag",
    "external-library": "the wheel needs a library that the tag does not promise and nothing excludes",
}


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield where the tag claims more than auditwheel grants."""
    verdict = wheel.verdict
    if verdict.skipped:
        yield Finding("auditwheel-policy", Severity.SKIPPED, verdict.skipped)
    elif verdict.failure:
        yield error("auditwheel-policy", f"auditwheel refuses the wheel: {verdict.failure}")
    elif verdict.overall:
        claims = [tag for tag in wheel.platforms if tag.libc is not None]
        if claims:
            oldest = min(claims, key=lambda tag: tag.libc or ())
            yield from _check_claim(oldest, verdict, expected)


def _check_claim(claim: PlatformTag, verdict: AuditwheelReport, expected: ExpectedWheel) -> Iterator[Finding]:
    if verdict.broken:
        yield error("auditwheel-policy", f"needs {verdict.broken}, so {claim.text} cannot hold")
    if not _grants(verdict.symbols, claim):
        yield error("auditwheel-policy", f"by its symbols it is {verdict.symbols}, tagged is {claim.text}")
    policy = _policy_name(claim, verdict)
    if symbols := verdict.blacklisted.get(policy, ()):
        yield error("auditwheel-policy", f"uses symbols that {claim.text} forbids: {', '.join(symbols)}")
    outside = (*expected.excludes, *KNOWN_EXTERNAL)
    for name in verdict.libraries.get(policy, ()):
        if not any(fnmatchcase(name, glob) for glob in outside):
            # Without a promise nobody said what may stay outside: another wheel may bring it.
            promised = expected.platform is not None or expected.plat is not None
            yield Finding(
                "external-library",
                Severity.ERROR if promised else Severity.WARNING,
                f"needs {name}, which {claim.text} does not promise",
                hint="let the repair bundle it, or name it in the excludes",
            )


def _grants(tag: str, claim: PlatformTag) -> bool:
    granted = parse_platform(tag)
    # musl versions no symbols: auditwheel only ever names the newest musllinux there is.
    same = granted.system == claim.system
    return same and (claim.system == "musllinux" or (granted.libc or ()) <= (claim.libc or ()))


def _policy_name(claim: PlatformTag, verdict: AuditwheelReport) -> str:
    """Return auditwheel's name for the newest policy that a system under ``claim`` fulfils."""
    if claim.system == "manylinux" and claim.libc is not None:
        return f"manylinux_{(release_text(policy_of(claim.libc)) or '').replace('.', '_')}_{claim.arch}"
    return next((tag for tag in verdict.libraries if parse_platform(tag).system == claim.system), "")
