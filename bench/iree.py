"""What bakery adds to IREE's compiler: many modules for several targets, beside the bare compiler in the same image.

Every module is new, so that nothing comes from a cache. The bare compiler runs in one container, one cell after the
other, each on an idle machine; the sum of these times divided by the cores is what no way of running it can beat by much.
The same batch a second time is what a person waits for when nothing changed. A batch of which some inputs are broken
must bring all the others.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from timing import BAKERY, Row, table

from bakery.engine.ca_bundle import find_ca_bundle
from bakery.engine.client import Engine
from bakery.engine.discover import find
from bakery.engine.session import EngineSession
from bakery.runs.buildx.board import Listener
from bakery_iree import facts
from bakery_iree.job.load import load
from bakery_iree.job.resolve import resolve
from bakery_iree.plan import JobPlan
from bakery_iree.tool_image import tool_image

BAR, AGAIN = 1.15, 0.05
MODULES, BROKEN = 50, 5
TARGETS = ("cpu:generic", "cpu:x86-64-v3", "cuda:sm_80", "vulkan:ampere")

LAYERS = 4
"""Dense layers of a module. A module of one is the least that anybody compiles, and shows what bakery costs at worst."""

SPOILED = (
    # Two that are refused before an engine is asked; then an unknown operation, a wrong type, another dialect.
    lambda text: text[: len(text) // 2],
    lambda text: text.replace("func.func", "\x00\x01"),
    lambda text: text.replace("stablehlo.tanh", "stablehlo.nothing"),
    lambda text: text.replace("%y0 = stablehlo.tanh %s0 : tensor<", "%y0 = stablehlo.tanh %s0 : tensor<1x"),
    lambda text: text.replace("stablehlo.add", "nobody.add"),
)
"""Ways in which an input is broken."""

BARE = """\
cd /tmp && tar -xf - || exit 1
while read -r name flags; do
    cp "$name" module.mlir
    begun=$(date +%s%N)
    eval "iree-compile module.mlir $flags -o module.vmfb" </dev/null >log 2>&1 || { cat log >&2; exit 1; }
    echo $(($(date +%s%N) - begun))
