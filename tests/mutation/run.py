"""Change projects at random; after each change, a wheel built with the caches must be the one of a clean build.

This runs in a builder image, as root: `tests/engine/test_mutations.py` starts it behind ``with-ccache``, with the programs,
the folders and the variables of a compile step. Each build calls the hook ``build_wheel`` of the project's build backend
in a process of its own, with fresh folders /src and /tmp. A clean build has empty caches, as with ``--no-cache``.

Usage: run.py --seed N --count N [--shape NAME]...

A walk of a shape changes one or two points at each step. The same seed and shape give the same walk, so a failure is
reproduced with the command that it prints.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import random
import shutil
import sys
import time
import traceback
import zipfile

import shapes

sys.path.append("/usr/local/bin")
import archive  # one of the programs of Bakery

SOURCE, OUTPUT, CACHE = "/src", "/tmp/out", "/var/cache/ccache"
WARM, COLD = "/var/cache/warm", "/var/cache/cold"
KEPT = ("ccache-links", "ccache.conf", "ccache-programs.txt")
"""In /tmp, what with-ccache made. The digests of the compilers' programs are kept, too: that saves most of the time."""
STATISTICS = "/tmp/ccache.log"
BACKENDS = {"setuptools": "setuptools.build_meta", "scikit": "scikit_build_core.build", "meson": "mesonpy"}
MODULES = "/var/cache/modules"
"""Names of the modules that the last build had. This process imports them for the next ones: that takes half of a build."""
STEPS = 25
"""Steps of a walk. Then the next shape has its turn, and each walk starts with empty caches."""


def emptied(folder: str, kept: tuple[str, ...] = ()) -> None:
    """Remove what is in a folder."""
    os.makedirs(folder, exist_ok=True)
    for entry in os.scandir(folder):
        if entry.name in kept:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.remove(entry.path)


def written(files: shapes.Files) -> list[str]:
    """Write files; return those of the system."""
    system = []
    for path, text in files.items():
        target = os.path.join(SOURCE, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if text.startswith("-> "):
            os.symlink(text[3:], target)
            continue
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)
        if path.startswith("/"):
            system.append(target)
    return system


def content(folder: str) -> dict[str, str]:
    """Return name -> digest and mode of each file in the wheels of a folder, as archive.py writes them for all wheels."""
    found = {}
    for name in sorted(os.listdir(folder)):
        archive.written(os.path.join(folder, name), "/tmp/new.whl")
        with zipfile.ZipFile("/tmp/new.whl") as wheel:
            for info in wheel.infolist():
                digest = hashlib.sha256(wheel.read(info)).hexdigest()
                found[f"{name}/{info.filename}"] = f"{info.external_attr >> 16:o} {digest}"
    return found


