"""What one bake came to, for people and for machines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from bakery.names import some_cells
from bakery.plan import Json

VERSION = 2
"""Version of the JSON of a run."""

_WARNINGS = 5


@dataclass(frozen=True, slots=True)
class PublishedWheel:
    """A wheel in the output folder.

    Attributes:
        size: in bytes.
        warnings: what the audit would have a person look at.
    """

    path: Path
    sha256: str
    size: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetReport:
    """One target of a run.

    Attributes:
        result: ``done``, ``failed`` or ``canceled``.
        steps: steps of the target; ``cached`` of them were not run.
        log: what its steps printed, None when they printed nothing.
        wheels: what was published, one for each name that the recipe gives its wheels.
    """

    name: str
    cell: str
    result: str
    seconds: float
    steps: int
    cached: int
    log: Path | None
    wheels: tuple[PublishedWheel, ...]


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run of one recipe.

    Attributes:
        printed: secrets that steps printed; hidden here, but not in the engine's own record of the build.
    """

    recipe: str
    targets: tuple[TargetReport, ...]
    output: Path
    state: Path
    seconds: float
    printed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return the report for machines."""
        return {
            "version": VERSION,
            "recipe": self.recipe,
            "seconds": round(self.seconds, 3),
            "output": str(self.output),
            "printed_secrets": list(self.printed),
            "targets": [
                {
                    "name": target.name,
                    "cell": target.cell,
                    "result": target.result,
                    "seconds": round(target.seconds, 3),
                    "steps": target.steps,
                    "cached": target.cached,
                    "log": str(target.log) if target.log else None,
                    "wheels": [
                        {
                            "path": str(item.path),
                            "sha256": item.sha256,
                            "size": item.size,
                            "warnings": list(item.warnings),
                        }
                        for item in target.wheels
                    ],
                }
                for target in self.targets
            ],
        }


_STYLES = {"done": "green", "failed": "bold red", "canceled": "yellow"}


def render(report: RunReport) -> Group:
    """Return what ends a run: the table, and what the audit warns of."""
    table = Table(
        title=report.recipe, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
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
    table.add_column("audited wheel", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    for target in report.targets:
        table.add_row(
            target.name,
            Text(target.result, style=_STYLES[target.result]),
            f"{target.seconds:.1f} s",
            f"{target.cached}/{target.steps}",
            Text("\n".join(item.path.name for item in target.wheels)),
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
    return (*said[:_WARNINGS], *([f"and {more} more: bakery audit {report.output}/*.whl"] if more > 0 else []))


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
