"""The page of a run: one HTML file with its report, the times of its steps and compilers, and the logs of failures.

The page loads nothing: its policy allows its own script and style alone. What a project or its steps may have written
is in the page as JSON, and the script shows it as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections import deque
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bakery.core.durations import duration
from bakery.core.errors import OutputError, UsageError, reported
from bakery.core.inside import Inside
from bakery.core.text import count
from bakery.runs.cell_profile import CellProfile, Command, StepTime, read
from bakery.runs.journal import Result
from bakery.runs.kept_logs import Failure, Report, ReportedTarget, lines, of_step, read_report
from bakery.runs.run_folders import kept_runs
from bakery.toolchains.facts.archs import Arch, cover, parse
from wheel_audit.text import printable

NAME = "report.html"

_SAMPLES = 400
"""Points of the chart of running compilers."""

_SLOWEST = 10
"""Compiles that the page lists for each cell."""

_LOG_LINES = 200
_LOG_CHARACTERS = 20_000
_MAX_FAILURES = 40
_LONGEST_TITLE = 160

Document = dict[str, Any]


def write(run: Path) -> Path:
    """Write the page of a run into its folder, and return its path. Raises OutputError if it cannot."""
    report = read_report(run)
    if report is None:
        raise OutputError(
            f"{run} has no report.json that can be read", hint="choose another run with `wheel-bakery report RUN`"
        )
    with reported(f"cannot write {run / NAME}", hint="free some disk space"):
        Inside(run).write(NAME, html(data(run, report)).encode(errors="replace"))
    return run / NAME


def html(document: Document) -> str:
    """Return the page of a document, as `data` makes it."""
    script = files("bakery.runs").joinpath("page/page.js").read_text(encoding="utf-8")
    title = f"{document['recipe']}: {document['run']}"
    return single_page(title, f"{_header(document)}<main>{_plain(document)}</main>", document, script)


def single_page(title: str, body: str, document: Document, script: str) -> str:
    """Return a page that loads nothing, with ``body`` for readers without scripts, and the data of its script."""
    style = files("bakery.runs").joinpath("page/page.css").read_text(encoding="utf-8")
    # No end of the element, whatever the text has.
    text = json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="application/json" id="data">{text}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def _text(value: object) -> str:
    return escape(printable(str(value), "\n\t"))


def _header(document: Document) -> str:
    about = {"run": document["run"], **document["about"]}
    rows = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in about.items())
    heading = f"<h1>{_text(document['recipe'])}</h1><dl>{rows}</dl>"
    return f'<header>{heading}<nav aria-label="Sections"></nav></header>\n'


def _plain(document: Document) -> str:
    """Return the results for readers that run no script; the script replaces them."""
    cells = dict.fromkeys((target["cell"] for target in document["targets"]), True)
    for target in document["targets"]:
        cells[target["cell"]] &= not target.get("reason")
    wheels = document["wheels"]
    warned = [warning for wheel in wheels for warning in wheel.get("warnings", [])]
    numbers = (
        f"{sum(cells.values())} of {len(cells)} cells done in {duration(document['seconds'])}; "
        f"{count(len(wheels), 'wheel')} passed the audit, with {count(len(warned), 'warning')}."
    )
    warnings = "".join(f"<li>{_text(warning)}</li>" for warning in dict.fromkeys(warned))
    lines = "".join(
        "<tr>" + "".join(f"<td>{_text(row[key])}</td>" for key in ("name", "result", "about")) + "</tr>"
        for row in document["results"]
    )
    failures = "".join(
        f"<article><h3>{_text(item['message'])}</h3><pre>{_text(chr(10).join(item['details']))}</pre></article>"
        for item in document["failures"]
    )
    head = "<tr><th>Target</th><th>Result</th><th>Wheel or reason</th></tr>"
    return (
        f"<section><h2>Result</h2><p>{numbers}</p><ul>{warnings}</ul></section>"
        + (f"<section><h2>Failures</h2>{failures}</section>" if failures else "")
        + f"<section><h2>Targets</h2><table>{head}{lines}</table></section>"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def data(run: Path, report: Report) -> Document:
    """Return what the page shows: the report of a run, with its times, its logs and the run before it."""
    names = list(dict.fromkeys(target["cell"] for target in report["targets"]))
    profiles = [profile for name in names if (profile := read(run, name)) and profile.recipe == report["recipe"]]
    return {
        **report,
        "run": run.name,
        "about": report.get("about", {}),
        "failures": _failures(run, report["failures"], report["recipe"], report.get("reference")),
        "results": [
            {
                "name": row["name"],
                "result": row["result"],
                "about": ", ".join(_names(row)) or str(row.get("reason", "")),
            }
            for row in report["targets"]
        ],
        "wheels": _wheels(report["targets"]),
        "counts": _counts(profiles, report),
        "audit": f"wheel-bakery audit {shlex.quote(str(report.get('output', 'dist')))}/*.whl",
        "previous": _previous(run, report),
        "gpus": _gpus(report["targets"]),
        **_timeline(profiles, report["started"]),
    }


def _names(target: ReportedTarget) -> list[str]:
    return [Path(wheel["path"]).name for wheel in target["wheels"]]


def _wheels(targets: Sequence[ReportedTarget]) -> list[Document]:
    """Return the wheels, each once, with what the audit found and what their names promise."""
    rows: dict[str, Document] = {}
    for target in targets:
        for wheel in target["wheels"]:
            name = Path(wheel["path"]).name
            row = rows.setdefault(name, {**wheel, "name": name, "cells": [], "kept": False})
            row["cells"].append(target["cell"])
            row["kept"] = target["result"] == Result.KEPT
            row["platform"] = name.removesuffix(".whl").rpartition("-")[2]
    return list(rows.values())


def _counts(profiles: Sequence[CellProfile], report: Report) -> Document:
    """Return the steps and compilations of the run, those of a cell once: its wheel and its test share them."""
    every = [(profile.cell, step) for profile in profiles for step in profile.steps]
    ran = {(step.title, round(step.start, 3)) for _, step in every if _ran(step, report["started"])}
    cached = {(cell, step.title) for cell, step in every if not _ran(step, report["started"])}
    compiled: dict[str, tuple[int, int]] = {}
    for target in report["targets"]:
        if found := target.get("compiler_cache"):
            of = compiled.get(target["cell"], (0, 0))
            compiled[target["cell"]] = max(of, (found["compilations"], found["hits"]))
    return {
        "steps": len(ran) + len(cached),
        "cached": len(cached),
        "compilations": sum(count for count, _ in compiled.values()),
        "hits": sum(hits for _, hits in compiled.values()),
    }


def _failures(run: Path, failures: Sequence[Failure], recipe: str, reference: str | None) -> list[Document]:
    """Return the failures, cells that failed alike together, with the end of the first one's log, and what to type next."""
    groups: dict[str, list[Failure]] = {}
    for failure in failures:
        key = json.dumps([failure["message"], failure["details"], failure["hint"]])
        groups.setdefault(key, []).append(failure)
    rows: list[Document] = []
    for group in list(groups.values())[:_MAX_FAILURES]:
        first, log = group[0], Path(group[0]["log"]).name
        shown = {
            "cells": [item["cell"] for item in group],
            "lines": _end(run / "logs" / log, first["stage"], recipe) if log else [],
            "link": f"logs/{quote(log)}" if log else "",
            "commands": _commands(first, reference or recipe),
        }
        rows.append({**first, **shown})
    return rows


