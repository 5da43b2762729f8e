"""Where the time of bakery itself goes when nothing is to be baked: imports, plan, files and journal, for 1, 8 and 64 cells.

Needs no engine: the journal and the wheels of a finished run are written here, and their content is never looked into.
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import json
import os
import pstats
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from timing import BAKERY, ROOT, Call, Row, medians, table

sys.path += [str(ROOT / "tests" / "engine"), str(ROOT / "tests" / "helpers")]

from noop import RECIPE
from projects import SOURCE, extension

from bakery.cli.recipes import resolved
from bakery.runs.journal import Record, RecordedWheel, Result, open_journal
from bakery.runs.records.buildkit import PROVENANCE, SBOM, record_path
from bakery.runs.run_folders import STATE_DIR_VARIABLE
from bakery.runs.run_options import CellSelection, Options
from bakery.runs.selection import Run, early_report, select, select_early

CELLS = (1, 8, 64)
OPTIONS = Options(("wheel",), selection=CellSelection.CHANGED)
SHOWN = 12


def finished(root: Path, state: Path, files: int) -> None:
    """Write what a run leaves that finished all cells, in a project with some more files."""
    for number in range(files):
        path = root / "src" / "more" / str(number % 100) / f"{number}.h"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"int number{number};\n" * 50)
    ((_, plan),) = resolved(None, None, root, dated=True)
    chosen = select(Run.of(root, plan, replace(OPTIONS, state=state), {}), plan, {})
    journal = open_journal(state, plan.recipe)
    for number, (cell, key) in enumerate(chosen.keys.items()):
        wheel = chosen.run.output / f"tiny-1.0+a{number}-cp313-cp313-linux_x86_64.whl"
        record_path(wheel, SBOM).parent.mkdir(parents=True, exist_ok=True)
        wheel.write_bytes(os.urandom(20_000))
        sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
        record_path(wheel, PROVENANCE).write_text(json.dumps({"subject": [{"digest": {"sha256": sha256}}]}))
        record_path(wheel, SBOM).write_text("{}")
        records = (hashlib.sha256(record_path(wheel, name).read_bytes()).hexdigest() for name in (PROVENANCE, SBOM))
        recorded = RecordedWheel(wheel.name, sha256, 20_000, *records)
        journal.write(Record(cell, key, Result.DONE, wheels=(recorded,), repository=""))


def profile(root: Path, environment: dict[str, str]) -> str:
    """Return the functions of bakery that take longest, with what they call, once everything is imported."""
    profiler = cProfile.Profile()
    profiler.enable()
    ((_, plan),) = resolved(None, None, root, dated=True)
    chosen = select_early(root, plan, OPTIONS, environment)
    report = early_report(chosen) if chosen else None
    profiler.disable()
    if report is None:
        sys.exit("the project is not up to date")
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    own = sorted(
        (
            (cumulative, f"{Path(file).parent.name}/{Path(file).name} {function}")
            for (file, _, function), (_, _, _, cumulative, _) in stats.items()
            if file.startswith(f"{ROOT}/bakery/")
        ),
        reverse=True,
    )
    return "\n".join(f"    {seconds * 1000:7.1f} ms  {name}" for seconds, name in own[:SHOWN])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=0, help="more files in the source, to hash")
    parser.add_argument("--cells", type=int, nargs="*", default=CELLS)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as place:
        (imports,) = medians(
            [Call([sys.executable, "-c", "import bakery.cli.app, bakery.cli.recipes, bakery.runs.selection"])]
        )
        rows.append(Row("imports", f"{imports:.3f} s"))
        for cells in options.cells:
            root, state = Path(place, f"project{cells}"), Path(place, f"state{cells}")
            state.mkdir(mode=0o700)
            axis = ", ".join(f'"a{number}"' for number in range(cells))
            extension(root, RECIPE.format(axis), SOURCE)
            finished(root, state, options.files)
            environment = {**os.environ, STATE_DIR_VARIABLE: str(state)}
            # The engine must not be asked: there is none.
            call = Call(
                [*BAKERY, "wheel"],
                root,
                {STATE_DIR_VARIABLE: str(state), "BAKERY_ENGINE_DIR": place, "DOCKER_HOST": "unix:///nowhere"},
            )
            (whole,) = medians([call])
            rows.append(Row(f"{cells} cells", f"{whole:.3f} s"))
            print(f"{cells} cells, without imports:\n{profile(root, environment)}")
    return table("Nothing changed, bakery alone (medians of 10)", rows)


if __name__ == "__main__":
    sys.exit(main())
