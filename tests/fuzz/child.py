"""The process that reads the inputs: it may crash, hang or grow, and its parent sees it.

The input that it is at stands in the file ``input`` of its folder. For each one that it has done with it writes a line
of JSON, and keeps it as ``crash-NUMBER`` if it crashed a reader. A reader that takes too long ends the process, wherever it is, after its frames were written to standard error.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gzip
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz import PACKAGE

if TYPE_CHECKING:
    from fuzz.targets import Target

LIMIT_S = 5.0
"""Seconds of a processor that an input may take."""

LIMIT_MB = 300
"""Memory that the process may have while it reads one."""

_PATIENCE = 60
"""A machine may be busy, and a reader may wait: so many times as long it may take by the clock on the wall."""


class Reader:
    """Reads inputs, one after the other, each within the limits."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._crashes = 0
        faulthandler.enable()
        faulthandler.register(signal.SIGPROF, chain=True)

    def read(self, name: str, target: Target, data: bytes) -> None:
        """Read an input of a target, and write what became of it."""
        current = self._folder / "input"
        current.write_bytes(data)
        work = self._folder / name
        work.mkdir(exist_ok=True)
        cause = ""
        began = time.process_time()
        with _limits():
            try:
                outcome = target.outcome(work, data)
            except Exception as error:
                outcome, cause = "crash", _cause(error)
        took, peak = time.process_time() - began, _peak_mb()
        if peak > LIMIT_MB:
            outcome, cause = "crash", cause or f"more than {LIMIT_MB} MB"
        if cause:
            self._crashes += 1
            current.rename(self._folder / f"crash-{self._crashes}")
        else:
            current.unlink()
        told = {"outcome": outcome, "s": round(took, 4), "mb": peak, "cause": cause, "file": f"crash-{self._crashes}"}
        print(json.dumps(told), flush=True)
        if peak > LIMIT_MB:
            # What is left of it would be taken for memory of the next one.
            os._exit(0)


@contextmanager
def _limits() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew: man 5 proc
    faulthandler.dump_traceback_later(_PATIENCE * LIMIT_S, exit=True)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    # More than is allowed, so that it is told where somebody asks for much too much.
    resource.setrlimit(resource.RLIMIT_DATA, ((LIMIT_MB + 200) << 20, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, limits)
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()


def _peak_mb() -> int:
    with Path("/proc/self/status").open() as status:
        return next((int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")), 0)


def _cause(error: Exception) -> str:
    """Return kind and place of an exception: the last frame in bakery."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(PACKAGE)]
    where = f" at {place(frames[-1].filename, f'{frames[-1].lineno} {frames[-1].name}')}" if frames else ""
    return f"{type(error).__name__}{where}" + (f": {error}" if isinstance(error, AssertionError) else "")


def place(file: str, inside: str) -> str:
    """Return a place in a file of the package as reports show it."""
    return f"bakery/{file.removeprefix(PACKAGE)}:{inside}"


def main() -> None:
    """Read inputs: FOLDER (files TARGET=FILE… | made TARGET,… SEED FIRST END | guided TARGET SEED SECONDS)."""
    folder, how, *words = sys.argv[1:]
    with _instrumented() if how == "guided" else nullcontext():
        from fuzz.targets import TARGETS, TRAPS
    targets = {**TARGETS, **TRAPS}
    reader = Reader(Path(folder))
    if how == "files":
        for name, _, file in (word.partition("=") for word in words):
            data = Path(file).read_bytes()
            reader.read(name, targets[name], gzip.decompress(data) if file.endswith(".gz") else data)
    elif how == "made":
        names, (seed, first, end) = words[0].split(","), map(int, words[1:])
        for number in range(first, end):
            # Each target in turn.
            turn, at = divmod(number, len(names))
            reader.read(names[at], targets[names[at]], targets[names[at]].made(seed, turn))
    else:
        _guided(reader, words[0], targets[words[0]], Path(folder) / "corpus", int(words[1]), int(words[2]))


def _instrumented() -> Any:
    """Return a context in which atheris counts what is reached of the modules of bakery that are imported."""
    import atheris

    return atheris.instrument_imports(include=["bakery"], enable_loader_override=False)


def _guided(reader: Reader, name: str, target: Target, corpus: Path, seed: int, seconds: int) -> None:
    """Let atheris choose what is changed next: inputs that reached what no other had reached."""
    import atheris

    if not corpus.exists():
        corpus.mkdir()
        for number, data in enumerate(target.seeds()):
            (corpus / f"seed-{number}").write_bytes(data)

    def mutate(data: bytes, size: int, number: int) -> bytes:
        return target.mutate(random.Random(number), data)[:size]

    options = [
        f"-seed={seed}", f"-max_total_time={seconds}", "-timeout=100000", "-rss_limit_mb=0", "-malloc_limit_mb=0",
    ]  # fmt: skip
    options += ["-verbosity=0", "-max_len=1048576", "-len_control=0", str(corpus)]
    atheris.Setup(["fuzz", *options], lambda data: reader.read(name, target, data), custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
