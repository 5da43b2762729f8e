"""Reports the results of auditwheel, abi3audit, check-wheel-contents and readme-renderer, which PyPI uses."""

from __future__ import annotations

from collections.abc import Iterator

from wheel_audit.dependencies import matches
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, Severity, error, error_if
from wheel_audit.systems import KNOWN_EXTERNAL, policy_of
from wheel_audit.tags import PlatformTag, oldest_tags, parse_platform, release_text
from wheel_audit.text import listed
from wheel_audit.tools import AuditwheelReport, ToolRemark, ToolResult
from wheel_audit.wheel import ABI3_SUFFIX, Wheel

_ERRORS = ("W001", "W006")
"""Always wrong: compiled files that no other Python reads, a useless __init__.py."""
_WARNINGS = ("W005", "W007", "W008")
"""A wheel of metadata alone brings only its requirements: pip builds and installs it."""
_MENTIONS = ("W002", "W003", "W004", "W009", "W010")
"""Often intended: libraries, data and stubs next to the package."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield the results of the tools, and which did not finish."""
    yield from _check_auditwheel(wheel, expected)
    results = wheel.results
    yield from _unfinished("abi3-violation", results.abi3, required=expected.abi3 or expected.public_index)
    yield from _check_abi3(wheel, results.abi3)
    yield from _unfinished("wheel-contents", results.contents, required=expected.public_index)
    for remark in results.contents.remarks:
        yield from _check_contents(remark, expected)
    yield from _unfinished("readme-render", results.readme, required=expected.public_index)
    for remark in results.readme.remarks:
        text = f"the description cannot be rendered: {remark.text}"
        hint = "fix its reStructuredText, or set the content type text/markdown if it is Markdown"
        file = f"{wheel.metadata.folder}/METADATA"
        yield Finding("readme-render", error_if(expected.public_index), text, file, hint)


def _unfinished(check: str, result: ToolResult, *, required: bool | None) -> Iterator[Finding]:
    """Yield why a tool did not finish: an error if the wheel must not be published without its result."""
    if result.failure and required:
        hint = result.hint or "this wheel needs its result: build again, finished steps are in the cache"
        yield error(check, result.failure, hint=hint)
    elif result.failure:
        severity = Severity.INFO if result.is_absent else Severity.SKIPPED
        yield Finding(check, severity, result.failure, hint=result.hint)


def _check_abi3(wheel: Wheel, result: ToolResult) -> Iterator[Finding]:
    tagged = any(tag.abi == "abi3" for tag in wheel.filename.tags)
    paths = {binary.file_name: binary.path for binary in wheel.binaries}
    hint = "compile with -DPy_LIMITED_API for the oldest Python, or tag the wheel for one Python"
    for remark in result.remarks:
        for name in remark.files:
            if tagged or ABI3_SUFFIX in name:
                yield error("abi3-violation", remark.text, paths.get(name, name), hint)


def _check_contents(remark: ToolRemark, expected: ExpectedWheel) -> Iterator[Finding]:
    # The folders of bundled libraries are made by auditwheel.
    files = [file for file in remark.files if not file.partition("/")[0].endswith(".libs")]
    if remark.files and len(files) < (2 if remark.code == "W009" else 1):
        return
    check = f"wheel-contents-{remark.code}"
    if remark.code in (*_ERRORS, *_WARNINGS, *_MENTIONS):
        severity = error_if(remark.code in _ERRORS and not expected.is_empty)
        text = listed([remark.text[:1].lower() + remark.text[1:], *files[1:]], 1)
        file = files[0] if files else None
        yield Finding(check, Severity.INFO if remark.code in _MENTIONS else severity, text, file)


def _check_auditwheel(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    report = wheel.auditwheel
    if report.skipped:
        yield Finding("auditwheel-policy", Severity.SKIPPED, report.skipped)
    elif report.failure:
        yield error("auditwheel-policy", f"auditwheel refuses the wheel: {report.failure}")
    elif report.overall:
        granted = parse_platform(report.symbols)
        claims = [tag for tag in oldest_tags(wheel.platforms) if tag.libc]
        # The tags of the other C library are for the check of libraries: auditwheel judges by one of them.
        for claim in [tag for tag in claims if tag.system == granted.system][:1] or claims[:1]:
            yield from _check_claim(claim, granted, report, expected)


def _check_claim(
    claim: PlatformTag, granted: PlatformTag, report: AuditwheelReport, expected: ExpectedWheel
) -> Iterator[Finding]:
    if report.broken:
        yield error("auditwheel-policy", f"needs {report.broken}, so {claim.text} is wrong")
    # musl has no symbol versions: auditwheel always names the newest musllinux.
    if granted.system != claim.system or (claim.system != "musllinux" and (granted.libc or ()) > (claim.libc or ())):
        yield error("auditwheel-policy", f"by its symbols it is {report.symbols}, tagged is {claim.text}")
    policy = _policy_name(claim, report)
    if symbols := report.blacklisted.get(policy, ()):
        yield error("auditwheel-policy", f"uses symbols that {claim.text} forbids: {', '.join(symbols)}")
    for name in report.libraries.get(policy, ()):
        if not matches([name], (*expected.excludes, *KNOWN_EXTERNAL)):
            # Without a recipe, nothing says which libraries another wheel provides.
            severity = error_if(expected.platform is not None or expected.plat is not None)
            yield Finding("external-library", severity, f"needs {name}, which {claim.text} does not promise")


def _policy_name(claim: PlatformTag, report: AuditwheelReport) -> str:
    """Return auditwheel's name for the newest policy that a system under ``claim`` fulfils."""
    if claim.system == "manylinux" and claim.libc is not None:
        return f"manylinux_{(release_text(policy_of(claim.libc)) or '').replace('.', '_')}_{claim.arch}"
    return next((tag for tag in report.libraries if parse_platform(tag).system == claim.system), "")
