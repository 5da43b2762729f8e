"""A project whose cells compile for a while, and a look from outside at the compilers that run."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from projects import SOURCE, extension

RECIPE = """\
name = "tiny"
[matrix]
python = ["3.11"]
flavour = [@]
[builder]
environment = { FLAVOUR = "${FLAVOUR}", BAKERY_SLOT_LOG = "/tmp/slots.log" }
[wheel]
naming = { local = "${FLAVOUR}" }
"""

SLOW = """\
constexpr unsigned mixed(unsigned count) {
    unsigned value = 1;
    for (unsigned index = 0; index < count; ++index) value = value * 1664525u + index;
    return value;
}
"""
"""The compiler runs this function: 300,000 rounds take it about 0.2 s and 100 MB."""

SETUP = """\
import atexit, concurrent.futures, os, resource, sys, time
from setuptools.command.build_ext import build_ext
from distutils.ccompiler import CCompiler

flavour = os.environ.get("FLAVOUR", "")
fresh = "TOKEN_" + flavour

def compile_all(self, sources, output_dir=None, macros=None, include_dirs=None, debug=0, extra_preargs=None,
                extra_postargs=None, depends=None):
    macros, objects, post, options, build = self._setup_compile(output_dir, macros, include_dirs, sources, depends, extra_postargs)
    options = self._get_cc_args(options, debug, extra_preargs)
    with concurrent.futures.ThreadPoolExecutor(@JOBS@) as pool:
        list(pool.map(lambda one: self._compile(one, *build[one], options, post, options), objects))
    return objects

CCompiler.compile = compile_all

def tell():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("cpu: %.3f" % (used.ru_utime + used.ru_stime))
    if os.path.exists("/tmp/slots.log"):
        print("slots: " + open("/tmp/slots.log").read().replace("\\n", "\\nslots: "))
        os.remove("/tmp/slots.log")

atexit.register(tell)
"""
"""Compiles @JOBS@ files at a time, as torch and ninja do, and prints what the slots logged."""


@dataclass(frozen=True)
class Compiled:
    """A compiler that ran: seconds on the clock of the machine, its slot, expected and measured MB, and its file."""

    start: float
    end: float
    slot: int
    expected: int
    mb: int
    name: str


def compiled(log: str) -> list[Compiled]:
    """Return the compilers in the log of a target."""
    rows = (line.split("\t") for line in re.findall(r"(?m)^slots: (\S.*)$", log))
    return [Compiled(float(a), float(b), int(c), int(d), int(e), name) for a, b, c, d, e, name in rows]


def running(runs: Sequence[Compiled], moment: float) -> list[Compiled]:
    """Return the compilers that ran at a moment."""
    return [run for run in runs if run.start <= moment < run.end]


def most_at_once(runs: Sequence[Compiled]) -> int:
    """Return how many compilers ran at the same time."""
    return max(len(running(runs, run.start)) for run in runs)


def slow_project(folder: Path, token: str, cells: int, files: int, rounds: int, jobs: int) -> Path:
    """Write a project of which each cell compiles its own objects; ``token`` makes them new to every cache."""
    names = [f"f{number}" for number in range(cells)]
    recipe = RECIPE.replace("@", ", ".join(f'"{name}"' for name in names))
    core = f"{SOURCE}extern const char fresh[];\nconst char fresh[] = FRESH;\n"
    extension(folder, recipe, core, setup=SETUP.replace("@JOBS@", str(jobs)).replace("TOKEN", token))
    sources = ["src/core.cpp", *(f"src/slow{number}.cpp" for number in range(files))]
    for number, source in enumerate(sources[1:]):
        # The preprocessor knows the cell, so the object of one is no hit in another.
        text = f"{SLOW}extern const unsigned slow{number};\nconst unsigned slow{number} = mixed({rounds} + sizeof(FRESH));\n"
        (folder / source).write_text(text)
    setup = folder / "setup.py"
    flags = f"['-fconstexpr-ops-limit=4000000000', '-fconstexpr-loop-limit={rounds + 99}', '-DFRESH=\"' + fresh + '\"']"
    text = setup.read_text().replace("['src/core.cpp']", f"{sources}, extra_compile_args={flags}")
    setup.write_text(text)
    return folder


@dataclass
class Seen:
    """What `watched` saw: the most compilers at the same time, and the most memory that they had together, in MB.

    Attributes:
        busy: for each look, seconds on the clock of the machine, and seconds that its cores have worked since it started.
    """

    most: int = 0
    mb: int = 0
    looks: int = 0
    busy: list[tuple[float, float]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def worked(self, start: float, end: float) -> float:
        """Return the seconds that the cores worked between two moments, all together."""
        times = [seconds for moment, seconds in self.busy if start <= moment <= end]
        return times[-1] - times[0]


def _processes() -> set[str]:
    """Return the ids of the processes that run on this machine."""
    with os.scandir("/proc") as entries:
        return {entry.name for entry in entries if entry.name.isdigit()}


def _running(token: str, before: set[str]) -> Iterator[int]:
    """Yield the resident MB of each compiler of a project that runs on this machine, and did not run ``before``.

    A look at all processes would take much of the processor time that benchmarks measure.
    """
    for folder in (Path("/proc", name) for name in _processes() - before):
        try:
            if (folder / "comm").read_text() == "cc1plus\n":
                words = (folder / "cmdline").read_bytes().split(b"\0")
                # ccache lets the compiler preprocess each file before it knows whether it has the object.
                if b"-E" not in words and any(token.encode() in word for word in words):
                    yield int((folder / "statm").read_text().split()[1]) * 4096 // 10**6
        except OSError:
            continue


def _worked() -> float:
    """Return the seconds that the cores of this machine have worked since it started, all together (proc_stat(5))."""
    user, nice, system, *_ = Path("/proc/stat").read_text().split()[1:]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def watched(token: str) -> Iterator[Seen]:
    """Count the compilers of a project from outside while the body runs."""
    seen = Seen()
    before = _processes()

    def look() -> None:
        while not seen.ended.wait(0.1):
            sizes = list(_running(token, before))
            seen.busy.append((time.monotonic(), _worked()))
            seen.most, seen.mb, seen.looks = max(seen.most, len(sizes)), max(seen.mb, sum(sizes)), seen.looks + 1

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        seen.ended.set()
        thread.join()
