"""How long `wheel-bakery plan` takes for a large matrix, beside `docker buildx bake --print` on its bake file.

``bake --print`` is quadratic in targets and may need many minutes; after ``--limit`` seconds it is ended,
and the ratio is then at least what is printed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from timing import BAKERY, Call, Row, medians, seconds, table

from bakery.engine.discover import find

SECONDS = 2.0
FASTER = 20.0
GROWTH = 12.0
TIMES = 3


def recipe(folder: Path, cells: int) -> Path:
    """Write a recipe of ``cells`` cells: 100 of one axis, the rest of another, two Pythons."""
    axes = {"alpha": 50, "beta": cells // 100}
    lines = [f"{name} = {[f'{name[0]}{index}' for index in range(count)]}" for name, count in axes.items()]
    place = folder / str(cells)
    place.mkdir()
    text = "\n".join(['name = "large"', "[matrix]", 'python = ["3.11", "3.13"]', *lines, ""])
    (place / "bakery.toml").write_text(text, encoding="utf-8")
    return place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=90.0, metavar="SECONDS", help="end bake --print after these")
    limit = parser.parse_args().limit
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as folder:
        small, large = (recipe(Path(folder), cells) for cells in (1_000, 10_000))
        plans = medians([Call([*BAKERY, "plan"], place) for place in (small, large)], TIMES)
        seconds(Call([*BAKERY, "generate"], large))
        bake = ["docker", "buildx", "bake", "-f", "bake/large.hcl", "--print", "wheel"]
        printed = seconds(Call(bake, large, find().environment), limit)
    took = f"{printed:.1f} s" if printed else f"> {limit:g} s"
    ratio = (printed or limit) / plans[1]
    growth = plans[1] / plans[0]
    rows = [
        Row("wheel-bakery plan, 1,000 cells", f"{plans[0]:.2f} s"),
        Row("wheel-bakery plan, 10,000 cells", f"{plans[1]:.2f} s", f"≤ {SECONDS:g} s", plans[1] <= SECONDS),
        Row("growth", f"{growth:.1f}×", f"≤ {GROWTH:g}×", growth <= GROWTH),
        Row("docker buildx bake --print, 10,000 cells", took),
        Row("ratio", f"{'' if printed else '≥ '}{ratio:.0f}×", f"≥ {FASTER:g}×", ratio >= FASTER),
    ]
    return table(f"Plan of a large matrix (median of {TIMES})", rows)


if __name__ == "__main__":
    sys.exit(main())
