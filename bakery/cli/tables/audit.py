"""One audit report for people: facts, shared objects and findings, on terminals of any width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bakery.audit.compare import Change
from bakery.audit.elf import SharedObject
from bakery.audit.fatbin import sorted_archs
from bakery.audit.finding import Finding, Severity
from bakery.audit.report import WheelReport
from bakery.audit.tags import release_text
from bakery.core.text import printable

_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.INFO: "cyan",
    Severity.SKIPPED: "dim",
}
_MOST_OBJECTS = 20
_MOST_LISTED = 100
_LONGEST = 20_000
"""Characters of a fact that are shown."""


def render(report: WheelReport) -> RenderableType:
    """Return the report as a rich renderable; names from the wheel are shown, never interpreted."""
    parts: list[RenderableType] = [_verdict(report), _facts(report)]
    if report.objects:
        parts.append(_objects(report.objects))
    if rows := [*_mach_rows(report), *_image_rows(report)]:
        parts.append(_others(rows))
    parts += [_finding(finding) for finding in report.findings]
    return Group(*parts)


def render_changes(changes: Iterable[Change]) -> RenderableType:
    """Return what changed since an older wheel as a rich renderable, one line for each change."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for change in changes:
        table.add_row(f"  {change.subject}", _change(change))
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
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    rows = {
        "size": f"{report.size / 1e6:,.2f} MB",
        "sha256": report.sha256,
        "python": _listed(report.pythons) + (f" ({report.requires_python})" if report.requires_python else ""),
        "abi": _listed(report.abis),
        "platform": _listed(report.platforms),
        "auditwheel": report.platform_tag or "",
        "bundled": _listed(f"{found.file_name} ({found.size / 1e6:.1f} MB)" for found in report.bundled),
        "external": _listed(report.external),
        "device code": _device_code(report),
    }
    for key, value in rows.items():
        if value:
            table.add_row(f"  {key}", Text(printable(value[:_LONGEST])))
    return table


def _device_code(report: WheelReport) -> str:
    """Return all architectures of the wheel in one line: ``sm_80 sm_90 + PTX 8.5 for compute_90``."""
    images = [image for found in report.objects for image in found.device_code.images]
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


def _objects(objects: tuple[SharedObject, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("  object", overflow="fold")
    table.add_column("machine", no_wrap=True)
    for column in ("glibc", "GLIBCXX", "kB"):
        table.add_column(column, justify="right", no_wrap=True)
    for found in objects[:_MOST_OBJECTS]:
        table.add_row(
            Text("  " + printable(found.path)),
            found.machine,
            release_text(found.glibc) or "-",
            release_text(found.glibcxx) or "-",
            f"{found.size / 1e3:,.0f}",
        )
    if len(objects) > _MOST_OBJECTS:
        table.add_row(f"  and {len(objects) - _MOST_OBJECTS} more", "", "", "", "")
    return table


def _mach_rows(report: WheelReport) -> Iterator[tuple[str, str, str, int]]:
    for found in report.mach_objects:
        floors = dict.fromkeys(f"macOS {release_text(part.floor)}" for part in found.slices if part.floor)
        yield found.path, " ".join(found.machines), ", ".join(floors), found.size


def _image_rows(report: WheelReport) -> Iterator[tuple[str, str, str, int]]:
    for found in report.images:
        yield found.path, found.machine, f"Windows {release_text(found.floor)}", found.size


def _others(rows: list[tuple[str, str, str, int]]) -> Table:
    """Return the table of what macOS and Windows load: path, machine, oldest system, size."""
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("  object", overflow="fold")
    table.add_column("machine", no_wrap=True)
    for column in ("needs", "kB"):
        table.add_column(column, justify="right", no_wrap=True)
    for path, machine, floor, size in rows[:_MOST_OBJECTS]:
        table.add_row(Text("  " + printable(path)), machine, floor or "-", f"{size / 1e3:,.0f}")
    if len(rows) > _MOST_OBJECTS:
        table.add_row(f"  and {len(rows) - _MOST_OBJECTS} more", "", "", "")
    return table


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


def _listed(texts: Iterable[str]) -> str:
    listed = list(texts)
    more = f" and {len(listed) - _MOST_LISTED} more" if len(listed) > _MOST_LISTED else ""
    return ", ".join(listed[:_MOST_LISTED]) + more
