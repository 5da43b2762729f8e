"""A torch extension in the shape of SageAttention, seven CUDA and four C++ files, through the compiler cache.

One recipe, one CUDA release after the other: everything is compiled; one file changes; then another machine, which is one
whose cache mounts are empty, gets the cache in a folder (``--compiler-cache``).
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import uuid
from pathlib import Path

from timing import ROOT, Row, table

sys.path.append(str(ROOT / "tests" / "engine"))

from command import Done, bakery
from test_shaped_projects import checkout

RELEASES = {"12.4.1": "2.6.0", "13.0.3": "2.11.0", "13.5.0": "2.11.0"}
"""CUDA release → a torch for its major."""

ARCHS = "TORCH_CUDA_ARCH_LIST=8.0;9.0"
BAR = 0.3
TIMEOUT_S = 3600
CUDA_FILES = 7
COPIES = ("scale", "shift")
"""More CUDA files, as SageAttention has more than its small likeness."""


def project(folder: Path) -> Path:
    """Write the project; no object of it is in any cache."""
    checkout("sage", folder)
    mean = (folder / "csrc" / "mean.cu").read_text()
    for name in COPIES:
        (folder / "csrc" / f"{name}.cu").write_text(re.sub(r"\bsubtract_(mean|kernel)\b", rf"{name}_\1", mean))
    setup = folder / "setup.py"
    more = "".join(f', "{name}.cu"' for name in COPIES)
    setup.write_text(setup.read_text().replace('"mean.cu"', f'"mean.cu"{more}'))
    assert len(list((folder / "csrc").glob("*.cu"))) == CUDA_FILES
    return folder


def wheel(folder: Path, cuda: str, key: str) -> Done:
    """Bake the wheel for a CUDA release, with the cache mounts of ``key``."""
    words = ("--set", f"cuda={cuda}", "--set", f"torch={RELEASES[cuda]}", "--set", ARCHS)
    carried = ("--compiler-cache", str(folder.parent / f"cache-{cuda}"))
    environment = {"BAKERY_CACHE_KEY": key}
    return bakery(
        folder, "wheel", "-r", "sageattention", *words, *carried, environment=environment, timeout_s=TIMEOUT_S
    )


def compiled(done: Done) -> tuple[float, int, int]:
    """Return the seconds of the compile step, the compilations, and how many of them the cache had."""
    (result,) = done.results().values()
    count = result["compiler_cache"]
    assert isinstance(count, dict)
    (step,) = re.findall(r"(?s)^# \[[^\n]*compile[^\n]*\n.*?^# DONE ([0-9.]+)s", done.log(str(result["name"])), re.M)[
        -1:
    ]
    return float(step), count["compilations"], count["hits"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", nargs="*", choices=RELEASES, default=list(RELEASES))
    rows = []
    for cuda in parser.parse_args().cuda:
        with tempfile.TemporaryDirectory(prefix="bakery-bench-") as place:
            folder = project(Path(place, "project"))
            keys = [uuid.uuid4().hex for _ in range(2)]
            bakes = [wheel(folder, cuda, keys[0])]
            changed = folder / "csrc" / "scale.cu"
            changed.write_text(changed.read_text().replace("in[at]) - middle", "in[at]) + middle"))
            bakes.append(wheel(folder, cuda, keys[0]))
            (folder / "fresh.txt").write_text("another source for BuildKit, and none for a compiler\n")
            bakes.append(wheel(folder, cuda, keys[1]))
            times = [done.seconds for done in bakes]
            counts = [compiled(done) for done in bakes]
        (_, files, first), (_, _, one), (_, _, other) = counts
        ratio = times[1] / times[0]
        rows += [
            Row(f"CUDA {cuda}: cold", f"{times[0]:.0f} s, {first} of {files} hit", "0 hits", not first),
            Row(f"CUDA {cuda}: one file changed, hits", f"{one} of {files}", f"≥ {files - 1}", one >= files - 1),
            Row(f"CUDA {cuda}: one file changed, time / cold", f"{ratio:.2f}", f"≤ {BAR}", ratio <= BAR),
            Row(f"CUDA {cuda}: compile steps", ", ".join(f"{count[0]:.0f} s" for count in counts)),
            Row(f"CUDA {cuda}: second machine, hits", f"{other} of {files}", f"{files}", other == files),
        ]
    return table(f"A torch extension of {CUDA_FILES} CUDA and 4 C++ files", rows)


if __name__ == "__main__":
    sys.exit(main())
