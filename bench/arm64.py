"""What cross compiling saves over emulation: a wheel of the C++ example for the other architecture, both ways.

Nothing is cached, as on a fresh runner. The bar is on the whole command, with the installation of base packages and
tools; the steps that make the wheel, compile and repair, are told beside, as BuildKit took the time of them. The machine
must run programs of that architecture: `wheel-bakery engine emulate linux/arm64`.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import sys
import tempfile
from pathlib import Path

from timing import BAKERY, ROOT, Call, Row, seconds, table

from bakery.core.cell_ids import platform_of
from bakery.engine.qemu import emulated
from bakery.runs.run_folders import state_folder

PROJECT = ROOT / "examples" / "cpp"
BAR = 0.3
STEP = re.compile(r"^# \[(?:compile|repair) [^\n]+\] RUN [^\n]*\n(?:(?!^# \[).*\n)*?^# done in ([0-9.]+) s$", re.M)
"""A step's title in a log, what it printed, and how long it took."""

RECIPE = """\
name = "bench-arm64"
platforms = ["@platform@"]
[builder]
cross = @cross@
compiler-cache = false
[wheel.repair]
strip = true
"""


def project(folder: Path, target: str, *, cross: bool) -> Path:
    """Copy the example with a recipe."""
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(".bakery", "build", "*.egg-info"))
    text = RECIPE.replace("@platform@", target).replace("@cross@", str(cross).lower())
    (folder / "bakery.toml").write_text(text, encoding="utf-8")
    return folder


def taken(folder: Path) -> tuple[float, float]:
    """Return the seconds of a bake without any cache, and of its steps that make the wheel."""
    whole = seconds(Call([*BAKERY, "wheel", "--no-cache"], cwd=folder)) or 0.0
    (log,) = state_folder(folder, os.environ).glob("runs/*/logs/wheel-*.log")
    return whole, sum(float(found) for found in STEP.findall(log.read_text(encoding="utf-8")))


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    other = "linux/amd64" if platform_of(platform.machine()) == "linux/arm64" else "linux/arm64"
    if not emulated(other):
        print(f"this machine runs no programs of {other}: wheel-bakery engine emulate {other}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as place:
        ways = [project(Path(place, name), other, cross=name == "cross") for name in ("cross", "emulated")]
        (whole, steps), (whole_emulated, steps_emulated) = map(taken, ways)
    ratio = whole / whole_emulated
    rows = [
        Row("compile and repair, cross", f"{steps:.1f} s"),
        Row("compile and repair, emulated", f"{steps_emulated:.1f} s"),
        Row("ratio", f"{steps / steps_emulated:.2f}"),
        Row("whole command, cross", f"{whole:.1f} s"),
        Row("whole command, emulated", f"{whole_emulated:.1f} s"),
        Row("ratio", f"{ratio:.2f}", f"≤ {BAR:g}", ratio <= BAR),
    ]
    return table(f"The C++ example for {other}: nothing cached", rows)


if __name__ == "__main__":
    sys.exit(main())
