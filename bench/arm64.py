"""What cross compiling saves over emulation: a wheel of the C++ example for the other architecture, both ways.

Each measured run compiles everything anew (the source differs, no ccache); builders and tools are there before, and
their making is told beside. The machine must run programs of that architecture: `bakery engine emulate linux/arm64`.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
import uuid
from pathlib import Path

from timing import BAKERY, ROOT, Call, Row, seconds, table

from bakery.drive.emulate import emulated
from bakery.names import platform_of

PROJECT = ROOT / "examples" / "cpp"
BAR = 0.3

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


def taken(folder: Path) -> float:
    """Return the seconds of a bake; nothing of it was compiled before."""
    source = folder / "src" / "core.cpp"
    source.write_text(f"{source.read_text(encoding='utf-8')}// {uuid.uuid4()}\n", encoding="utf-8")
    return seconds(Call([*BAKERY, "wheel"], cwd=folder)) or 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="measured runs of each way; the best counts")
    options = parser.parse_args()
    other = "linux/amd64" if platform_of(platform.machine()) == "linux/arm64" else "linux/arm64"
    if not emulated(other):
        print(f"this machine runs no programs of {other}: bakery engine emulate {other}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as place:
        ways = [project(Path(place, name), other, cross=name == "cross") for name in ("cross", "emulated")]
        first = [taken(folder) for folder in ways]
        cross, slow = (
            min(times) for times in zip(*([taken(f) for f in ways] for _ in range(options.times)), strict=True)
        )
    ratio = cross / slow
    rows = [
        Row("first run, cross compiled", f"{first[0]:.1f} s"),
        Row("first run, emulated", f"{first[1]:.1f} s"),
        Row("cross compiled", f"{cross:.1f} s"),
        Row("emulated", f"{slow:.1f} s"),
        Row("ratio", f"{ratio:.2f}", f"≤ {BAR:g}", ratio <= BAR),
    ]
    return table(f"The C++ example for {other}: compile, repair, audit", rows)


if __name__ == "__main__":
    sys.exit(main())
