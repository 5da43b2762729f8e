"""A torch extension in the shape of SageAttention, seven CUDA and four C++ files, through the compiler cache.

One recipe, one CUDA release after the other: everything is compiled; one file changes; then another machine, which is one
whose cache mounts are empty, gets the cache in a folder (``--compiler-cache``).
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from timing import ROOT, Row, table

sys.path += [str(ROOT / "tests" / "engine"), str(ROOT / "tests" / "helpers")]

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
    shutil.copy(ROOT / "bakery" / "recipe" / "shipped" / "sageattention.toml", folder / "bakery.toml")
    mean = (folder / "csrc" / "mean.cu").read_text()
    for name in COPIES:
        (folder / "csrc" / f"{name}.cu").write_text(re.sub(r"\bsubtract_(mean|kernel)\b", rf"{name}_\1", mean))
    setup = folder / "setup.py"
    more = "".join(f', "{name}.cu"' for name in COPIES)
    setup.write_text(setup.read_text().replace('"mean.cu"', f'"mean.cu"{more}'))
    assert len(list((folder / "csrc").glob("*.cu"))) == CUDA_FILES
    return folder


@dataclass(frozen=True)
class Machine:
    """A project on an engine whose cache mounts are those of ``key``: with another key they are empty."""

    folder: Path
    cuda: str
    key: str

    def run(self, *words: str) -> Done:
        variables = (f"CUDA_VERSION={self.cuda}", f"TORCH_VERSION={RELEASES[self.cuda]}", ARCHS)
        sets = [word for text in variables for word in ("--set", text)]
        environment = {"BAKERY_CACHE_KEY": self.key}
        return bakery(self.folder, *words, *sets, environment=environment, timeout_s=TIMEOUT_S)

    def wheel(self, *words: str) -> tuple[float, int, int]:
        """Bake the wheel; return the seconds of the run, the compilations, and how many of them the cache had."""
        done = self.run("wheel", *words)
        (result,) = done.results().values()
        count = result["compiler_cache"]
        assert isinstance(count, dict)
        return done.seconds, count["compilations"], count["hits"]


def measure(cuda: str, place: Path) -> list[Row]:
    """Return the figures of a CUDA release."""
    folder = project(place / "project")
    carried = ("--compiler-cache", str(place / "cache"))
    here, there = (Machine(folder, cuda, uuid.uuid4().hex) for _ in range(2))
    here.run("lock")  # It downloads and installs all that the build needs, and compiles nothing.
    (folder / "bakery.lock").unlink()
    cold, files, first = here.wheel()
    changed = folder / "csrc" / "scale.cu"
    changed.write_text(changed.read_text().replace("in[at]) - middle", "in[at]) + middle"))
    warm, _, one = here.wheel()
    here.run("wheel", *carried)  # Everything is cached; it saves the compiler cache.
    (folder / "fresh.txt").write_text("another source for BuildKit, and none for a compiler\n")
    moved, _, other = there.wheel(*carried)
    return [
        Row(f"CUDA {cuda}: everything compiled", f"{cold:.0f} s, {first} of {files} hits", "0", not first),
        Row(f"CUDA {cuda}: one file changed, hits", f"{one} of {files}", f"≥ {files - 1}", one >= files - 1),
        Row(f"CUDA {cuda}: one file changed, time", f"{warm / cold:.2f}", f"≤ {BAR}", warm <= BAR * cold),
        Row(f"CUDA {cuda}: second machine, hits", f"{other} of {files}", f"{files}", other == files),
        Row(f"CUDA {cuda}: second machine, time", f"{moved / cold:.2f}"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", nargs="*", choices=RELEASES, default=list(RELEASES))
    rows = []
    for cuda in parser.parse_args().cuda:
        with tempfile.TemporaryDirectory(prefix="bakery-bench-") as place:
            rows += measure(cuda, Path(place))
    return table(f"A torch extension of {CUDA_FILES} CUDA and 4 C++ files", rows)


if __name__ == "__main__":
    sys.exit(main())
