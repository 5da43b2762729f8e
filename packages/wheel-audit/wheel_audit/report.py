"""Audit reports, and differences between two builds of a wheel, for terminals of any width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from wheel_audit.auditor import WheelReport
from wheel_audit.compare import Change
from wheel_audit.difference import Difference
from wheel_audit.fatbin import DeviceCode, sorted_archs
from wheel_audit.finding import Finding, Severity
from wheel_audit.tables import key_values, listed, plain_table
from wheel_audit.tags import release_text
from wheel_audit.text import printable

_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.INFO: "cyan",
    Severity.SKIPPED: "dim",
}
_MOST_ROWS = 20
_MOST_REASONS = 3
_LONGEST = 20_000
"""Limit of characters shown for one fact."""


def render(report: WheelReport) -> RenderableType:
    """Return the report: verdict, facts, binaries and findings."""
    parts: list[RenderableType] = [_verdict(report), _facts(report)]
    if report.objects:
        rows = [
            (item.path, item.machine, release_text(item.glibc), release_text(item.glibcxx), _kilobytes(item.size))
            for item in report.objects
        ]
        parts.append(_binaries(rows, "glibc", "GLIBCXX", "kB"))
    if others := [*_mach_objects(report), *_pe_images(report)]:
        parts.append(_binaries(others, "needs", "kB"))
    return Group(*parts, *map(_finding, report.findings))


def render_sizes(report: WheelReport) -> RenderableType:
    """Return where the bytes of a wheel are: each library, its device code for each architecture, and the rest."""
    table = plain_table(
        Column("file", overflow="fold"), "part", Column("unpacked", justify="right"), title=printable(report.path.name)
    )
    libraries = [(item.path, item.size, item.device_code) for item in report.objects]
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


def _facts(report: WheelReport) -> Table:
    python = listed(report.pythons) + (f" ({report.requires_python})" if report.requires_python else "")
    facts = {
        "size": f"{report.size / 1e6:,.2f} MB",
        "sha256": report.sha256,
        "python": python,
        "abi": listed(report.abis),
        "platform": listed(report.platforms),
        "auditwheel": _explained(report),
        "bundled": listed(f"{item.file_name} ({item.size / 1e6:.1f} MB)" for item in report.bundled),
        "external": listed(report.external),
        "device code": _device_code(report),
    }
    return key_values((name, Text(printable(fact[:_LONGEST]))) for name, fact in facts.items() if fact)


def _explained(report: WheelReport) -> str:
    """Return the tag, and what keeps the wheel from an older one: ``manylinux_2_34_x86_64 (because of …)``."""
    first, rest = report.platform_tag_reasons[:_MOST_REASONS], len(report.platform_tag_reasons) - _MOST_REASONS
    reasons = ", ".join(first) + (f" and {rest} more" if rest > 0 else "")
    return (report.platform_tag or "") + (f" (because of {reasons})" if reasons else "")


def _device_code(report: WheelReport) -> str:
    """Return all architectures of the wheel in one line: ``sm_80 sm_90 + PTX 8.5 for compute_90``."""
    images = [image for item in report.objects for image in item.device_code.images]
    if not images:
        return ""
    isas: dict[str, set[str]] = {}
    for image in images:
        isas.setdefault(image.ptx_isa, set()).add(image.arch)
    parts = [" ".join(sorted_archs(image.arch for image in images if image.kind != "ptx"))]
    parts += [f"PTX {isa} for {' '.join(sorted_archs(isas[isa]))}" for isa in sorted(isas, key=_isa_key) if isa]
    size = sum(image.size for image in images)
    return f"{' + '.join(part for part in parts if part)} ({size / 1e6:,.2f} MB)"


def _isa_key(isa: str) -> tuple[int, ...]:
    return tuple(int(part) for part in isa.split(".") if part)


def _mach_objects(report: WheelReport) -> Iterator[tuple[str, str, str, str]]:
    for item in report.mach_objects:
        systems = dict.fromkeys(f"macOS {release_text(part.floor)}" for part in item.slices if part.floor)
        yield item.path, " ".join(item.machines), ", ".join(systems), _kilobytes(item.size)


def _pe_images(report: WheelReport) -> Iterator[tuple[str, str, str, str]]:
    for item in report.images:
        yield item.path, item.machine, f"Windows {release_text(item.floor)}", _kilobytes(item.size)


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


def _finding(finding: Finding) -> Text:
    where = f"{printable(finding.file)}: " if finding.file else ""
    text = Text.assemble(
        "  ",
        (finding.severity.value, _STYLES[finding.severity]),
        f" [{finding.check}] {where}{printable(finding.message)}",
    )
    if finding.hint:
        text.append(f"\n    hint: {printable(finding.hint)}", "dim")
    return text


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
