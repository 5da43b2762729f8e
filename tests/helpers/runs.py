"""Folders of runs as `bakery.runs.loop` writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from bakery.core.errors import BakeError
from bakery.runs.cell_profile import CellProfile, Command, StepTime
from bakery.runs.run_folders import state_folder
from bakery.runs.run_report import CellFailure, PublishedWheel, RunReport, TargetReport

DEVICE = {"sm_80": 3000, "compute_90": 500}
ZERO = 1_795_000_000.0
ABOUT = {"command": "wheel-bakery full", "commit": "0" * 40, "bakery": "0.1.0", "date": "2026-11-26 17:00:00 UTC"}


def runs_of(project: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of a project's runs."""
    return state_folder(project, environ) / "runs"


def make_run(
    root: Path,
    name: str,
    cells: Sequence[str],
    *,
    failed: Sequence[str] = (),
    seconds: float = 8,
    steps: int = 2,
    compiles: int = 2,
    text: str = "",
) -> Path:
    """Write a run of the recipe ``demo`` whose cells share their first step; ``text`` is in what steps wrote."""
    run = runs_of(root) / name
    (run / "logs").mkdir(parents=True)
    rows = []
    for number, cell in enumerate(cells):
        wheel = PublishedWheel(
            root / "dist" / f"demo-1-{number}.whl", "0" * 64, 2000 + number, (f"a warning {text}",), DEVICE
        )
        log = run / "logs" / f"wheel-{number}.log"
        log.write_text(f"# [compile 1/1] RUN make\n{text}\na.c:1:1: error: no\n")
        rows.append(
            TargetReport(
                f"wheel-{cell}",
                cell,
                "failed" if cell in failed else "done",
                seconds=seconds + number,
                steps=steps,
                cached=1,
                log=log,
                wheels=() if cell in failed else (wheel,),
                reason=f"make failed {text}" if cell in failed else "",
                compiled=(4, 1),
                memory=100 + number,
            )
        )
        _profile(run, cell, number, steps, compiles, text)
    failures = tuple(
        CellFailure(cell, BakeError(f"make failed {text}", details=["a.c:1:1: error: no"])) for cell in failed
    )
    document = RunReport(
        "demo", tuple(rows), root / "dist", run, seconds * 2, failures, started=ZERO, about=ABOUT
    ).to_json()
    for failure in document["failures"]:
        failure["log"] = str(run / "logs" / "wheel-0.log")
    (run / "report.json").write_text(json.dumps(document))
    os.utime(run, (int(name), int(name)))
    return run


def _profile(run: Path, cell: str, number: int, steps: int, compiles: int, text: str) -> None:
    start = ZERO + 2 + number / 2
    own = 6 / (steps - 1)
    profile = CellProfile(
        recipe="demo",
        cell=cell,
        cores=4,
        steps=(
            StepTime(title="[system 1/1] RUN apt", work="compilers and Python", start=ZERO, seconds=2, cached=False),
            *(
                StepTime(
                    title=f"[compile {index + 1}/{steps}] RUN make {text}",
                    work=f"compile {text}".strip(),
                    start=start + index * own,
                    seconds=own,
                    cached=False,
                )
                for index in range(steps - 1)
            ),
        ),
        commands=tuple(
            Command(
                kind="compile", start=start + index / 10, seconds=3 - index / 50, mb=120, name=f"{'abc'[index % 3]}.c"
            )
            for index in range(compiles)
        ),
    )
    (run / "profiles").mkdir(exist_ok=True)
    if "/" not in cell:
        (run / "profiles" / f"{cell}.json").write_text(profile.model_dump_json())
