"""Four cells at once: how many compilers run, what memory they have, and what the cores do meanwhile.

Each cell compiles its files with as many jobs as there are cells. The compilers are counted by the log of their slots
and from outside, in /proc. In the second run the peaks of all files are known, and the compilers may use less memory
than all slots would.

The work is the processor time of all that the cells' build backends start. Wall time counts from the first compiler to
the last one. Other work on this machine makes it longer: what the slots were in use does not depend on that. All that the
cores did in that time, other work too, shows whether one was idle.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from timing import ROOT, Row, table

sys.path += [str(ROOT / "tests" / "engine"), str(ROOT / "tests" / "helpers")]

from command import bakery
from compilers import Compiled, Seen, compiled, most_at_once, running, slow_project, watched

BAR = 1.05
CELLS = 4


@dataclass(frozen=True)
class Ran:
    """A run: its compilers, their processor time in seconds, and what was seen of them from outside."""

    runs: list[Compiled]
    work: float
    seen: Seen

    @property
    def start(self) -> float:
        """The start of the first compiler, in seconds on the clock of the machine."""
        return min(run.start for run in self.runs)

    @property
    def end(self) -> float:
        """The end of the last compiler."""
        return max(run.end for run in self.runs)

    @property
    def wall(self) -> float:
        """Seconds from the first compiler to the last one."""
        return self.end - self.start


def built(project: Path, token: str) -> Ran:
    """Build all cells of a project."""
    with watched(token) as seen:
        done = bakery(project, "wheel")
    logs = [done.log(name) for name in done.results()]
    work = sum(float(seconds) for log in logs for seconds in re.findall(r"(?m)^cpu: (\S+)", log))
    return Ran([run for log in logs for run in compiled(log)], work, seen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=12, help="files of each cell")
    parser.add_argument("--rounds", type=int, default=1_000_000, help="size of a file; about 1.5 s and 200 MB")
    options = parser.parse_args()
    slots = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as place:
        token, other = (f"t{uuid.uuid4().hex}" for _ in range(2))
        project = slow_project(Path(place, "slow"), token, CELLS, options.files, options.rounds, CELLS)
        first = built(project, token)
        # Less than all slots need together.
        peak = max(run.mb for run in first.runs)
        limit = round(peak * (slots - 0.5))
        recipe, setup = project / "bakery.toml", project / "setup.py"
        recipe.write_text(
            recipe.read_text().replace("environment = {", f'environment = {{ BAKERY_SLOT_MEMORY = "{limit}",')
        )
        setup.write_text(setup.read_text().replace(token, other))
        second = built(project, other)
    together = max(sum(one.mb for one in running(second.runs, run.start)) for run in second.runs)
    used = sum(run.end - run.start for run in first.runs) / slots
    ratio = first.wall * slots / first.work
    busy = first.seen.worked(first.start, first.end) / slots
    at_once, outside = most_at_once(first.runs), first.seen
    rows = [
        Row("compilers", f"{len(first.runs)}, {first.work:.1f} s of processor time, {first.wall:.1f} s"),
        Row("at once, by their slots", f"{at_once}", f"≤ {slots}", at_once <= slots),
        Row("at once, from outside", f"{outside.most} in {outside.looks} looks", f"≤ {slots}", outside.most <= slots),
        Row("wall time / slots in use", f"{first.wall / used:.3f}", f"≤ {BAR:g}", first.wall <= BAR * used),
        Row("wall time × cores / work", f"{ratio:.3f}", f"≤ {BAR:g}", ratio <= BAR),
        Row("wall time / cores in use", f"{first.wall / busy:.3f}"),
        Row("memory at once, from outside", f"{outside.mb} MB"),
        Row("with less memory: from outside", f"{second.seen.mb} MB", f"≤ {limit} MB", second.seen.mb <= limit),
        Row("with less memory: by their peaks", f"{together} MB", f"≤ {limit} MB", together <= limit),
    ]
    return table("Four cells at once", rows)


if __name__ == "__main__":
    sys.exit(main())
