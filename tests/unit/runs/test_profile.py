"""Times of commands: what ``count-ccache`` prints, what is kept of it, and what ``profile`` makes of it."""

from __future__ import annotations

import base64
import io
import json
import math
import os
import runpy
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from runs import make_run
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.cli.tables.profile import render
from bakery.core.errors import UsageError
from bakery.plan.build_facts import JobLimits
from bakery.runs.buildx.progress import LogLines, Progress
from bakery.runs.buildx.rawjson import MAX_TIMED
from bakery.runs.cell_profile import (
    CellProfile,
    Command,
    StepTime,
    advice,
    beside,
    device_seconds,
    find,
    read,
    save,
    summary,
    trace,
)
from bakery.toolchains import programs

STARTED, ENDED = "2026-11-20T21:47:40Z", "2026-11-20T21:48:00Z"
ZERO = 1795211260.0
"""The second of `STARTED`."""


def count_ccache(folder: Path) -> SimpleNamespace:
    (folder / "count_ccache.py").write_text(programs.text("count-ccache"))
    return SimpleNamespace(**runpy.run_path(str(folder / "count_ccache.py")))


def baked(text: str) -> Progress:
    """Return the state of a bake whose only step printed ``text``."""
    progress = Progress(["wheel-cp312"])
    vertex = {"digest": "sha256:1", "name": "[compile 1/1] RUN make", "started": STARTED, "completed": ENDED}
    data = base64.b64encode(text.encode()).decode()
    progress.feed(json.dumps({"vertexes": [{**vertex, "completed": None}]}).encode())
    events = progress.feed(json.dumps({"logs": [{"vertex": "sha256:1", "stream": 1, "data": data}]}).encode())
    events += progress.feed(json.dumps({"vertexes": [vertex]}).encode())
    shown = [line for event in events if isinstance(event, LogLines) for line in event.lines]
    assert not [line for line in shown if line.startswith("bakery: timed")]
    assert "timed" not in progress.targets["wheel-cp312"].last_line
    return progress


def kept(run: Path, text: str, cell: str = "cp312") -> CellProfile:
    run.mkdir(parents=True, exist_ok=True)
    save(run, "demo", cell, baked(text).steps.values())
    profile = read(run, cell)
    assert profile is not None
    return profile


def timed(kind: str, start: float, seconds: float, name: str, mb: int = 0) -> str:
    return f"bakery: timed {kind} {ZERO + start:.3f} {seconds:.3f} {mb} {name}\n"


def test_the_log_of_slots_gives_times_of_compilers(tmp_path: Path) -> None:
    text = "10.000\t12.500\t0\t200\t98\tg++/src/a b.cpp\nnonsense\n1.2.3\t4\t0\t0\t0\tx\n"
    assert count_ccache(tmp_path).compilers(text, 1000.0) == [(1010.0, 2.5, 98, "g++/src/a b.cpp")]


NVCC = """\
source file name , phase name , phase input files , phase output file , arch , tool, metric , unit
/a.cu , cudafe++ , /tmp/a.ii  , /tmp/a.cudafe1.cpp , compute_90 , nvcc , 420.8900 , ms
/a.cu , g++ (preprocessing 1) , /a.cu  , /tmp/a.cpp1.ii , compute_80 , nvcc , 1000.0 , ms
/a.cu , cicc ,  /tmp/a.cpp1.ii  , /tmp/a.ptx , compute_80 , nvcc , 2000.0 , ms
/a.cu , ptxas , /tmp/a.ptx  , /tmp/a.cubin , sm_80 , nvcc , 500.0 , ms
/b.cu , ptxas , /tmp/b.ptx  , /tmp/b.cubin , sm_80 , nvcc , 250.0 , ms
/b.cu , cicc ,  /tmp/b.cpp1.ii  , /tmp/b.ptx , compute_90a , nvcc , 6000.0 , ms
/b.cu , cicc , a , b , compute_90 , nvcc , nan , ms
 , nvcc (driver) ,  , k.o ,  , nvcc , 0.8961 , ms
"""
"""What nvcc 13.0 writes, with other times."""


def test_the_phases_of_nvcc_are_added_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = count_ccache(tmp_path)
    program.say("nvcc", program.phases(NVCC))
    profile = kept(tmp_path, timed("compile", 1, 9, "nvcc/a.cu") + capsys.readouterr().out)
    assert {(item.architecture, item.name): item.seconds for item in profile.phases} == {
        ("compute_90a", "cicc"): 6.0,
        ("compute_80", "cicc"): 2.0,
        ("compute_80", "g++ (preprocessing 1)"): 1.0,
        ("sm_80", "ptxas"): 0.75,
        ("compute_90", "cudafe++"): 0.421,
        ("", "nvcc (driver)"): 0.001,
    }
    assert device_seconds(profile) == {"sm_90a": 6.0, "sm_80": 3.75}
    (line,) = advice(profile, summary(profile), [], JobLimits())
    assert "each architecture adds to it (sm_90a 6 s, sm_80 4 s)" in line


