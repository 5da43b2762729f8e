"""Results of runs: for people, and in Markdown for CI."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Group
from rich.table import Column
from rich.text import Text

from bakery.core.cell_ids import some_cells
from bakery.core.durations import duration
from bakery.core.text import count, size_text
from bakery.runs.audited import NOTE
from bakery.runs.run_report import PublishedWheel, RunReport, TargetReport
from wheel_audit.tables import plain_table
from wheel_audit.text import printable

_MOST_WARNINGS = 5

_STYLES = {"done": "green", "kept": "green", "failed": "bold red", "canceled": "yellow"}


def render(report: RunReport) -> Group:
    """Return the summary of a run: a table of its targets, and the warnings."""
    columns = [Column("target", style="cyan", no_wrap=True), Column("", no_wrap=True)]
    columns += [Column(name, justify="right", no_wrap=True) for name in ("time", "cached")]
    optional = {
        "ccache": (any(target.compiled for target in report.targets), _ccache),
        "tries": (any(target.tries > 1 for target in report.targets), lambda target: str(target.tries)),
        "node": (any(target.node for target in report.targets), lambda target: target.node),
    }
    shown = {name: cell for name, (is_shown, cell) in optional.items() if is_shown}
    columns += [Column(name, justify="left" if name == "node" else "right", no_wrap=True) for name in shown]
    columns += [Column("audited wheel", overflow="fold"), Column("size", justify="right", no_wrap=True)]
    table = plain_table(*columns, title=report.recipe)
    for target in report.targets:
        table.add_row(
            target.name,
            Text(target.result, style=_STYLES[target.result]),
            f"{target.seconds:.1f} s" if target.tries else "",
            f"{target.cached}/{target.steps}" if target.tries else "",
            *(cell(target) for cell in shown.values()),
            Text("\n".join(item.path.name for item in target.wheels) or target.reason),
            "\n".join(size_text(item.size) for item in target.wheels),
        )
    lines = [text if text.startswith(NOTE) else f"warning: {text}" for text in warnings(report)]
    if report.printed:
        lines.insert(
            0,
            f"warning: a step printed secrets: {', '.join(report.printed)}. They are hidden here, but not in the engine's "
            "build history (delete it with `docker buildx history rm`).",
        )
    return Group(
        table, *map(Text, (*sharing(report), *replaced(report))), *(Text(line, style="yellow") for line in lines)
    )


def sharing(report: RunReport) -> tuple[str, ...]:
    """Return a line for each wheel that several cells built, with the same bytes."""
    return tuple(f"one wheel for {', '.join(cells)}: {name}" for name, cells in report.shared.items())


def replaced(report: RunReport) -> tuple[str, ...]:
    """Return a line for the wheels that replaced others in the output folder for the same reason."""
    wheels: dict[str, list[str]] = {}
    for name, reason in report.replaced.items():
        wheels.setdefault(f" ({reason})" if reason else "", []).append(name)
    folder = report.output.name
    return tuple(
        f"replaced {len(names)} wheels in {folder}{reason}" if names[1:] else f"replaced {folder}/{names[0]}{reason}"
        for reason, names in wheels.items()
    )


def warnings(report: RunReport) -> tuple[str, ...]:
    """Return the warnings about all wheels, and those of the audit with their cells, each warning once."""
    cells: dict[str, list[str]] = {}
    for target in report.targets:
        for text in dict.fromkeys(text for wheel in target.wheels for text in wheel.warnings):
            cells.setdefault(text, []).append(target.cell)
    built = sum(bool(target.wheels) for target in report.targets)
    # A pattern that some cells need is no news in the others.
    told = {text: ids for text, ids in cells.items() if not text.startswith(NOTE) or len(ids) == built}
    lines = [f"{text} ({some_cells(ids)})" for text, ids in told.items()]
    more = len(lines) - _MOST_WARNINGS
    rest = [f"and {more} more: wheel-bakery audit {shlex.quote(str(report.output))}/*.whl"] if more > 0 else []
    return (*report.warnings, *lines[:_MOST_WARNINGS], *rest)


def markdown(reports: Sequence[RunReport]) -> str:
    """Return a summary in Markdown, which CI shows with a job."""
    parts = []
    for report in reports:
        cells = report.cells
        parts.append(f"### {report.recipe}: {sum(cells.values())} of {len(cells)} cells, {duration(report.seconds)}\n")
        about = [f"{name} {_code(text)}" for name, text in report.about.items()]
        parts += [f"{', '.join(about)}\n"] if about else []
        parts.append("| target | result | time | cached | tries | |\n|---|---|--:|--:|--:|---|")
        for target in report.targets:
            details = [f"{_code(item.path.name)} {size_text(item.size)}, {_audit(item)}" for item in target.wheels]
            details += [f"ccache: {_ccache(target)}"] if target.compiled else []
            details += [_escaped(target.reason)] if target.reason else []
            details += [f"log: {_code(str(target.log))}"] if target.reason and target.log else []
            numbers = f"{duration(target.seconds)} | {target.cached}/{target.steps} | {target.tries}"
            result = f"{_MARKS[target.result]} {target.result}"
            parts.append(f"| {target.name} | {result} | {numbers} | {'<br>'.join(details)} |")
        told = warnings(report)
        parts += ["", *(f"- ⚠️ {_escaped(text)}" for text in told)] if told else []
        parts.append("")
    return "\n".join(parts)


_MARKS = {"done": "✅", "kept": "✅", "failed": "❌", "canceled": "➖"}


def _audit(wheel: PublishedWheel) -> str:
    """Return what the audit said of a wheel; no other is published."""
    return f"audit: {count(len(wheel.warnings), 'warning')}" if wheel.warnings else "audit: passed"


def _ccache(target: TargetReport) -> str:
    """Return hits and all compiles, such as ``40/42``."""
    return f"{target.compiled[1]}/{target.compiled[0]}" if target.compiled else ""


def _code(text: str) -> str:
    """Return a name as code in a Markdown table."""
    return "`" + printable(text).replace("`", "'").replace("|", "\\|") + "`"


def _escaped(text: str) -> str:
    """Return text, which a build may have printed, for a Markdown table: without markup."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>()#+-.!|~&:@=$^\"'" else char for char in printable(text))
