"""What a node costs that is killed while it bakes: 12 cells over three nodes, beside the same with all three alive.

Nodes are engines with data roots and networks of their own on this machine, reached over TCP with TLS. They share its
cores, so a cell mostly waits: what is measured is how the work is moved, not how fast nodes are.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from timing import ROOT, Row, table

sys.path += [str(ROOT / "tests" / "engine"), str(ROOT / "tests" / "helpers")]

from command import bakery, digests, finish, start
from farm import EngineNode, engine_nodes
from farm import table as tables
from projects import flavours

BAR = 1.6
CELLS = "abcdefghijkl"
SECONDS = 20


def project(folder: Path, cells: str, nodes: list[EngineNode], seconds: float) -> Path:
    """Write a project whose cells take ``seconds`` to compile."""
    flavours(folder, list(cells), f"if flavour:\n    time.sleep({seconds})")
    recipe = folder / "bakery.toml"
    recipe.write_text(recipe.read_text() + tables(nodes, slots=2))
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that a cell waits in its compile step")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bn") as place, engine_nodes(Path(place), ["one", "two", "three"]) as nodes:
        environment = {"BUILDX_CONFIG": f"{place}/buildx"}
        words = ("wheel", "--builder", "farm", "--progress", "quiet")
        bakery(project(Path(place, "warm"), "uvwxyz", nodes, 1), *words, environment=environment)
        whole = bakery(project(Path(place, "whole"), CELLS, nodes, options.seconds), *words, environment=environment)
        folder = project(Path(place, "killed"), CELLS, nodes, options.seconds)
        began = time.monotonic()
        child = start(folder, *words, environment=environment)
        # Half-way through the first round.
        time.sleep(options.seconds / 2 + (whole.seconds - 2 * options.seconds) / 2)
        nodes[1].kill()
        killed = finish(child, folder, began)
        moved = [item for item in killed.results().values() if item["left"]]
        wheels = digests(folder / "dist")
    ratio = killed.seconds / whole.seconds
    told = f"{len(wheels)} wheels, {len(moved)} cells moved, exit code {killed.code}"
    rows = [
        Row(f"{len(CELLS)} cells of {options.seconds:g} s, three nodes of 2 slots", f"{whole.seconds:.1f} s"),
        Row("one of them killed while it bakes", f"{killed.seconds:.1f} s"),
        Row("ratio", f"{ratio:.2f}", f"≤ {BAR:g}", ratio <= BAR),
        Row(
            "result",
            told,
            f"{len(CELLS)} wheels, some moved",
            (len(wheels), killed.code) == (len(CELLS), 0) and bool(moved),
        ),
    ]
    return table("Nodes", rows)


if __name__ == "__main__":
    sys.exit((os.geteuid() and "nodes of this machine's own need root") or main())