@pytest.mark.skipif(not shutil.which("ninja"), reason="ninja is not installed")
def test_real_ninja_logs_of_two_runs_become_times_since_1970(tmp_path: Path) -> None:
    build = tmp_path / "build" / "temp"
    build.mkdir(parents=True)
    rule = "rule slow\n  command = sleep 0.2 && touch a b\nrule fast\n  command = touch c\nbuild a b: slow\nbuild c: fast a\n"
    (build / "build.ninja").write_text(rule)
    began = time.time()
    subprocess.run(["ninja", "-C", build, "a"], check=True, capture_output=True)
    between = time.time()
    subprocess.run(["ninja", "-C", build, "c"], check=True, capture_output=True)
    # As if the second run were later.
    ended = time.time() + 100
    os.utime(build / ".ninja_log", (ended, ended))
    program = count_ccache(tmp_path)
    commands = sorted(program.ninja([str(tmp_path / "build")], began - 1))
    # One command has two outputs.
    assert [name for *_, name in commands if name in "ac"] == ["a", "c"]
    assert len(commands) == 2
    (first, first_s, *_), (second, second_s, *_) = commands
    assert began - 0.25 <= first <= first + first_s <= between + 0.05
    assert second + second_s == pytest.approx(ended, abs=0.01)
    # A log of an earlier step does not count.
    assert program.ninja([str(tmp_path / "build")], ended + 60) == []


