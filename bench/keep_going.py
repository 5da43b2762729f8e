"""What failing cells cost the others: 40 cells of which 6 fail, beside the 34 good ones alone.

Builders are there before; every wheel is built anew. A good cell takes 3 seconds in its compile step, a bad one fails
at once. Both are baked by the same command, so the ratio is that of keeping going.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import BAKERY, ROOT, Row, table

from bakery.runs.run_folders import state_folder

sys.path += [str(ROOT / "tests" / "engine"), str(ROOT / "tests" / "helpers")]

from projects import flavours

BAR = 1.1
GOOD, BAD = 34, 6
BEHAVIOUR = "if flavour.startswith('bad'):\n    sys.exit('no such flavour')\ntime.sleep(3)"


def names(good: int, bad: int) -> list[str]:
    """Return names of cells, the bad ones among the good ones."""
    found = [f"good{number:02}" for number in range(good)]
    for number in range(bad):
        found.insert(number * 7, f"bad{number}")
    return found


def baked(folder: Path, cells: list[str], *words: str) -> tuple[float, int, dict[str, object]]:
    """Bake a new project of these cells; return seconds, exit code and the report."""
    flavours(folder, cells, BEHAVIOUR)
    began = time.perf_counter()
    done = subprocess.run(
        [*BAKERY, "wheel", "--progress", "quiet", *words],
        cwd=folder,
        env=os.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    taken = time.perf_counter() - began
    reports = list(state_folder(folder, os.environ).glob("runs/*/report.json"))
    if len(reports) != 1:
        sys.exit(f"no report\n{done.stderr[-2000:]}")
    return taken, done.returncode, json.loads(reports[0].read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--good", type=int, default=GOOD)
    parser.add_argument("--bad", type=int, default=BAD)
    options = parser.parse_args()
    alone = mixed = 0.0
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as place:
        baked(Path(place, "first"), ["warm"])
        for number in range(options.times):
            taken, code, _ = baked(Path(place, f"alone{number}"), names(options.good, 0))
            assert code == 0, code
            alone += taken
            folder = Path(place, f"mixed{number}")
            taken, code, report = baked(folder, names(options.good, options.bad))
            mixed += taken
            wheels = len(list((folder / "dist").glob("*.whl")))
            targets = report["targets"]
            assert isinstance(targets, list)
            failed = [target for target in targets if target["result"] == "failed" and Path(target["log"]).exists()]
    right = (code, wheels, len(failed)) == (11 if options.bad else 0, options.good, options.bad)
    told = f"{wheels} wheels, {len(failed)} reports, exit code {code}"
    rows = [
        Row(f"{options.good} cells", f"{alone / options.times:.1f} s"),
        Row(f"{options.good + options.bad} cells, {options.bad} of them fail", f"{mixed / options.times:.1f} s"),
        Row("ratio", f"{mixed / alone:.3f}", f"≤ {BAR:g}", mixed <= BAR * alone),
        Row("result", told, f"{options.good} wheels, {options.bad} reports, exit code 11", right),
    ]
    return table("Keep going", rows)


if __name__ == "__main__":
    sys.exit(main())
