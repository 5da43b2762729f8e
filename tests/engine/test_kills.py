"""kill -9 at random moments: of bakery, of its bakes, of a private engine; what was finished stays, the rest is built."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
import uuid
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from command import Done, bakery, journals, start
from farm import engine_nodes
from projects import flavours
from runs import runs_of
from waiting import command_lines, wait_for

from bakery.runs.journal import Result, newest_records
from bakery.runs.run_folders import state_folder

pytestmark = [pytest.mark.engine, pytest.mark.proof]

KILLS = int(os.environ.get("BAKERY_TEST_KILLS", "60"))
"""Kills in all; a tenth of them are of an engine."""

CELLS = ["a", "b", "c", "d"]
SPAN_S = float(os.environ.get("BAKERY_TEST_SPAN", "12"))
"""Seconds of a run within which the kill comes."""

MARK = f"{os.getpid():08}"
"""Digits that end how long a build sleeps: what runs in its container is known by them."""


def project(folder: Path) -> Path:
    nap = f"import subprocess; subprocess.run(['sleep', f'{{0.5 * (ord(flavour) - 97)}}{MARK}'])"
    return flavours(folder, CELLS, nap)


def check_output(folder: Path) -> None:
    """Check that the output folder holds whole wheels and nothing else."""
    for path in (folder / "dist").iterdir() if (folder / "dist").exists() else ():
        if path.name == ".provenance":
            continue
        # A complete copy may be caught between its first name and its last.
        assert path.suffix == ".whl" or path.name.startswith(".bakery-"), path
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
        assert oct(path.stat().st_mode) == "0o100644"


def finished(folder: Path) -> set[str]:
    """Return the cells that are finished: written down, and their wheels published."""
    known = newest_records(state_folder(folder, os.environ), "demo")
    return {
        name
        for name, record in known.items()
        if record.result is Result.DONE and all((folder / "dist" / wheel.name).exists() for wheel in record.wheels)
    }


def processes(folder: Path) -> dict[int, list[bytes]]:
    """Return process id → words of what runs of bakes in a folder, in containers too."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it is gone
            continue
        if any(
            str(folder).encode() in word or str(runs_of(folder)).encode() in word or word.endswith(MARK.encode())
            for word in words
        ):
            found[int(path.name)] = words
    return found


def kill_bake(folder: Path) -> bool:
    """Kill one of the processes of buildx; say whether there was one."""
    running = [number for number, words in processes(folder).items() if b"bake" in words]
    if running:
        with_luck = random.choice(running)
        subprocess.run(["kill", "-9", str(with_luck)], check=False, capture_output=True)
    return bool(running)


def one_kill(folder: Path, kill: Callable[[subprocess.Popen[str]], object], environment: Mapping[str, str]) -> None:
    """Build anew, kill at a random moment, and go on."""
    (folder / "fresh.txt").write_text(str(uuid.uuid4()))
    for path in (folder / "dist").glob("*.whl"):
        path.unlink()
    child = start(folder, "wheel", environment=environment)
    time.sleep(random.uniform(0, SPAN_S))
    kill(child)
    child.wait(timeout=300)
    if child.stdout and child.stderr:
        child.communicate()
    assert wait_for(lambda: not processes(folder), 40), processes(folder)
    check_output(folder)
    before = finished(folder)
    done = bakery(folder, "wheel", "--resume", environment=environment)
    check_output(folder)
    assert len(done.wheels) == len(CELLS)
    assert before <= kept(done), "what was finished is not built again"
    assert not list(runs_of(folder).glob("*/stage"))
    assert not [line for line in command_lines() if str(folder) in line or str(runs_of(folder)) in line]
    assert not [path for path in (folder / "dist").iterdir() if path.suffix != ".whl" and path.name != ".provenance"]


def kept(done: Done) -> set[str]:
    return {str(target["cell"]) for target in done.results().values() if target["result"] == "kept"}


def kill_many_times(folder: Path, kill: Callable[[subprocess.Popen[str]], object]) -> None:
    project(folder)
    bakery(folder, "wheel")
    for _ in range(max(1, KILLS * 9 // 20)):
        one_kill(folder, kill, {})


def test_kills_of_bakery(tmp_path: Path) -> None:
    kill_many_times(tmp_path / "project", lambda child: os.kill(child.pid, signal.SIGKILL))


def test_kills_of_the_bake(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    kill_many_times(folder, lambda _: kill_bake(folder))


@pytest.mark.skipif(os.geteuid() != 0, reason="a private engine needs root")
def test_kills_of_the_engine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = project(tmp_path / "project")
    with engine_nodes(tmp_path_factory.mktemp("k"), ["killed"]) as (node,):
        environment = node.reaching()
        bakery(folder, "wheel", environment=environment)

        def kill(child: subprocess.Popen[str]) -> None:
            node.kill()
            node.start()

        for _ in range(max(1, KILLS // 10)):
            one_kill(folder, kill, environment)


def test_journal_of_every_moment_is_read(tmp_path: Path) -> None:
    """A run that is killed right after each line of its journal goes on from there."""
    folder = project(tmp_path / "project")
    bakery(folder, "wheel")
    path = journals(folder)[-1]
    data = path.read_bytes()
    for cut in sorted({0, 1, *random.Random(7).sample(range(len(data)), 4), len(data) - 1}):
        path.write_bytes(data[:cut])
        before = finished(folder)
        done = bakery(folder, "wheel", "--resume")
        assert kept(done) == before
        for newer in journals(folder):
            if newer != path:
                newer.unlink()