def test_hostile_logs_are_bounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = count_ccache(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert [program.text_of(tmp_path / name) for name in ("pipe", "link", "none")] == ["", "", ""]
    program.say("compile", [(0.0, float(index), 0, "\x1b]0;x\n" + "y" * 999) for index in range(5000)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == program.MOST
    assert max(map(len, lines)) < 260
    assert "\x1b" not in "".join(lines)


def test_times_of_a_step_are_kept_out_of_its_output(tmp_path: Path) -> None:
    text = (
        timed("cores", 0, 0, "4")
        + timed("compile", 2, 3, "g++/a.cpp", 300)
        + "bakery: ccache had 0 of 1 compilations\n"
    )
    profile = kept(tmp_path, "hello\n" + text)
    assert (profile.cores, [item.name for item in profile.commands]) == (4, ["g++/a.cpp"])
    assert profile.commands[0] == Command(kind="compile", start=ZERO + 2, seconds=3, mb=300, name="g++/a.cpp")
    assert profile.steps == (
        StepTime(title="[compile 1/1] RUN make", work="compile", start=ZERO, seconds=20, cached=False),
    )
    assert baked(text).targets["wheel-cp312"].compiled == (1, 0)
    # A retry whose compile is cached has no times, and does not remove them.
    assert kept(tmp_path, "hello\n").commands == profile.commands


@pytest.mark.parametrize(
    "line",
    [
        timed("compile", -100, 1, "before the step"),
        timed("compile", 1, 1000, "after the step"),
        timed("other", 1, 1, "kind"),
        "bakery: timed compile nan 1.000 0 number\n",
        "bakery: timed compile 1e300 1.000 0 number\n",
        timed("missed", 0, 0, "x" * 201),
        timed("compile", 1, 1, "x" * 201),
        timed("compile", 1, 1, ""),
    ],
)
def test_times_that_cannot_be_are_dropped(tmp_path: Path, line: str) -> None:
    assert kept(tmp_path, line).commands == ()


def test_a_step_gives_a_bounded_number_of_times(tmp_path: Path) -> None:
    profile = kept(tmp_path, timed("compile", 1, 1, "x") * (MAX_TIMED + 100))
    assert len(profile.commands) == MAX_TIMED


def test_a_cached_step_has_the_times_of_the_run_that_compiled(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(UsageError, match="no kept run"):
        find(tmp_path, "demo", "cp312")
    for age, (name, text) in enumerate(
        (("c", ""), ("b", timed("compile", 1, 1, "b.cpp")), ("a", timed("ninja", 1, 1, "a")))
    ):
        kept(runs / name, text)
        os.utime(runs / name, (1000 - age, 1000 - age))
    profile, run, is_older = find(tmp_path, "demo", "cp312")
    assert (run.name, profile.commands[0].name, is_older) == ("b", "b.cpp", True)
    with pytest.raises(UsageError):
        find(tmp_path, "other", "cp312")


def test_a_profile_that_a_checkout_brings_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "cp311.json").symlink_to("/etc/passwd")
    (tmp_path / "profiles" / "cp312.json").write_text('{"recipe": 1}')
    assert [read(tmp_path, "cp311"), read(tmp_path, "cp312")] == [None, None]


def test_idle_cores_lone_and_waiting_commands(tmp_path: Path) -> None:
    text = timed("cores", 0, 0, "2") + timed("compile", 1, 8, "g++/src/long.cpp", 900)
    text += timed("compile", 1, 2, "g++/src/short.cpp") + timed("ninja", 0, 3, "CMakeFiles/x.dir/src/short.cpp.o")
    profile = kept(tmp_path / "run", text)
    kept(tmp_path / "run", text, "cp313")
    used = summary(profile)
    assert (used.wall, used.busy, used.idle) == pytest.approx((8, 10, 6), abs=0.01)
    assert used.alone == pytest.approx({"g++/src/long.cpp": 6}, abs=0.01)
    assert {item.name: round(seconds) for item, seconds in used.waited.items()} == {"g++/src/short.cpp": 1}
    lines = advice(profile, used, beside(tmp_path / "run", profile), JobLimits())
    assert [line.split(" ")[0] for line in lines] == ["g++/src/long.cpp", "g++/src/long.cpp", "2"]
    assert 'builder.job-memory = "900MB"' in lines[1]
    assert "native step" in lines[2]
    # The recipe reserves that much already.
    lines = advice(profile, used, beside(tmp_path / "run", profile), JobLimits(memory=900 * 10**6))
    assert not any("job-memory" in line for line in lines)
    # Little to gain: no advice.
    assert advice(profile, summary(kept(tmp_path / "quick", timed("compile", 1, 2, "a.cpp"))), [], JobLimits()) == []


def test_device_code_is_named(tmp_path: Path) -> None:
    profile = kept(tmp_path, timed("ninja", 0, 15, "csrc/kernel.cuda.o") + timed("ninja", 0, 16, "csrc/kernel.cu.o"))
    assert any("device code takes 16 s of 31 s" in line for line in advice(profile, summary(profile), [], JobLimits()))


def test_a_chrome_trace_has_rows_without_overlap(tmp_path: Path) -> None:
    text = timed("compile", 1, 4, "a.cpp", 50) + timed("compile", 2, 1, "b.cpp") + timed("compile", 3, 1, "c.cpp")
    events = trace(kept(tmp_path, text))["traceEvents"]
    assert isinstance(events, list)
    complete = [event for event in events if isinstance(event, dict) and event["ph"] == "X"]
    rows = {event["name"]: (event["pid"], event["tid"], event["ts"], event["dur"]) for event in complete}
    assert rows == {
        "[compile 1/1] RUN make": (1, 1, 0, 20_000_000),
        "a.cpp": (2, 1, 1_000_000, 4_000_000),
        "b.cpp": (2, 2, 2_000_000, 1_000_000),
        "c.cpp": (2, 2, 3_000_000, 1_000_000),
    }


def test_the_time_of_a_trace_grows_as_its_commands_do() -> None:
    """Each command was compared with all that ran when it started."""
    command = {"kind": "compile", "start": 1, "seconds": 5, "mb": 0, "name": "a.c"}
    rows = [{**command, "start": 1 + number / 1e5} for number in range(20_000)]
    profile = CellProfile.model_validate({"recipe": "demo", "cell": "cp311", "cores": 4, "steps": [], "commands": rows})
    began = time.process_time()
    assert len(trace(profile)["traceEvents"]) == 20_003  # type: ignore[arg-type]
    assert time.process_time() - began < 2


@pytest.mark.parametrize("seconds", [1e308, -1.0, math.inf, math.nan])
def test_a_profile_with_times_that_nothing_takes_is_none(tmp_path: Path, seconds: float) -> None:
    """Its trace was an internal error."""
    command = {"kind": "compile", "start": 1, "seconds": seconds, "mb": 0, "name": "a.c"}
    text = json.dumps({"recipe": "demo", "cell": "cp311", "cores": 4, "steps": [], "commands": [command]})
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/cp311.json").write_text(text)
    assert read(tmp_path, "cp311") is None


def test_a_long_title_leaves_the_time_whole() -> None:
    steps = (StepTime(title="[compile 1/1] RUN " + "x" * 300, start=0, seconds=123.4, cached=False),)
    profile = CellProfile(recipe="app", cell="cp311", cores=2, steps=steps, commands=())
    console = Console(width=80, file=io.StringIO())
    console.print(render(profile, summary(profile), [], 15))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line for line in lines if "RUN" in line and line.rstrip().endswith("123.4 s")]
    assert max(map(len, lines)) <= 80


def test_advice_knows_the_memory_that_an_override_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = '[[matrix.overrides]]\nwhere = { python = "3.13" }\nbuilder = { job-memory = "50 MB" }\n'
    (tmp_path / "bakery.toml").write_text(f'name = "demo"\n[matrix]\npython = ["3.11", "3.13"]\n{own}')
    make_run(tmp_path, "1", ["cp311", "cp313"])
    monkeypatch.chdir(tmp_path)
    # The largest compile takes 120 MB, and 200 MB are reserved where the recipe says nothing.
    said = {cell: CliRunner().invoke(app, ["profile", cell]).stdout for cell in ("cp311", "cp313")}
    assert [cell for cell, text in said.items() if "builder.job-memory" in text] == ["cp313"]
