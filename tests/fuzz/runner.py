"""Runs a target in a process of its own, counts, and keeps one input of each kind of crash."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz import PACKAGE, TESTS
from fuzz.child import LIMIT_S, place

CRASHERS = Path(__file__).with_name("crashers")
"""Inputs that crashed a reader once: ``TARGET/SHA256``. A test reads all of them again."""

_BATCH = 2000
"""Inputs that one process reads: what it keeps in memory is not taken for an input's."""

_PARTS, _ROUNDS = 16, 6
"""An input is made smaller by a half, a quarter, … of it, down to so small a part, and in so many rounds."""

_SMALL, _LARGE = 2 << 10, 64 << 10
"""Bytes that need not become fewer, and those beyond which a crasher is stored packed."""
_PACKAGE = PACKAGE.encode("ascii", "backslashreplace").decode()
"""As faulthandler writes it: no other characters than ASCII."""

_FRAME = re.compile(
    rf'File "{re.escape(_PACKAGE)}(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>[^<\s]+)$', re.MULTILINE
)


@dataclass(slots=True)
class Tally:
    """What reading many inputs came to.

    Attributes:
        seconds: by the clock on the wall, with the making of the inputs.
        slowest: seconds of a processor for one input.
        peak: MB of memory, at most.
        outcomes: what became of them → how many.
        kinds: what became of each, in order.
        crashes: cause → the smallest input with it.
        times: cause → how many inputs.
    """

    inputs: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    peak: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: list[str] = field(default_factory=list)
    crashes: dict[str, bytes] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: str, seconds: float, peak: int, cause: str = "", data: bytes = b"") -> None:
        """Count an input; ``data`` is that of a crash."""
        self.inputs += 1
        self.slowest, self.peak = max(self.slowest, seconds), max(self.peak, peak)
        self.outcomes[outcome] += 1
        self.kinds.append(outcome)
        if cause:
            self.times[cause] += 1
            if cause not in self.crashes or len(data) < len(self.crashes[cause]):
                self.crashes[cause] = data

    def __str__(self) -> str:
        rate = self.inputs / max(self.seconds, 0.01)
        crashes = f"{sum(self.times.values())} crashes of {len(self.times)} kinds" if self.times else "no crash"
        return f"{self.inputs} inputs, {rate:.0f}/s, slowest {self.slowest:.2f} s, peak {self.peak} MB, {crashes}"


def read_files(files: Sequence[tuple[str, Path]]) -> Tally:
    """Read files, each of a target."""
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        while tally.inputs < len(files):
            words = [f"{target}={file}" for target, file in files[tally.inputs :]]
            _child(tally, Path(folder), "files", *words)
    return tally


def read_made(targets: Sequence[str], seed: int, count: int, first: int = 0) -> Tally:
    """Read inputs ``first`` and following of targets, by turns: the same ones for the same seed."""
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        while tally.inputs < count:
            now = first + tally.inputs
            end = min(first + count, now + _BATCH)
            _child(tally, Path(folder), "made", ",".join(targets), str(seed), str(now), str(end))
    return tally


def read_for(target: str, seed: int, seconds: int, *, guided: bool) -> Tally:
    """Read inputs for some time; ``guided`` by the code that they reach, which needs atheris."""
    tally, until = Tally(), time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        while (left := round(until - time.monotonic())) > 0:
            done = tally.inputs
            if guided:
                _child(tally, Path(folder), "guided", target, str(seed + done), str(left))
            else:
                _child(tally, Path(folder), "made", target, str(seed), str(done), str(done + 500))
    return tally


def _child(tally: Tally, folder: Path, *words: str) -> None:
    """Run a child to its end, which may be that of an input."""
    began, current = time.monotonic(), folder / "input"
    with (folder / "errors").open("w+") as errors:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "fuzz.child", str(folder), *words],
            env={**os.environ, "PYTHONPATH": str(TESTS), "PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith('{"outcome"'):
                told = json.loads(line)
                data = (folder / told["file"]).read_bytes() if told["cause"] else b""
                tally.add(told["outcome"], told["s"], told["mb"], told["cause"], data)
        ended = child.wait()
        errors.seek(0)
        said = errors.read()
    if ended and not current.exists():
        raise RuntimeError(f"{' '.join(words)}: {said[-4000:]}")
    if ended:
        cause = _end(ended, said)
        tally.add("crash", LIMIT_S if _is_slow(cause) else 0, 0, cause, current.read_bytes())
        current.unlink()
    tally.seconds += time.monotonic() - began


def _end(status: int, said: str) -> str:
    """Return why a child ended, and where."""
    if "Timeout (" in said:
        what = "waits for ever"
    elif "Profiling timer expired" in said or status == -27:
        what = f"more than {LIMIT_S:.0f} s"
    else:
        what = f"exit status {status}"
    # The line is another one each time, and the function that calls others is often the one to blame.
    match = _FRAME.search(said)
    return what + (f" in {place(match['file'], match['function'])}" if match else "")


# --- crashers


def crashers(target: str = "*") -> list[tuple[str, Path]]:
    """Return the inputs that crashed a target once, or all targets."""
    return [(path.parent.name, path) for path in sorted(CRASHERS.glob(f"{target}/*"))]


def keep(target: str, tally: Tally) -> dict[str, Path]:
    """Store an input of each kind of crash, as small as it gets; return cause → file.

    One that does not crash again is not kept.
    """
    kept = {}
    for cause, data in tally.crashes.items():
        small = _smaller(target, cause, data)
        if small is not None:
            packed = len(small) > _LARGE
            path = CRASHERS / target / (hashlib.sha256(small).hexdigest()[:16] + (".gz" if packed else ""))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(small, mtime=0) if packed else small)
            kept[cause] = path
    return kept


def _smaller(target: str, cause: str, data: bytes) -> bytes | None:
    """Return an input with the same cause that lacks some parts of this one; None where this one has it no more."""
    if not _with_cause(target, cause, [data]):
        return None
    parts = 2
    for _ in range(0 if _is_slow(cause) else _ROUNDS):
        if parts > _PARTS or len(data) <= _SMALL:
            break
        size = -(-len(data) // parts)
        shorter = [data[:at] + data[at + size :] for at in range(0, len(data), size)]
        found = _with_cause(target, cause, shorter)
        data, parts = (found, parts) if found else (data, parts * 2)
    return data


def _with_cause(target: str, cause: str, inputs: Sequence[bytes]) -> bytes | None:
    """Return the smallest of some inputs with a cause."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        files = [Path(folder, str(number)) for number in range(len(inputs))]
        for file, data in zip(files, inputs, strict=True):
            file.write_bytes(data)
        crashes = read_files([(target, file) for file in files]).crashes
    return next(
        (data for other, data in crashes.items() if other == cause or (_is_slow(other) and _is_slow(cause))), None
    )


def _is_slow(cause: str) -> bool:
    """Whether a cause is a limit, which is reached at another place each time."""
    return cause.startswith("more than")
