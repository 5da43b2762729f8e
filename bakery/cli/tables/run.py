"""What one run came to, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from bakery.build.report import RunReport, TargetReport
from bakery.core.durations import duration
from bakery.core.names import some_cells

_WARNINGS = 5

_STYLES = {"done": "green", "kept": "green", "failed": "bold red", "canceled": "yellow"}


def render(report: RunReport) -> Group:
    """Return what ends a run: the table, and what the audit warns of."""
    table = Table(
        title=report.recipe, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    again = any(target.tries > 1 for target in report.targets)
    spread = any(target.node for target in report.targets)
    if report.printed:
        table.caption = Text(
            f"warning: a step printed {', '.join(report.printed)}; hidden here, but not in the engine's own record "
            "(docker buildx history rm)",
            style="yellow",
        )
        table.caption_justify = "left"
    table.add_column("target", style="cyan", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("cached", justify="right", no_wrap=True)
    compiled = any(target.compiled for target in report.targets)
    if compiled:
        table.add_column("ccache", justify="right", no_wrap=True)
    if again:
        table.add_column("tries", justify="right", no_wrap=True)
    if spread:
        table.add_column("node", no_wrap=True)
    table.add_column("audited wheel", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    for target in report.targets:
        table.add_row(
            target.name,
            Text(target.result, style=_STYLES[target.result]),
            f"{target.seconds:.1f} s" if target.tries else "",
            f"{target.cached}/{target.steps}" if target.tries else "",
            *([_compiled(target)] if compiled else []),
            *([str(target.tries)] if again else []),
            *([target.node] if spread else []),
            Text("\n".join(item.path.name for item in target.wheels) or target.reason),
            "\n".join(_size(item.size) for item in target.wheels),
        )
    return Group(table, *(Text(f"warning: {text}", style="yellow") for text in warnings(report)))


def warnings(report: RunReport) -> tuple[str, ...]:
    """Return what the audit warns of in the wheels of a run, each once: wheels of one build mostly share theirs."""
    cells: dict[str, list[str]] = {}
    for target in report.targets:
        for text in dict.fromkeys(text for wheel in target.wheels for text in wheel.warnings):
            cells.setdefault(text, []).append(target.cell)
    said = [f"{text} ({some_cells(found)})" for text, found in cells.items()]
    more = len(said) - _WARNINGS
    return (*said[:_WARNINGS], *([f"and {more} more: wheel-bakery audit {report.output}/*.whl"] if more > 0 else []))


def markdown(reports: Sequence[RunReport]) -> str:
    """Return a summary in Markdown, as CI shows it beside a job."""
    parts = []
    for report in reports:
        cells = report.cells
        parts.append(f"### {report.recipe}: {sum(cells.values())} of {len(cells)} cells, {duration(report.seconds)}\n")
        parts.append("| target | result | time | cached | tries | |\n|---|---|--:|--:|--:|---|")
        for target in report.targets:
            told = [f"`{item.path.name}` {_size(item.size)}" for item in target.wheels]
            reason = [_cell_text(target.reason)] if target.reason else []
            compiled = [f"ccache: {_compiled(target)}"] if target.compiled else []
            log = [f"log: `{target.log}`"] if target.reason and target.log else []
            numbers = f"{duration(target.seconds)} | {target.cached}/{target.steps} | {target.tries}"
            last = "<br>".join([*told, *compiled, *reason, *log])
            parts.append(f"| {target.name} | {_MARKS[target.result]} {target.result} | {numbers} | {last} |")
        parts.append("")
    return "\n".join(parts)


_MARKS = {"done": "✅", "kept": "✅", "failed": "❌", "canceled": "➖"}


def _compiled(target: TargetReport) -> str:
    return f"{target.compiled[1]}/{target.compiled[0]}" if target.compiled else ""


def _cell_text(text: str) -> str:
    """Return text as a cell of a Markdown table shows it: what a build printed is no markup."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>()#+-.!|~&" else char for char in text)


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
