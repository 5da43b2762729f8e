"""What an imported layer cache saves: a CI's second run on an empty machine, beside its first, for each backend.

The engine is one of this machine's own with a data root and a network of its own. It is emptied before each run: no
image and no layer is left. The first run of a backend builds all and writes the cache, the second one reads it, and
writes it again as a CI does.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from timing import ROOT, Row, table

sys.path += [str(ROOT / "tests" / "engine"), str(ROOT / "tests" / "helpers")]

from command import Done, bakery, digests, shell
from farm import EngineNode, engine_nodes, free_port
from ghacache import gha_cache
from projects import example

from bakery.engine import debian_rootfs
from bakery.engine.discover import find

BAR = 0.25
BACKENDS = ("registry", "local", "gha")

RECIPE = """\
name = "cpp"
[matrix]
python = ["3.11"]
[test]
imports = ["bakery_example_cpp"]
[cache]
compression = "zstd"
compression-level = 3
"""


def empty(node: EngineNode) -> None:
    """Leave no image and no layer in an engine."""
    shell(node.reaching(), "docker", "system", "prune", "--all", "--force")
    shell(node.reaching(), "docker", "buildx", "prune", "--all", "--force")


class Registry:
    """A registry of this machine's engine, on loopback."""

    def __init__(self) -> None:
        self.environment = {**os.environ, **find().environment}
        self.port = free_port()
        self.name = f"bakery-bench-{self.port}"

    def __enter__(self) -> Registry:
        folder = ROOT / "tests" / "engine"
        debian_rootfs.ensure_debian(self.environment, "bookworm", "amd64", "debian:bookworm-slim", print)
        build = ("docker", "build", "--tag", self.name, "-f", str(folder / "registry.Dockerfile"), str(folder))
        shell(self.environment, *build)
        listening = f"127.0.0.1:{self.port}:5000"
        shell(self.environment, "docker", "run", "--rm", "-d", "--name", self.name, "-p", listening, self.name)
        return self

    def __exit__(self, *_: object) -> None:
        shell(self.environment, "docker", "rm", "--force", self.name)
        shell(self.environment, "docker", "rmi", "--force", self.name)


def twice(folder: Path, node: EngineNode, cache: Mapping[str, str]) -> tuple[Done, Done]:
    """Return the first and the second run of a project with a cache, each on the emptied engine."""
    runs = []
    for _ in range(2):
        empty(node)
        shutil.rmtree(folder / "dist", ignore_errors=True)
        words = ("full", "--progress", "quiet")
        runs.append(bakery(folder, *words, environment={**node.reaching(), **cache}, timeout_s=1800))
    return runs[0], runs[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backends", nargs="*", help=f"of {', '.join(BACKENDS)}; all by default")
    options = parser.parse_args()
    if strange := set(options.backends) - set(BACKENDS):
        parser.error(f"no such backend: {', '.join(sorted(strange))}")
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="bc") as place,
        engine_nodes(Path(place), ["empty"]) as (node,),
        gha_cache("0.0.0.0") as gha,
        Registry() as registry,
        node.forwarded(registry.port),
    ):
        for kind in options.backends or BACKENDS:
            folder = example(Path(place, f"project-{kind}"), RECIPE)
            cache = {"BAKERY_CACHE": kind, "BAKERY_CACHE_REF": f"127.0.0.1:{registry.port}/{uuid.uuid4().hex}"}
            cache["BAKERY_CACHE_DIR"] = ".bakery/cache"
            cache |= gha.environment(node.gateway) if kind == "gha" else {}
            first, second = twice(folder, node, cache)
            ratio = second.seconds / first.seconds
            ran = len(second.ran())
            rows += [
                Row(f"{kind}: first run", f"{first.seconds:.1f} s"),
                Row(f"{kind}: second run", f"{second.seconds:.1f} s"),
                Row(f"{kind}: ratio", f"{ratio:.2f}", f"≤ {BAR:g}", ratio <= BAR),
                Row(
                    f"{kind}: steps that the second ran", f"{ran}", "0", ran == 0 and len(digests(folder / "dist")) == 1
                ),
            ]
    return table("A CI's second run from an empty engine, with the layer cache of the first", rows)


if __name__ == "__main__":
    sys.exit((os.geteuid() and "an engine of this machine's own needs root") or main())
