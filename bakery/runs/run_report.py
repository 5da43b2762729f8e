"""The report of a run: one row for each target, and its JSON. Little is imported."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bakery import __version__
from bakery.core.addresses import hidden
from bakery.core.errors import BakeryError, reported
from bakery.core.git_command import git
from bakery.core.inside import Inside
from bakery.core.target_kinds import Kind
from bakery.engine.host import memory
from bakery.plan.cells import Target
from bakery.plan.values import Json
from bakery.runs.journal import Record, Result

VERSION = 3
"""Version of the JSON of a run."""

_PROGRAMS = ("wheel-bakery", "__main__.py")


@dataclass(frozen=True, slots=True)
class PublishedWheel:
    """A wheel in the output folder; ``size`` in bytes, ``warnings`` of the audit; ``device``: architecture → bytes of its code."""

    path: Path
    sha256: str
    size: int
    warnings: tuple[str, ...] = ()
    device: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TargetReport:
    """One target of a run.

    Attributes:
        result: ``done``, ``failed``, ``canceled``, or ``kept`` if an earlier run finished it.
        reason: why it is not done, in one line; else empty.
        cached: the number of its steps that were cached.
        wheels: one for each name in the recipe.
        node: the node of its last try; empty for the engine.
        left: nodes that failed while they baked it.
        cache: errors of its layer cache, which fail no build.
        memory: MB that its cell needed at most; 0 if unknown.
        compiled: compilations with a compiler cache, and hits of these; None if nothing was compiled.
    """

    name: str
    cell: str
    result: str
    seconds: float = 0.0
    steps: int = 0
    cached: int = 0
    log: Path | None = None
    wheels: tuple[PublishedWheel, ...] = ()
    tries: int = 1
    reason: str = ""
    node: str = ""
    left: tuple[str, ...] = ()
    cache: tuple[str, ...] = ()
    compiled: tuple[int, int] | None = None
    memory: int = 0


@dataclass(frozen=True, slots=True)
class CellFailure:
    """A cell that failed, and why; ``skipped``: cells that need the same failed step, and were not built to the end."""

    cell: str
    error: BakeryError
    skipped: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """All cells that it stopped."""
        return (self.cell, *self.skipped)


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run of one recipe; ``stopped``: what ended it early: a signal's name, ``timeout``, or nothing.

    ``printed``: secrets that steps printed; they are hidden here, but not in the engine's own records. ``warnings``: those
    about several wheels together. ``started``: when the first cell could start, in seconds since
    1970. ``replaced``: wheel that had another content in the output folder → what changed since; empty if unknown.
    ``about``: what ran, where and when, for people (`about`). ``reference``: what ``--recipe`` takes (`Plan.reference`).
    """

    recipe: str
    targets: tuple[TargetReport, ...]
    output: Path
    state: Path
    seconds: float
    failures: tuple[CellFailure, ...] = ()
    stopped: str = ""
    printed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    started: float = 0.0
    replaced: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""

    @property
    def cells(self) -> dict[str, bool]:
        """Cell → whether all of its targets are done, in the order of the plan."""
        done: dict[str, bool] = {}
        for target in self.targets:
            done[target.cell] = done.get(target.cell, True) and not target.reason
        return done

    @property
    def wheels(self) -> tuple[PublishedWheel, ...]:
        """The wheels in the output folder, each once: those of this run, and those that were up to date."""
        return tuple({item.path: item for target in self.targets for item in target.wheels}.values())

    @property
    def is_kept(self) -> bool:
        """Whether nothing was baked, because everything is up to date."""
        return bool(self.targets) and all(target.result == Result.KEPT for target in self.targets)

    @property
    def succeeded(self) -> str:
        """``all`` cells, ``some``, or ``none``."""
        done = self.cells.values()
        return "all" if all(done) else "some" if any(done) else "none"

    @property
    def shared(self) -> dict[str, tuple[str, ...]]:
        """Name of a wheel → the cells that built the same bytes of it, if there are several."""
        cells: dict[str, list[str]] = {}
        for target in self.targets:
            for wheel in target.wheels:
                cells.setdefault(wheel.path.name, []).append(target.cell)
        return {
            name: tuple(sorted(built, key=lambda cell: (len(cell), cell))) for name, built in cells.items() if built[1:]
        }

    def to_json(self) -> dict[str, Json]:
        """Return the report as JSON."""
        if self.failures:
            # Slow to import, and needed after failures only.
            from bakery.runs.buildx.failures import error_json
        return {
            "version": VERSION,
            "recipe": self.recipe,
            "reference": self.reference or self.recipe,
            "about": dict(self.about),
            "succeeded": self.succeeded,
            "stopped": self.stopped,
            "started": round(self.started, 3),
            "seconds": round(self.seconds, 3),
            "output": str(self.output),
            "printed_secrets": list(self.printed),
            "warnings": list(self.warnings),
            "replaced": dict(self.replaced),
            "failures": [{"cell": failure.cell, **error_json(failure.error)} for failure in self.failures],
            "targets": [_row(target) for target in self.targets],
        }

    def write(self) -> None:
        """Write ``report.json`` in the folder of the run. Raises OutputError."""
        path = self.state / "report.json"
        with reported(f"cannot write {path}"):
            Inside(self.state).write(path.name, json.dumps(self.to_json(), indent=1).encode())


def about(root: Path) -> dict[str, str]:
    """Return what a reader of a report asks first: the command, the commit, the version, the machine and the time."""
    program = Path(sys.argv[0]).name
    commit = (git(root, "rev-parse", "--verify", "--quiet", "HEAD") or "").strip()
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    found = {
        "command": shlex.join(["wheel-bakery", *map(hidden, sys.argv[1:])]) if program in _PROGRAMS else "",
        "commit": commit,
        "bakery": __version__,
        "machine": system + (f", {size // 10**9} GB of memory" if (size := memory()) else ""),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
    }
    return {name: text for name, text in found.items() if text}


def _row(target: TargetReport) -> Json:
    row = {name: value for name, value in asdict(target).items() if name not in ("cache", "compiled")}
    compiled = target.compiled and {"compilations": target.compiled[0], "hits": target.compiled[1]}
    return {
        **row,
        "seconds": round(target.seconds, 3),
        "left": list(target.left),
        "log": str(target.log) if target.log else None,
        "wheels": [
            {**asdict(item), "path": str(item.path), "warnings": list(item.warnings), "device": dict(item.device)}
            for item in target.wheels
        ],
        "cache_troubles": list(target.cache),
        "compiler_cache": compiled,
    }


def finished_target(target: Target, record: Record, output: Path) -> TargetReport:
    """Return the row of a target that an earlier run finished."""
    wheels = record.wheels if target.kind is Kind.WHEEL else ()
    return TargetReport(
        name=target.name,
        cell=target.cell.id,
        result=Result.KEPT.value,
        wheels=tuple(PublishedWheel(output / item.name, item.sha256, item.size) for item in wheels),
        tries=0,
    )
