"""What people see of recorded bakes."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from bakery.core.durations import about, duration
from bakery.core.errors import UsageError
from bakery.runs.buildx.board import Board, Listener, times_of
from bakery.runs.buildx.progress import Progress
from bakery.runs.buildx.step_names import name_step
from bakery.runs.display import HEARTBEAT_S, LiveDisplay, PlainDisplay, RawDisplay, choose
from wheel_audit.terminal import SafeConsole

DATA = Path(__file__).parents[2] / "data"
WORDS = partial(
    name_step,
    stages={
        "base": "install repair tools",
        "requirements": "resolve build requirements",
        "system": "compilers and Python",
        "test-env": "install requirements of the test",
    },
)

TARGETS = {
    "fresh": ("wheel-cp311", "wheel-cp312"),
    "cached": ("wheel-cp311", "wheel-cp312"),
    "canceled": ("w-fast", "w-slow", "w-bad"),
    "no-image": ("a", "b"),
}

Golden = Callable[[Path, str], None]


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def console(width: int = 80, *, terminal: bool = False) -> tuple[SafeConsole, io.StringIO]:
    file = io.StringIO()
    made = SafeConsole(
        soft_wrap=False,
        file=file,
        width=width,
        height=25,
        force_terminal=terminal,
        color_system=None,
        legacy_windows=False,
    )
    return made, file


def cells(*targets: str) -> dict[str, str]:
    """Return target → cell: ``wheel-cp311`` is one of cp311."""
    return {name: name.partition("-")[2] or name for name in targets}


def board(progress: Progress, **times: dict[str, float]) -> Board:
    """Return a board that shows one bake."""
    made = Board(cells(*progress.targets), times)
    made.adopt(progress)
    return made


def status(**fields: object) -> bytes:
    """Return a line of the stream."""
    return json.dumps(fields).encode()


def step(name: str, digest: str, **more: object) -> bytes:
    """Return a line of the stream that tells of one vertex."""
    times = {"started": "2026-01-01T00:00:00Z", "completed": "2026-01-01T00:00:07Z"}
    return json.dumps({"vertexes": [{"name": name, "digest": digest, **times, **more}]}).encode()


def replay(name: str, display: Listener, clock: Clock) -> None:
    progress = Progress(TARGETS[name], clock)
    display.start(board(progress))
    for raw in (DATA / "rawjson" / f"{name}.jsonl").read_bytes().splitlines(keepends=True):
        clock.now += 0.125
        display.line(raw, progress.feed(raw))
        display.tick()
    display.finish()


@pytest.mark.parametrize("name", TARGETS)
def test_plain(name: str, golden: Golden) -> None:
    clock = Clock()
    made, file = console()
    replay(name, PlainDisplay(made, clock), clock)
    golden(DATA / "display" / f"{name}.plain.txt", file.getvalue())


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", TARGETS)
def test_live_final_state(name: str, width: int, golden: Golden) -> None:
    clock = Clock()
    made, file = console(width)
    replay(name, LiveDisplay(made, clock), clock)
    assert all(len(line) <= width for line in file.getvalue().splitlines())
    golden(DATA / "display" / f"{name}.live-{width}.txt", file.getvalue())


def test_live_redraws_on_a_terminal_and_keeps_to_its_height() -> None:
    clock = Clock()
    made, file = console(terminal=True)
    display = LiveDisplay(made, clock)
    display.start(Board(cells(*(f"wheel-cp{number}" for number in range(300, 400)))))
    clock.now += 1
    display.tick()
    drawn = file.getvalue()
    assert "… and 79 more" in drawn
    assert "0/100 cells" in drawn
    file.truncate(0)
    display.finish()
    assert " cp399" in file.getvalue()
    assert "more" not in file.getvalue()


def test_plain_shows_that_it_lives() -> None:
    clock = Clock()
    made, file = console()
    display = PlainDisplay(made, clock)
    progress = Progress(("a", "b"), clock)
    display.start(board(progress))
    clock.now += HEARTBEAT_S - 1
    display.tick()
    assert file.getvalue() == ""
    clock.now += 2
    display.tick()
    assert file.getvalue().strip() == "waiting for the engine"
    line = b'{"vertexes":[{"digest":"1","name":"[a c 1/2] RUN make","started":"2026-11-20T21:47:44Z"}]}'
    display.line(line, progress.feed(line))
    # An image is older, and still being resolved: the command is what runs.
    image = b'{"vertexes":[{"digest":"2","name":"[a r 1/1] FROM debian","started":"2026-11-20T21:47:43Z"}]}'
    display.line(image, progress.feed(image))
    clock.now += HEARTBEAT_S * 3
    display.tick()
    display.tick()
    output = status(logs=[{"vertex": "1", "stream": 1, "data": base64.b64encode(b"[13/48] gcc\nnote\n").decode()}])
    display.line(output, progress.feed(output), "cp312")
    clock.now += HEARTBEAT_S
    display.tick()
    assert file.getvalue().splitlines()[1:] == ["a  c  running for 1m30s", "a  c 13/48  running for 2m00s"]


def test_lines_name_the_cell_and_results_the_target() -> None:
    clock = Clock()
    made, file = console()
    display = PlainDisplay(made, clock, folds=True)
    progress = Progress(("wheel-cp312", "test-cp312"), clock, name=WORDS)
    display.start(board(progress))
    lines = (
        step("[requirements 1/1] RUN pip", "sha256:1"),
        step("[compile 1/1] RUN make", "sha256:2", cached=True),
        step("[test-cp312 test-env 1/1] RUN x", "sha256:3", error="exit code: 1"),
        step("[wheel-cp312] exporting to client directory", "sha256:4"),
    )
    for line in lines:
        display.line(line, progress.feed(line), "cp312")
    display.finish()
    assert [line.split() for line in file.getvalue().splitlines()] == [
        ["::group::steps", "of", "2", "targets"],
        ["cp312", "resolve", "build", "requirements", "7.0s"],
        ["cp312", "install", "requirements", "of", "the", "test", "FAILED", "7.0s"],
        ["cp312", "copy", "the", "result", "7.0s"],
        ["wheel-cp312", "done"],
        ["::endgroup::"],
    ]


def test_short_steps_and_cached_work_have_no_lines_of_their_own() -> None:
    clock = Clock()
    made, file = console()
    display = PlainDisplay(made, clock)
    progress = Progress(("wheel-cp312",), clock)
    display.start(board(progress))
    lines = (
        step("[system 1/1] RUN apt", "sha256:1", cached=True),
        step("[compile 1/1] RUN make", "sha256:2", cached=True),
        step("[demo-wheel 1/1] COPY x y", "sha256:3", completed="2026-01-01T00:00:00.9Z"),
        step("exporting to client directory", "sha256:4", completed="2026-01-01T00:00:00.1Z"),
    )
    for line in lines:
        display.line(line, progress.feed(line), "cp312")
    assert file.getvalue().split() == ["wheel-cp312", "cached"]


def test_a_cell_that_waits_for_the_step_of_another_says_so() -> None:
    clock = Clock()
    made, file = console(80)
    display = LiveDisplay(made, clock)
    shown = Board(cells("wheel-a", "wheel-b"))
    display.start(shown)
    for name in shown.targets:
        progress = Progress((name,), clock, name=WORDS)
        shown.adopt(progress)
        progress.feed(step("[system 1/1] RUN apt", "sha256:1", completed=None))
    display.finish()
    first, second = file.getvalue().splitlines()
    assert first.split()[1:5] == ["a", "compilers", "and", "Python"]
    assert "compilers and Python: waits for a" in second


def test_markup_of_containers_is_text() -> None:
    clock = Clock()
    made, file = console(120)
    times = '"started":"2026-11-20T21:47:44Z","completed":"2026-11-20T21:47:45Z"'
    line = f'{{"vertexes":[{{"digest":"1","name":"x [red]y[/red] [/]","error":"no",{times}}}]}}'.encode()
    for display in (PlainDisplay(made, clock), LiveDisplay(made, clock)):
        progress = Progress(("a",), clock)
        display.start(board(progress))
        display.line(line, progress.feed(line))
        display.finish()
    assert file.getvalue().count("x [red]y[/red] [/]") == 2


def test_raw_passes_json_only() -> None:
    made, file = console()
    replay("canceled", RawDisplay(made), Clock())
    recorded = (DATA / "rawjson" / "canceled.jsonl").read_text().splitlines()
    assert file.getvalue().splitlines() == [line for line in recorded if line.startswith("{")]


@pytest.mark.parametrize(
    ("mode", "terminal", "environ", "kind"),
    [
        ("auto", True, {}, LiveDisplay),
        ("auto", True, {"CI": "true"}, PlainDisplay),
        ("auto", False, {}, PlainDisplay),
        ("tty", False, {}, LiveDisplay),
        ("plain", True, {}, PlainDisplay),
        ("rawjson", True, {}, RawDisplay),
        ("quiet", True, {}, Listener),
    ],
)
def test_choice(mode: str, terminal: bool, environ: dict[str, str], kind: type) -> None:
    made, _ = console(terminal=terminal)
    assert type(choose(mode, made, environ)) is kind


def test_verbose_prints_what_steps_print_once() -> None:
    clock = Clock()
    made, file = console()
    bakes = {name: Progress((f"wheel-{name}",), clock) for name in ("a", "b")}
    display, shown = PlainDisplay(made, clock, streams=True), Board(cells("wheel-a", "wheel-b"))
    for progress in bakes.values():
        shown.adopt(progress)
    display.start(shown)
    began = b'{"vertexes":[{"digest":"1","name":"[wheel-%s compile 1/1] RUN make","started":"2026-11-20T21:47:44Z"}]}'
    output = status(logs=[{"vertex": "1", "stream": 1, "data": base64.b64encode(b"[13/48] gcc\nnote: x\n").decode()}])
    for name, progress in bakes.items():
        for line in (began % name.encode(), output):
            display.line(line, progress.feed(line), name)
    assert [line.split("  ", 1)[1].strip() for line in file.getvalue().splitlines()] == ["[13/48] gcc", "note: x"]
    quiet, file = console()
    replay("fresh", PlainDisplay(quiet, clock), clock)
    told, streamed = console()
    replay("fresh", PlainDisplay(told, clock, streams=True), clock)
    assert len(streamed.getvalue()) > len(file.getvalue())


def test_a_log_with_colours_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    made = SafeConsole(file=io.StringIO())
    assert made.is_terminal
    assert type(choose("auto", made, {})) is PlainDisplay


def test_unknown_mode() -> None:
    with pytest.raises(UsageError, match="unknown progress 'fancy'"):
        choose("fancy", console()[0], {})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (0.26, "0.3s"),
        (59.94, "59.9s"),
        (59.99, "1m00s"),
        (245.2, "4m05s"),
        (3599.6, "1h00m"),
        (7400, "2h03m"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "5 s"), (43, "45 s"), (92, "90 s"), (93, "2 min"), (260, "4 min"), (5399, "90 min"), (5400, "1.5 h")],
)
def test_estimates_are_round(seconds: float, text: str) -> None:
    assert about(seconds) == text


def test_step_that_bakes_share_is_told_once() -> None:
    clock = Clock()
    made, file = console(120)
    display = PlainDisplay(made, clock)
    bakes = [Progress((name,), clock, name=WORDS) for name in ("wheel-a", "wheel-b", "wheel-c")]
    display.start(Board(cells("wheel-a", "wheel-b", "wheel-c")))
    for progress in bakes[:2]:
        for line in (step("[base 1/1] RUN long", "sha256:1", completed=None),):
            display.line(line, progress.feed(line))
    clock.now += 3
    display.tick()
    # The engine stamps the step for each bake: as long, and a bit later.
    stamps = {"started": "2026-01-01T00:00:00.000776333Z", "completed": "2026-01-01T00:00:07.000777000Z"}
    for progress, more in zip(bakes, ({}, stamps, {"cached": True}), strict=True):
        shared, own = (
            step("[base 1/1] RUN long", "sha256:1", **more),
            step("[compile 1/1] RUN own", f"sha256:{id(progress)}"),
        )
        for line in (shared, own):
            display.line(line, progress.feed(line))
    told = [line.split() for line in file.getvalue().splitlines()]
    assert [" ".join(line) for line in told] == [
        "a install repair tools 7.0s",
        "a compile 7.0s",
        "b compile 7.0s",
        "c compile 7.0s",
    ]


def test_board_shows_the_newest_try_and_those_that_wait() -> None:
    clock = Clock()
    made, file = console(80)
    display = LiveDisplay(made, clock)
    shown = Board(cells("wheel-a", "wheel-b"))
    display.start(shown)
    for error in ("exit code: 1", ""):
        progress = Progress(("wheel-a",), clock)
        shown.adopt(progress)
        for line in (
            step("[compile 1/1] RUN x", "sha256:1", error=error),
            step("exporting to client directory", "sha256:2"),
        ):
            display.line(line, progress.feed(line))
    display.finish()
    rows = [line.split() for line in file.getvalue().splitlines()]
    assert [row[:3] for row in rows] == [["✓", "a", "done"], ["–", "b", "waiting"]]


def test_raw_lines_tell_their_cell() -> None:
    made, file = console()
    display = RawDisplay(made)
    for line in (step("[a 1/1] RUN x", "sha256:1"), b"{}", b"WARNING: text"):
        display.line(line, Progress(("wheel-a",)).feed(line), "cp311-x")
    first, second = (json.loads(line) for line in file.getvalue().splitlines())
    assert first["cell"] == "cp311-x"
    assert first["vertexes"][0]["digest"] == "sha256:1"
    assert second == {}


TIMES = {"compilers and Python": 40.0, "compile": 170.0, "repair": 5.0, "test": 99.0}
TIMES |= {"install the wheel and test requirements": 600.0}
"""What the steps of a cell took last time; there is no test this time, and what it needs is cached."""


def started(name: str, digest: str) -> bytes:
    return step(name, digest, completed=None)


def test_plain_says_how_long_a_cell_takes_once_a_command_runs() -> None:
    clock = Clock()
    made, file = console()
    display = PlainDisplay(made, clock)
    bakes = {name: Progress((f"wheel-{name}",), clock) for name in ("a", "b", "c")}
    shown = Board(cells("wheel-a", "wheel-b", "wheel-c"), {"a": TIMES, "b": TIMES})
    display.start(shown)
    for name, progress in bakes.items():
        shown.adopt(progress)
        graph = {
            "vertexes": [
                {"name": f"[{stage} 1/1] RUN x", "digest": f"sha256:{stage}-{name}"} for stage in ("compile", "repair")
            ]
        }
        lines = [
            json.dumps(graph).encode(),
            step("[system 1/1] RUN apt", "sha256:0", cached=True),
            # Everything of b is cached.
            step("[compile 1/1] RUN make", "sha256:compile-b", cached=True)
            if name == "b"
            else started("[compile 1/1] RUN make", f"sha256:compile-{name}"),
        ]
        for line in lines:
            display.line(line, progress.feed(line), name)
    display.tick()
    assert file.getvalue() == ""
    clock.now += 2
    display.tick()
    display.tick()
    assert file.getvalue().splitlines() == ["a        about 3 min, as last time"]


def test_a_row_has_the_time_that_is_left_until_it_is_done() -> None:
    clock = Clock()
    made, file = console(terminal=True)
    display = LiveDisplay(made, clock)
    progress = Progress(("wheel-a", "test-a"), clock)
    display.start(board(progress, a=TIMES))

    def drawn(line: bytes, seconds: float) -> str:
        display.line(line, progress.feed(line), "a")
        clock.now += seconds
        file.truncate(0)
        display.tick()
        return " ".join(file.getvalue().split())

    graph = {"vertexes": [{"name": "[compile 1/1] RUN x", "digest": "compile"}]}
    graph["vertexes"] += [{"name": "[repair 1/1] RUN x", "digest": "repair", "inputs": ["compile"]}]
    # Nothing that runs comes before it: it is cached, and the engine says so when the test needs it.
    graph["vertexes"] += [{"name": "[test-a test-env 1/1] RUN x", "digest": "test-env"}]
    # The test has a copy of a step that ran for the wheel.
    graph["vertexes"] += [{"name": "[test-a system 1/1] RUN apt", "digest": "copy"}]
    progress.feed(step("[wheel-a system 1/1] RUN apt", "system"))
    progress.feed(json.dumps(graph).encode())
    assert "compile 20.0s ~3 min left" in drawn(started("[compile 1/1] RUN make", "compile"), 20)
    counter = base64.b64encode(b"[12/48] gcc\n").decode()
    text = drawn(status(logs=[{"vertex": "compile", "stream": 1, "data": counter}]), 80)
    assert "compile 12/48 ━━━───────── 1m40s ~5 min left" in text, "as the first quarter of its files took"
    # No file ends any more, so the others will take longer, too.
    assert "~10 min left" in drawn(b"{}", 100)
    drawn(step("[compile 1/1] RUN make", "compile"), 1)
    assert "left" not in drawn(step("[repair 1/1] RUN make", "repair"), 1)
    # One row for the wheel and its test.
    assert "\n" not in file.getvalue()
    display.finish()


def test_a_run_has_a_total_when_all_of_its_cells_have_an_estimate() -> None:
    clock = Clock()
    made, file = console(terminal=True)
    display = LiveDisplay(made, clock)
    progress = Progress(("wheel-a", "wheel-b"), clock)
    display.start(board(progress, a=TIMES, b=TIMES))
    line = started("[wheel-a compile 1/1] RUN make", "compile")
    display.line(line, progress.feed(line), "a")
    clock.now += 20
    display.tick()
    assert re.search(r"0/2 cells +~\d+ min left", file.getvalue())
    display.finish()
    assert "cells" not in file.getvalue().splitlines()[-1]


def test_an_export_is_what_runs() -> None:
    clock = Clock()
    for kind in (PlainDisplay, LiveDisplay):
        made, file = console(terminal=kind is LiveDisplay)
        display = kind(made, clock)
        progress = Progress(("dev-a",), clock)
        display.start(board(progress))
        for line in (step("[image 1/1] RUN x", "1"), started("exporting to image", "2")):
            display.line(line, progress.feed(line), "a")
        file.truncate(0)
        clock.now += HEARTBEAT_S
        display.tick()
        assert "write the image" in file.getvalue()
        assert "install" not in file.getvalue()
        display.finish()


def test_a_step_that_began_twice_took_what_it_ran() -> None:
    clock = Clock()
    made, file = console()
    display = PlainDisplay(made, clock)
    progress = Progress(("wheel-a",), clock)
    display.start(board(progress))
    lines = (
        step("[x 1/1] FROM debian", "1", completed="2026-01-01T00:00:01Z"),
        step("[compile 1/1] RUN x", "2", completed="2026-01-01T00:01:00Z"),
        step("[x 1/1] FROM debian", "1", started="2026-01-01T00:01:00Z", completed="2026-01-01T00:01:03Z"),
    )
    for line in lines:
        display.line(line, progress.feed(line), "a")
    assert [line.split() for line in file.getvalue().splitlines()] == [
        ["a", "compile", "1m00s"],
        ["a", "image", "debian", "4.0s"],
    ]
    assert times_of(progress.targets.values()) == {"compile": 60.0, "image debian": 3.0}


def test_what_another_build_ran_before_is_cached() -> None:
    clock = Clock()
    made, file = console()
    display = PlainDisplay(made, clock)
    progress = Progress(("wheel-a",), clock)
    display.start(board(progress))
    now = {"started": "2026-01-01T00:01:00Z", "completed": "2026-01-01T00:01:05Z"}
    lines = (
        step("[internal] load build definition from Dockerfile", "0", **now),
        step("[system 1/1] RUN apt", "1", completed=None),
        step("[system 1/1] RUN apt", "1"),
        step("[compile 1/1] RUN make", "2", **now, cached=True),
        step("exporting to client directory", "3", **{**now, "completed": "2026-01-01T00:01:01Z"}),
    )
    for line in lines:
        display.line(line, progress.feed(line), "a")
    assert file.getvalue().split() == ["wheel-a", "cached"]
    assert times_of(progress.targets.values()) == {}
    assert [item.seconds for item in progress.targets["wheel-a"].steps.values()] == [0, 5]


@pytest.mark.parametrize("succeeded", [True, False])
def test_a_target_that_exports_nothing_is_done_with_its_bake(*, succeeded: bool) -> None:
    clock = Clock()
    shown = {}
    for kind in (PlainDisplay, LiveDisplay):
        made, shown[kind] = console()
        display = kind(made, clock)
        progress = Progress(("test-a",), clock)
        display.start(board(progress))
        lines = (
            # BuildKit found an equal step, and continued with that.
            step("[test 1/2] RUN x", "1", error="context canceled"),
            step("[test 2/2] RUN x", "2", completed="2026-01-01T00:00:01Z"),
        )
        for line in lines:
            display.line(line, progress.feed(line), "a")
        progress.close(succeeded=succeeded)
        display.finish()
    assert shown[PlainDisplay].getvalue().split() == (["test-a", "done"] if succeeded else [])
    assert shown[LiveDisplay].getvalue().split()[:3] == (["✓", "a", "done"] if succeeded else ["–", "a", "test"])