def build(shape: shapes.Shape, state: dict[str, str], cache: str) -> tuple[bool, dict[str, str], int, str]:
    """Build a wheel; return whether that worked, the wheel's content, hits of ccache, and the log."""
    emptied(SOURCE)
    emptied("/tmp", KEPT)
    os.makedirs(OUTPUT)
    os.makedirs(cache, exist_ok=True)
    os.remove(CACHE)
    os.symlink(cache, CACHE)
    system = written(shapes.files(shape, state))
    child = os.fork()
    if not child:
        status = 1
        try:
            log = os.open("/tmp/log", os.O_WRONLY | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.environ.update(shapes.environment(state))
            os.chdir(SOURCE)
            importlib.import_module(BACKENDS[shape.backend]).build_wheel(OUTPUT)
            status = 0
            with open(MODULES, "w", encoding="utf-8") as file:
                file.write("\n".join(sys.modules))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    for path in system:
        os.remove(path)
    with open("/tmp/log", encoding="utf-8", errors="replace") as file:
        text = file.read()
    hits = 0
    if os.path.exists(STATISTICS):
        with open(STATISTICS, encoding="utf-8") as file:
            hits = sum(line.strip() in ("direct_cache_hit", "preprocessed_cache_hit") for line in file)
    return status == 0, content(OUTPUT) if status == 0 else {}, hits, text


def begun(chance: random.Random) -> dict[str, str]:
    """Return a state to start with: about half of the points have another value than in `shapes.START`."""
    return {
        name: chance.choice(list(point.values)) if chance.random() < 0.5 else shapes.START[name]
        for name, point in shapes.POINTS.items()
    }


def import_modules() -> None:
    """Import what the last build imported."""
    if os.path.exists(MODULES):
        with open(MODULES, encoding="utf-8") as file:
            names = [name for name in file.read().splitlines() if name not in sys.modules]
        for name in names:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def changed(state: dict[str, str], chance: random.Random) -> dict[str, str]:
    """Return a state in which one or two points have another value.

    Every second time that is a point whose files another one names, if there is any: an option and the file that it names
    would rarely meet by chance.
    """
    read = {name for point, value in state.items() for name in shapes.POINTS[point].reads(value)}
    if read and chance.random() < 0.5:
        points = [chance.choice(sorted(read))]
    else:
        points = chance.sample(sorted(shapes.POINTS), chance.choice((1, 1, 1, 2)))
    others = {name: [value for value in shapes.POINTS[name].values if value != state[name]] for name in points}
    return {**state, **{name: chance.choice(values) for name, values in others.items()}}


class Tally:
    """What the walks found."""

    def __init__(self) -> None:
        self.mutations = self.hits = self.failed = 0
        self.differences: list[dict[str, object]] = []

    def walk(self, name: str, seed: int, steps: int) -> None:
        """Change a project of one shape again and again."""
        shape, chance = shapes.SHAPES[name], random.Random(f"{name} {seed}")
        emptied(WARM)
        state = begun(chance)
        build(shape, state, WARM)
        import_modules()
        for step in range(1, steps + 1):
            before, state = state, changed(state, chance)
            what = {point: [before[point], value] for point, value in state.items() if before[point] != value}
            done, cached, hits, log = build(shape, state, WARM)
            emptied(COLD)
            clean_done, clean, _, clean_log = build(shape, state, COLD)
            self.mutations += 1
            self.hits += hits
            self.failed += not clean_done
            if (done, cached) != (clean_done, clean):
                differ = sorted(path for path in {*cached, *clean} if cached.get(path) != clean.get(path))
                found = {"shape": name, "seed": seed, "step": step, "change": what, "files": differ, "state": state}
                found["again"] = f"run.py --seed {seed} --shape {name} --count {step}"
                self.differences.append(found)
                print(json.dumps(found), flush=True)
                if done != clean_done:
                    print(log[-1500:], "\n--- clean:\n", clean_log[-1500:], flush=True)
            elif not clean_done and os.environ.get("MUTATION_DEBUG"):
                print(name, what, clean_log[-1200:], flush=True)


def main() -> int:
    """Walk until so many changes were made; print a summary, and return 1 if there was a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--shape", action="append", choices=list(shapes.SHAPES))
    options = parser.parse_args()
    for backend in BACKENDS.values():
        importlib.import_module(backend)
    if os.path.isdir(CACHE) and not os.path.islink(CACHE):
        os.rmdir(CACHE)
    if not os.path.islink(CACHE):
        os.symlink(WARM, CACHE)
    names = options.shape or [name for name in shapes.SHAPES if "cuda" not in name]
    tally, began, seed = Tally(), time.monotonic(), options.seed
    while tally.mutations < options.count:
        for index, name in enumerate(names):
            steps = min(STEPS, (options.count - tally.mutations) // (len(names) - index))
            if steps:
                tally.walk(name, seed, steps)
                print(f"{name}, seed {seed}: {tally.mutations} of {options.count}", flush=True)
        seed += 1
    summary = {
        "mutations": tally.mutations,
        "differences": len(tally.differences),
        "failed builds": tally.failed,
        "hits": tally.hits,
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(summary), flush=True)
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