done <cells
"""
"""Compiles the cells of a list, and prints the nanoseconds of each."""


def network(rows: int, widths: Sequence[int]) -> str:
    """Return the MLIR of a network of dense layers, each with a bias and tanh; no two calls return the same."""
    arguments = [f"%x: tensor<{rows}x{widths[0]}xf32>"]
    lines = []
    value, before = "%x", f"tensor<{rows}x{widths[0]}xf32>"
    for number, (wide, next_wide) in enumerate(pairwise(widths)):
        weights, made = f"tensor<{wide}x{next_wide}xf32>", f"tensor<{rows}x{next_wide}xf32>"
        arguments += [f"%w{number}: {weights}", f"%b{number}: {made}"]
        lines += [
            f"%m{number} = stablehlo.dot_general {value}, %w{number}, contracting_dims = [1] x [0] : "
            f"({before}, {weights}) -> {made}",
            f"%s{number} = stablehlo.add %m{number}, %b{number} : {made}",
            f"%y{number} = stablehlo.tanh %s{number} : {made}",
        ]
        value, before = f"%y{number}", made
    body = "\n".join(f"    {line}" for line in [*lines, f"return {value} : {before}"])
    return (
        f"module @model {{\n  func.func @main({', '.join(arguments)}) -> {before} {{\n{body}\n  }}\n}}\n"
        f"// {uuid.uuid4()}\n"
    )


def batch(folder: Path, modules: int, broken: int = 0, layers: int = LAYERS) -> JobPlan:
    """Write a job of new modules, the broken ones among the good ones; return its plan."""
    folder.mkdir()
    spoiled = {number * modules // broken: SPOILED[number % len(SPOILED)] for number in range(broken)} if broken else {}
    for number in range(modules):
        widths = [64 + 4 * (number % 7), *(16 + 8 * ((number + layer) % 5) for layer in range(layers))]
        text = network(8 + number, widths)
        (folder / f"m{number}.mlir").write_text(spoiled[number](text) if number in spoiled else text)
    inputs = [{"input": f"m{number}.mlir"} for number in range(modules)]
    job = {"version": 1, "output": "out", "targets": TARGETS, "modules": inputs}
    (folder / "job.json").write_text(json.dumps(job))
    return resolve(load(folder / "job.json", "job.json"))


def compiled(folder: Path) -> tuple[float, int, Mapping[str, Sequence[Mapping[str, object]]]]:
    """Compile a job with bakery; return seconds, exit code and the report."""
    began = time.perf_counter()
    done = subprocess.run(
        [*BAKERY, "compile", "job.json", "--json", "--progress", "quiet"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    taken = time.perf_counter() - began
    if not done.stdout:
        sys.exit(f"no report\n{done.stderr[-2000:]}")
    return taken, done.returncode, json.loads(done.stdout)


def bare(plan: JobPlan, image: str, environment: Mapping[str, str]) -> list[float]:
    """Return the seconds that the bare compiler takes for each cell, one after the other."""
    files = {cell.source.path.name: cell.source.path.read_bytes() for cell in plan.cells}
    lines = [f"{cell.source.path.name} {' '.join(map(quoted, cell.flags))}\n" for cell in plan.cells]
    files["cells"] = "".join(lines).encode()
    sent = io.BytesIO()
    with tarfile.open(fileobj=sent, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    done = subprocess.run(
        ["docker", "run", "--rm", "--interactive", "--network=none", "--tmpfs=/tmp", image, "sh", "-c", BARE],
        env={**environment},
        input=sent.getvalue(),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"the bare compiler failed\n{done.stderr.decode()[-2000:]}")
    return [int(line) / 1e9 for line in done.stdout.split()]


def quoted(flag: str) -> str:
    return "'" + flag + "'"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", type=int, default=MODULES)
    parser.add_argument("--broken", type=int, default=BROKEN)
    parser.add_argument("--layers", type=int, default=LAYERS)
    options = parser.parse_args()
    environment = {**os.environ, **find(os.environ).environment}
    engine = EngineSession(environment, "", find_ca_bundle(None, os.environ), lambda text: print(text, file=sys.stderr))
    # The image is there before, as it is for all but the very first job; and the engine has looked through its files.
    image = tool_image(engine, Listener(), facts.iree_releases()[0].version)
    cores = Engine(environment).info().cpus
    with tempfile.TemporaryDirectory(prefix="bakery-bench-") as place:
        batch(Path(place, "one"), 1, layers=options.layers)
        assert compiled(Path(place, "one"))[1] == 0
        plan = batch(Path(place, "good"), options.modules, layers=options.layers)
        first, code, _ = compiled(Path(place, "good"))
        assert code == 0, code
        second, code, report = compiled(Path(place, "good"))
        assert code == 0, code
        kept = sum(item["result"] == "kept" for item in report["modules"])
        alone = bare(plan, image, environment)
        batch(Path(place, "mixed"), options.modules, options.broken, options.layers)
        mixed, code, report = compiled(Path(place, "mixed"))
        arrived = len(list(Path(place, "mixed", "out").glob("*.vmfb")))
    cells = len(plan.cells)
    best = sum(alone) / cores
    failed = {str(item["input"]) for item in report["modules"] if item["result"] == "failed"}
    clear = all(str(item["input"]) in str(item["error"]) for item in report["modules"] if item["error"])
    wanted = (options.modules - options.broken) * len(TARGETS)
    right = (code, arrived, len(failed), clear) == (11 if options.broken else 0, wanted, options.broken, True)
    told = f"{arrived} modules, {len(failed)} inputs failed, exit code {code}"
    rows = [
        Row(f"bare iree-compile of {cells} cells, one by one", f"{sum(alone):.1f} s"),
        Row("one of them, on average", f"{sum(alone) / cells:.2f} s"),
        Row(f"the same divided by {cores} cores", f"{best:.1f} s"),
        Row(f"wheel-bakery compile of {options.modules} modules × {len(TARGETS)} targets", f"{first:.1f} s"),
        Row("ratio", f"{first / best:.2f}", f"≤ {BAR:g}", first <= BAR * best),
        Row(f"the same again, {kept} of {cells} kept", f"{second:.2f} s"),
        Row("ratio", f"{second / first:.3f}", f"≤ {AGAIN:g}", second <= AGAIN * first),
        Row(f"a batch with {options.broken} broken inputs", f"{mixed:.1f} s"),
        Row("result", told, f"{wanted} modules, {options.broken} inputs failed, each named", right),
    ]
    return table("IREE modules", rows)


if __name__ == "__main__":
    sys.exit(main())
