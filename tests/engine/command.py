"""The whole command, run as a person runs it; and docker beside it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import engine_turns
import forking
from runs import runs_of

from bakery.resolve.epoch import EARLIEST as EPOCH
from bakery.runs.records.buildkit import FOLDER
from bakery.runs.run_folders import state_folder

ROOT = Path(__file__).resolve().parents[2]
"""The repository: its workspace is what the larger tests bake."""

TIMEOUT_S = 900

UNDATED = ("--set", f"SOURCE_DATE_EPOCH={EPOCH}")
"""The time that the generated files name; bakery itself takes that of the source's last commit.

What bakes the workspace takes it, so that the wheels of one test are in the engine's cache for the next.
"""

_RAN = re.compile(r"# (?:done in [\d.]+ s$|process .* did not complete)")
"""The line of a log at the end of a step that ran."""


@dataclass(frozen=True)
class Done:
    """An ended command.

    Attributes:
        pid: its process id, which is part of the name of its run folder.
        seconds: what it took.
    """

    folder: Path
    pid: int
    code: int
    out: str
    err: str
    seconds: float
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def wheels(self) -> list[Path]:
        """The wheels that it printed, one a line."""
        return [self.folder / line for line in self.out.splitlines() if line.endswith(".whl")]

    @property
    def runs(self) -> list[Path]:
        """The folders of its runs, one for each recipe, oldest first."""
        found = runs_of(self.folder, {**os.environ, **self.environment}).glob(f"*-{self.pid}*")
        return sorted(found, key=lambda path: path.stat().st_mtime)

    def results(self, run: int = -1) -> dict[str, dict[str, object]]:
        """Return what the report of a run says of each target."""
        report = json.loads((self.runs[run] / "report.json").read_text())
        return {target["name"]: target for target in report["targets"]}

    def log(self, target: str) -> str:
        """Return the log of a target of the last run."""
        return (self.runs[-1] / "logs" / f"{target}.log").read_text()

    def ran(self, run: int = -1) -> list[str]:
        """Return the commands that a run really ran, by all its logs.

        Copies are left out: BuildKit does some of them again (what stands on nothing, what two bakes need at once). A step
        that BuildKit canceled, because it found the result by another key, did not run.
        """
        ran = {}
        for path in sorted((self.runs[run] / "logs").glob("*.log")):
            title = ""
            for line in path.read_text().splitlines():
                # Steps run side by side: the end of one may come after the title of another; then its own is repeated.
                if re.match(r"# (?:\[[^\]]+\] |exporting )", line):
                    title = line.removeprefix("# ")
                elif _RAN.match(line) and "] RUN " in title:
                    ran[title] = None
        return list(ran)


BAKING = ("wheel", "test", "full", "dev", "bake")
CHOOSES = ("--rebuild", "--resume", "--failed", "--if-changed")
"""Options that say which cells are baked; ``--if-changed`` stands for the default."""


DISPLAY = {"BAKERY_PROGRESS": "plain", "COLUMNS": "200"}


def _arguments(words: Sequence[str]) -> list[str]:
    bakes = words[0] in BAKING and not set(CHOOSES).intersection(words)
    return [word for word in (*words, *["--rebuild"] * bakes) if word != "--if-changed"]


def start(folder: Path, *words: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start ``python -m bakery`` in a folder, in a session of its own. What bakes also bakes cells that are up to date."""
    return subprocess.Popen(
        [sys.executable, "-m", "bakery", *_arguments(words)],
        cwd=folder,
        env={**os.environ, **DISPLAY, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(
    child: subprocess.Popen[str],
    folder: Path,
    began: float,
    timeout_s: float = TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
) -> Done:
    """Wait for a started command."""
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        child.terminate()
        out, err = child.communicate(timeout=60)
        raise AssertionError(f"not done within {timeout_s:g} s\n{err[-4000:]}") from None
    return _ended(Done(folder, child.pid, child.returncode, out, err, time.monotonic() - began, environment or {}))


def _ended(done: Done) -> Done:
    # Of bakery's own; what a build step prints is indented.
    assert not re.search(r"(?m)^Traceback ", done.err), done.err
    return done


def bakery(
    folder: Path, *words: str, code: int = 0, environment: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
) -> Done:
    """Run the command in a folder, as ``python -m bakery``; it must end with ``code`` and without a traceback."""
    began = time.monotonic()
    variables = {**DISPLAY, **(environment or {})}
    if forking.starts_alike(variables):
        try:
            ended = forking.run(_arguments(words), folder, {**os.environ, **variables}, timeout_s)
        except TimeoutError as error:
            raise AssertionError(f"not done within {timeout_s:g} s\n{str(error)[-4000:]}") from None
        done = _ended(Done(folder, *ended, time.monotonic() - began, environment or {}))
    else:
        done = finish(start(folder, *words, environment=environment), folder, began, timeout_s, environment)
    assert done.code == code, f"exit code {done.code}, not {code}\n{done.err[-6000:]}"
    return done


def repeated(ran: Callable[[], Collection[str]], expected: Collection[str] = ()) -> set[str]:
    """Call ``ran``, and once more without other tests if it does not return the expected steps; return the last steps.

    BuildKit runs a cached step again while another bake is alive that ran the stage below it (moby/buildkit#6954), and other
    tests bake at the same time. If a second call could hide a defect, ``ran`` must bake something that was never built.
    """
    steps = set(ran())
    if steps != set(expected):
        with engine_turns.alone():
            steps = set(ran())
    return steps


def journals(folder: Path, recipe: str = "demo") -> list[Path]:
    """Return the journals of a recipe of a project, oldest first."""
    return sorted((state_folder(folder, os.environ) / "journal" / recipe).glob("*.jsonl"))


def shell(environment: Mapping[str, str], *words: str, cwd: Path | None = None, timeout_s: float = TIMEOUT_S) -> str:
    """Run another program, which must succeed; return what it prints."""
    done = subprocess.run(
        words,
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def digests(folder: Path, pattern: str = "*.whl") -> dict[str, str]:
    """Return name → sha256 of all wheels, or other files, below a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob(pattern))}


def states(folder: Path) -> dict[str, tuple[int, int]]:
    """Return name → (time of the last change, inode) of what is in a folder: equal when nothing was touched.

    The folder of records is left out: a wheel that is built again from another source, and is the same, has a new one.
    """
    found = sorted(path for path in folder.iterdir() if path.name != FOLDER)
    return {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in found}