def _commands(failure: Failure, recipe: str) -> list[str]:
    words = [["logs", failure["cell"]], ["full", "--failed"]]
    if failure["stage"]:
        words.insert(1, ["shell", failure["cell"], "--at", failure["stage"]])
    return [shlex.join(["wheel-bakery", *some, "--recipe", recipe]) for some in words]


def _end(log: Path, stage: str, recipe: str) -> list[str]:
    """Return the last lines of the failed step; of the whole log, if it has none of the step."""
    try:
        last = deque(of_step(lines(log), stage, [recipe]), _LOG_LINES) if stage else None
        text = "\n".join(last or deque(lines(log), _LOG_LINES))[-_LOG_CHARACTERS:]
    except OutputError:
        return []
    return text.split("\n")


def _previous(run: Path, report: Report) -> Document | None:
    """Return what to compare with: the newest kept run of the recipe that baked before this one."""
    older = sorted((path for path in kept_runs(run.parents[1]) if path.name < run.name), reverse=True)
    for path in older:
        before = read_report(path)
        if before is None or before["recipe"] != report["recipe"]:
            continue
        if not any(target["tries"] for target in before["targets"]):
            continue
        rows = {
            target["name"]: {
                "result": target["result"],
                "seconds": target["seconds"],
                "tries": target["tries"],
                "size": sum(wheel["size"] for wheel in target["wheels"]),
            }
            for target in before["targets"]
        }
        return {"run": path.name, "seconds": before["seconds"], "targets": rows}
    return None


