"""Audit reports, and differences between two builds of a wheel, for terminals of any width."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from wheel_audit.auditor import WheelReport
from wheel_audit.byte_difference import Difference
from wheel_audit.compare import Change
from wheel_audit.fatbin import DeviceCode, sorted_archs
from wheel_audit.finding import Finding, Severity
from wheel_audit.tables import key_values, plain_table
from wheel_audit.tags import parse_release, release_text
from wheel_audit.text import listed, printable

_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.INFO: "cyan",
    Severity.SKIPPED: "dim",
}
_MOST_ROWS = 20
_MOST_LISTED = 100
_MOST_REASONS = 3
_MOST_NAMES = 8
_LONGEST = 20_000
"""Limit of characters shown for one fact."""
_LONGEST_PATH = 55
"""Characters of a path beside others."""


def render(report: WheelReport, *, verbose: bool = False) -> RenderableType:
    """Return the report: facts, findings and, as the last line, the verdict.

    Findings that say the same of several files are one paragraph. ``verbose`` shows each of them, and all binaries.
    """
    parts: list[RenderableType] = [Text(printable(report.path.name), "bold"), _facts(report, verbose=verbose)]
    if verbose and report.objects:
        rows = [
            (item.path, item.machine, release_text(item.glibc), release_text(item.glibcxx), _kilobytes(item.size))
            for item in report.objects
        ]
        parts.append(_binaries(rows, "glibc", "GLIBCXX", "kB"))
    if verbose and (others := list(_other_binaries(report))):
        parts.append(_binaries(others, "needs", "kB"))
    parts += (
        [_finding([finding]) for finding in report.findings] if verbose else map(_finding, _grouped(report.findings))
    )
    return Group(*parts, _verdict(report))


def auditing(path: Path) -> Text:
    """Return what is shown while a wheel is read."""
    return Text(f"auditing {printable(path.name)}")


def render_sizes(report: WheelReport) -> RenderableType:
    """Return where the bytes of a wheel are: each library, its device code for each architecture, and the rest."""
    table = plain_table(
        Column("file", overflow="fold"), "part", Column("unpacked", justify="right"), title=printable(report.path.name)
    )
    libraries = [(item.path, item.size, item.device_code) for item in report.device_objects]
    for path, size, code in sorted(libraries, key=lambda row: -row[1])[:_MOST_ROWS]:
        parts = device_bytes(code)
        table.add_row(Text(printable(path)), Text("all", "bold"), Text(f"{size:,}", "bold"))
        for part, number in parts.items():
            table.add_row("", part, f"{number:,}")
        if parts:
            table.add_row("", "host code and data", f"{size - sum(parts.values()):,}")
    whole = sum(size for _, size, _ in libraries)
    line = f"{len(libraries)} libraries, {whole / 1e6:,.2f} MB unpacked; the wheel has {report.size / 1e6:,.2f} MB"
    return Group(table, Text(line))


def device_bytes(code: DeviceCode) -> dict[str, int]:
    """Return architecture → the bytes of its code in the file; the last row is headers and padding of all of it."""
    sizes = {arch: sum(image.size for image in code.images if image.arch == arch) for arch in code.archs}
    rest = code.section_size - sum(sizes.values())
    return {**sizes, "headers of device code": rest} if rest > 0 else sizes


def render_changes(changes: Iterable[Change]) -> RenderableType:
    """Return what changed since an older wheel, one line for each change."""
    table = key_values((change.subject, _change(change)) for change in changes)
    return table if table.row_count else Text("  nothing changed", "dim")


def _change(change: Change) -> Text:
    text = Text(printable(f"{change.file}: " if change.file else ""))
    if change.old and change.new:
        text.append(printable(f"{change.old} -> {change.new}"))
        if change.bytes:
            text.append(f" ({change.bytes:+,} bytes)", "dim")
    elif change.new:
        text.append(printable(f"+ {change.new}"), "green")
    else:
        text.append(printable(f"- {change.old}"), "red")
    return text


def _verdict(report: WheelReport) -> Text:
    counts = [
        f"{count} {severity.value}{'s' if count > 1 and severity is not Severity.SKIPPED else ''}"
        for severity in (Severity.ERROR, Severity.WARNING, Severity.SKIPPED)
        if (count := sum(finding.severity is severity for finding in report.findings))
    ]
    mark = Text("ok    ", "bold green") if report.ok else Text("FAILED", "bold red")
    tail = f"  ({', '.join(counts)})" if counts else ""
    return Text.assemble(mark, "  ", (printable(report.path.name), "bold"), tail)


def _facts(report: WheelReport, *, verbose: bool) -> Table:
    tags = "-".join(".".join(names) for names in (report.pythons, report.abis, report.platforms) if names)
    facts = {
        "size": f"{report.size / 1e6:,.2f} MB",
        "sha256": report.sha256,
        "tags": tags + (f" (Python {report.requires_python})" if report.requires_python else ""),
        "auditwheel": _explained(report),
        "binaries": _summary(report),
        "bundled": _some((f"{item.file_name} ({item.size / 1e6:.1f} MB)" for item in report.bundled), verbose=verbose),
        "external": _some(report.external, verbose=verbose),
        "device code": _device_code(report),
    }
    return key_values((name, Text(printable(fact[:_LONGEST]))) for name, fact in facts.items() if fact)


def _some(names: Iterable[str], *, verbose: bool) -> str:
    return listed(names, _MOST_LISTED) if verbose else listed(names, _MOST_NAMES)


def _summary(report: WheelReport) -> str:
    """Return how many binaries there are, and the newest that they need: ``20 for x86_64, glibc 2.17, GLIBCXX 3.4.21``."""
    if not report.objects:
        others = [(machine, needs) for _, machine, needs, _ in _other_binaries(report)]
        if not others:
            return ""
        needs = ", ".join(sorted({text for _, text in others if text}))
        return f"{len(others)} for {listed(sorted({name for name, _ in others}), _MOST_LISTED)}, {needs}".rstrip(", ")
    parts = [f"{len(report.objects)} for {listed(sorted({item.machine for item in report.objects}), _MOST_LISTED)}"]
    for name, releases in (
        ("glibc", [item.glibc for item in report.objects if item.glibc]),
        ("GLIBCXX", [item.glibcxx for item in report.objects if item.glibcxx]),
    ):
        if releases:
            parts.append(f"{name} {release_text(max(releases))}")
    return ", ".join(parts)


def _explained(report: WheelReport) -> str:
    """Return the tag, and what keeps the wheel from an older one: ``manylinux_2_34_x86_64 (because of …)``."""
    reasons = listed(report.platform_tag_reasons, _MOST_REASONS)
    return (report.platform_tag or "") + (f" (because of {reasons})" if reasons else "")


def _device_code(report: WheelReport) -> str:
    """Return all architectures of the wheel in one line: ``sm_80 sm_90 + PTX 8.5 for compute_90``."""
    images = [image for item in report.device_objects for image in item.device_code.images]
    if not images:
        return ""
    isas: dict[str, set[str]] = {}
    for image in images:
        isas.setdefault(image.ptx_isa, set()).add(image.arch)
    parts = [" ".join(sorted_archs(image.arch for image in images if image.kind != "ptx"))]
    parts += [
        f"PTX {isa} for {' '.join(sorted_archs(isas[isa]))}" for isa in sorted(filter(None, isas), key=parse_release)
    ]
    size = sum(image.size for image in images)
    return f"{' + '.join(part for part in parts if part)} ({size / 1e6:,.2f} MB)"


def _other_binaries(report: WheelReport) -> Iterator[tuple[str, str, str, str]]:
    for item in report.mach_objects:
        systems = dict.fromkeys(f"macOS {release_text(part.floor)}" for part in item.slices if part.floor)
        yield item.path, " ".join(item.machines), ", ".join(systems), _kilobytes(item.size)
    for image in report.images:
        yield image.path, image.machine, f"Windows {release_text(image.floor)}", _kilobytes(image.size)


def _binaries(rows: Sequence[tuple[str, str, *tuple[str | None, ...]]], *numbers: str) -> Table:
    """Return a table with path, machine, and further right-aligned columns."""
    table = plain_table(
        Column("  object", overflow="fold"),
        Column("machine", no_wrap=True),
        *(Column(name, justify="right", no_wrap=True) for name in numbers),
    )
    for path, machine, *values in rows[:_MOST_ROWS]:
        table.add_row(Text("  " + printable(path)), machine, *(value or "-" for value in values))
    if len(rows) > _MOST_ROWS:
        table.add_row(f"  and {len(rows) - _MOST_ROWS} more")
    return table


def _kilobytes(size: int) -> str:
    return f"{size / 1e3:,.0f}"


def _grouped(findings: Iterable[Finding]) -> Iterator[Sequence[Finding]]:
    """Yield the findings of one id and severity together, in the order of the first of each."""
    groups: dict[tuple[str, Severity], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.check, finding.severity), []).append(finding)
    yield from groups.values()


def _finding(group: Sequence[Finding]) -> Text:
    """Return a paragraph for findings of one id: what most of them say, of which files, and what to do."""
    first = group[0]
    times = f" ×{len(group)}" if len(group) > 1 else ""
    text = Text.assemble("  ", (first.severity.value, _STYLES[first.severity]), f" [{first.check}]{times} ")
    if times:
        ((message, count),) = Counter(finding.message for finding in group).most_common(1)
        others = len(group) - count
        text.append(printable(message) + (f"; similar for {others} more" if others else ""))
        files = list(dict.fromkeys(finding.file for finding in group if finding.message == message and finding.file))
        more = f" and {len(files) - 1} more" if files[1:] else ""
        text.append(f"\n    in {_short(files[0])}{more}; -v lists all" if files else "")
    else:
        text.append((f"{printable(first.file)}: " if first.file else "") + printable(first.message))
    if hint := next((finding.hint for finding in group if finding.hint), ""):
        text.append(f"\n    hint: {printable(hint)}", "dim")
    return text


def _short(path: str) -> str:
    """Return a path that fits into a line of a terminal: the name of the file is what tells it."""
    return printable(path if len(path) <= _LONGEST_PATH else f"…/{path.rpartition('/')[2][-_LONGEST_PATH:]}")


def render_differences(
    name: str,
    differences: Sequence[Difference],
    materials: Sequence[str],
    taken: Sequence[str] = (),
    not_compared: Sequence[str] = (),
) -> Text:
    """Return one paragraph for each file that differs, then the causes and limits of the comparison.

    ``materials`` are inputs of the two builds that differ, ``taken`` are inputs that do not come from the recipe.
    """
    text = Text.assemble(
        (printable(name), "bold"), f": {len(differences)} differences" if differences else ": the same bytes"
    )
    for file, group in groupby(differences, key=lambda item: item.file):
        text.append(f"\n  {printable(file) or 'the archive'}", "cyan")
        for item in group:
            text.append(f"\n    {printable(item.part)}")
            text.append(f"  ({item.cause})" if item.cause else "", "yellow")
            for sign, lines, style in (("-", item.old, "red"), ("+", item.new, "green")):
                for line in lines:
                    text.append(f"\n      {sign} {printable(line)}", style)
    for title, items in (("built from different inputs", materials), ("not from the recipe", taken)):
        text.append(f"\n  {title}" if items else "", "cyan")
        for line in items:
            text.append(f"\n    {printable(line)}")
    text.append(f"\n  not compared: {'; '.join(map(printable, not_compared))}" if not_compared else "", "yellow")
    return text
