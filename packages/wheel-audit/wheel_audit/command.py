"""The command ``wheel-audit``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from wheel_audit import __version__
from wheel_audit.auditor import WheelReport, audit_in_worker
from wheel_audit.compare import compare
from wheel_audit.expected_file import read_expected
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Severity
from wheel_audit.report import auditing, render, render_changes, render_sizes
from wheel_audit.terminal import SafeConsole, write, write_json
from wheel_audit.text import printable

FAILED, USAGE, UNREADABLE = 1, 2, 3
"""Exit codes: a wheel failed, the command line or a file that it names is wrong, a file cannot be read."""

_CODES = f"""exit codes: 0 all wheels passed, {FAILED} a wheel failed, {USAGE} the command line, the file of --expect or the older
wheel is wrong, {UNREADABLE} a file cannot be read"""


class BadBaselineError(ValueError):
    """The older wheel is none, so that there is nothing to compare with."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether all wheels passed, and the messages about files that cannot be read."""

    passed: bool
    unread: tuple[str, ...]


def audit_files(
    wheels: Sequence[Path],
    console: SafeConsole,
    *,
    expected: ExpectedWheel | None = None,
    baseline: Path | None = None,
    size: bool = False,
    verbose: bool = False,
    as_json: bool = False,
) -> Outcome:
    """Audit wheels and print their reports, as tables or as one JSON array; with ``baseline``, the changes since it.

    ``size`` adds the bytes of each library, ``verbose`` each binary and finding. Raises OSError if the baseline cannot be
    opened, and BadBaselineError if it is no wheel.
    """
    old = audit_in_worker(baseline) if baseline else None
    if old and not old.files:
        why = next((item.message for item in old.findings if item.severity is Severity.ERROR), "it has no files")
        raise BadBaselineError(f"{baseline} cannot be compared: {why}")
    reports: list[WheelReport] = []
    unread: list[str] = []
    rows: list[dict[str, object]] = []
    for path in wheels:
        try:
            # A large wheel takes seconds.
            with console.status(auditing(path)) if console.is_live else nullcontext():
                report = audit_in_worker(path, expected)
        except OSError as error:
            unread.append(reason(path, error))
            continue
        reports.append(report)
        since = compare(old, report) if old else ()
        if as_json:
            rows.append(report.to_json() | ({"changes": list(map(asdict, since))} if old else {}))
            continue
        if size:
            console.print(render_sizes(report))
        if old:
            console.print(f"since {printable(old.path.name)}:")
            console.print(render_changes(since))
        console.print(render(report, verbose=verbose))
    if as_json:
        write_json(console.file, json.dumps(rows, indent=2) + "\n")
    return Outcome(all(report.ok for report in reports), tuple(unread))


def reason(path: Path, error: OSError) -> str:
    """Return a message about a file that cannot be read."""
    return f"cannot read {path}: {error.strerror or error}"


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; ``words`` are those of the command line if None."""
    asked = _parser().parse_args(words)
    try:
        expected = read_expected(asked.expect) if asked.expect else None
        outcome = audit_files(
            asked.wheels,
            SafeConsole(width=None if sys.stdout.isatty() or os.environ.get("COLUMNS") else 140),
            expected=expected,
            baseline=asked.baseline,
            size=asked.size,
            verbose=asked.verbose,
            as_json=asked.json,
        )
    except ValueError as error:
        write(sys.stderr, f"{error}\n")
        return USAGE
    except OSError as error:
        write(sys.stderr, reason(Path(error.filename or asked.baseline or ""), error) + "\n")
        return UNREADABLE
    for text in outcome.unread:
        write(sys.stderr, f"{text}\n")
    return UNREADABLE if outcome.unread else 0 if outcome.passed else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "wheel-audit",
        description="Inspect wheels: tags, machine, oldest glibc, GPU code, bundled libraries, RECORD, size.",
        epilog=_CODES,
        allow_abbrev=False,
    )
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL", help="a wheel file")
    parser.add_argument("--expect", type=Path, metavar="FILE", help="a TOML file that says what each wheel must be")
    parser.add_argument("--baseline", type=Path, metavar="OLD", help="show the changes since this older wheel")
    parser.add_argument("--size", action="store_true", help="show the bytes of each library, and of its GPU code")
    parser.add_argument("-v", "--verbose", action="store_true", help="show each binary, and each finding of one kind")
    parser.add_argument("--json", action="store_true", help="print a machine-readable report")
    parser.add_argument("--version", action="version", version=__version__)
    return parser