def _gpus(targets: Sequence[ReportedTarget]) -> Document | None:
    """Return how each GPU runs the wheels that have device code."""
    rows = []
    for wheel in [item for target in targets for item in target["wheels"] if item["device"]]:
        ranges = cover([arch for text in wheel["device"] for arch in _archs(text)])
        by = [item.by for item in ranges]
        rows.append({"wheel": Path(wheel["path"]).name, "device": wheel["device"], "by": by})
    names = [{"capability": item.gpu.capability, "names": list(item.gpu.names)} for item in cover([])]
    return {"names": names, "wheels": rows} if rows else None


def _archs(text: str) -> tuple[Arch, ...]:
    """Return an architecture that a wheel has code for; nothing for one that is not known."""
    try:
        return parse(text)
    except UsageError:
        return ()


def _timeline(profiles: Sequence[CellProfile], started: float) -> Document:
    """Return the steps and the slowest compiles of each cell, in seconds since the run started."""
    # BuildKit also tells of steps that ended before the run: what it kept in memory.
    ran = {profile.cell: [step for step in profile.steps if _ran(step, started)] for profile in profiles}
    every = [step for steps in ran.values() for step in steps]
    zero = started or min((step.start for step in every), default=0.0)
    end = max((step.start + step.seconds for step in every), default=zero)
    titles: dict[str, int] = {}
    owners: dict[tuple[str, float], int] = {}
    cells = []
    for number, profile in enumerate(profiles):
        steps = []
        for step in sorted(ran[profile.cell], key=lambda step: step.start):
            title = titles.setdefault((step.work or step.title)[:_LONGEST_TITLE], len(titles))
            # BuildKit runs a step once for all bakes that need it, and tells each of them the same times.
            owner = owners.setdefault((step.title, round(step.start, 3)), number)
            shared = owner if owner != number else -1
            first, last = max(0.0, step.start - zero), step.start + step.seconds - zero
            steps.append([title, round(first, 2), round(last - first, 2), shared])
        slowest = sorted(_compiles(profile), key=lambda command: -command.seconds)[:_SLOWEST]
        cells.append(
            {
                "name": profile.cell,
                "steps": steps,
                "cached": len(profile.steps) - len(steps),
                "slowest": [
                    [command.name, round(command.start - zero, 2), round(command.seconds, 2), command.mb]
                    for command in slowest
                ],
            }
        )
    return {
        "titles": list(titles),
        "cells": cells,
        "length": round(end - zero, 2),
        "running": {
            "cores": max((profile.cores for profile in profiles), default=0),
            "counts": _running([item for profile in profiles for item in _compiles(profile)], zero, end),
        },
    }


def _ran(step: StepTime, started: float) -> bool:
    return not step.cached and step.start + step.seconds >= started


def _compiles(profile: CellProfile) -> list[Command]:
    return [command for command in profile.commands if command.kind == "compile"]


def _running(commands: Sequence[Command], zero: float, end: float) -> list[int]:
    """Return the most compilers that ran at once in each part of the run; empty if none ran."""
    if not commands or end <= zero:
        return []
    most = [0] * _SAMPLES
    scale = _SAMPLES / (end - zero)
    running, last = 0, 0
    for moment, change in sorted([*((item.start, 1) for item in commands), *((item.end, -1) for item in commands)]):
        place = min(_SAMPLES - 1, max(0, int((moment - zero) * scale)))
        for index in range(last, place + 1):
            most[index] = max(most[index], running)
        running, last = running + change, place
        most[place] = max(most[place], running)
    return most
