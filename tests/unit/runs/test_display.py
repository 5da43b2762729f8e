"""What people see of recorded bakes."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Mapping
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


class Screen:
    """A display of a bake of targets, on a console; a test moves its clock."""

    def __init__(
        self,
        kind: Callable[..., Listener],
        *targets: str,
        width: int = 80,
        terminal: bool = False,
        times: Mapping[str, dict[str, float]] | None = None,
    ) -> None:
        self.now = 100.0
        self.console = console(width, terminal=terminal)
        self.display = kind(self.console, self.clock)
        # ``wheel-cp311`` is a target of cp311.
        self.board = Board({name: name.partition("-")[2] or name for name in targets}, times or {})
        self.display.start(self.board)

    def clock(self) -> float:
        return self.now

    def bake(self, *targets: str) -> Progress:
        """Return the progress of one bake of targets, or of all."""
        progress = Progress(targets or [*self.board.targets], self.clock, name=WORDS)
        self.board.adopt(progress)
        return progress

    def feed(self, progress: Progress, *lines: bytes, cell: str = "") -> None:
        for line in lines:
            self.display.line(line, progress.feed(line), cell)

    def tick(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.display.tick()

    def clear(self) -> None:
        self.console.file.truncate(0)

    @property
    def text(self) -> str:
        file = self.console.file
        assert isinstance(file, io.StringIO)
        return file.getvalue()

    @property
    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.text.splitlines()]


def console(width: int = 80, *, terminal: bool = False) -> SafeConsole:
    return SafeConsole(
        soft_wrap=False,
        file=io.StringIO(),
        width=width,
        height=25,
        force_terminal=terminal,
        color_system=None,
        legacy_windows=False,
    )


def status(**fields: object) -> bytes:
    """Return a line of the stream."""
    return json.dumps(fields).encode()


def step(name: str, digest: str, **more: object) -> bytes:
    """Return a line of the stream that tells of one vertex."""
    times = {"started": "2026-01-01T00:00:00Z", "completed": "2026-01-01T00:00:07Z"}
    return status(vertexes=[{"name": name, "digest": digest, **times, **more}])


def started(name: str, digest: str, **more: object) -> bytes:
    return step(name, digest, completed=None, **more)


def printed(digest: str, text: bytes) -> bytes:
    return status(logs=[{"vertex": digest, "stream": 1, "data": base64.b64encode(text).decode()}])


def replay(name: str, kind: Callable[..., Listener], width: int = 80) -> str:
    """Return what a display shows of a recorded bake, whose steps have the names of its recipe."""
    screen = Screen(kind, *TARGETS[name], width=width)
    progress = Progress(TARGETS[name], screen.clock)
    screen.board.adopt(progress)
    for raw in (DATA / "rawjson" / f"{name}.jsonl").read_bytes().splitlines(keepends=True):
        screen.now += 0.125
        screen.feed(progress, raw)
        screen.tick()
    screen.display.finish()
    return screen.text


def raw(made: SafeConsole, _clock: Callable[[], float]) -> RawDisplay:
    return RawDisplay(made)


@pytest.mark.parametrize("name", TARGETS)
def test_plain(name: str, golden: Golden) -> None:
    golden(DATA / "display" / f"{name}.plain.txt", replay(name, PlainDisplay))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", TARGETS)
def test_live_final_state(name: str, width: int, golden: Golden) -> None:
    text = replay(name, LiveDisplay, width)
    assert all(len(line) <= width for line in text.splitlines())
    golden(DATA / "display" / f"{name}.live-{width}.txt", text)


def test_live_redraws_on_a_terminal_and_keeps_to_its_height() -> None:
    screen = Screen(LiveDisplay, *(f"wheel-cp{number}" for number in range(300, 400)), terminal=True)
    screen.tick(1)
    assert "… and 79 more" in screen.text
    assert "0/100 cells" in screen.text
    screen.clear()
    screen.display.finish()
    assert " cp399" in screen.text
    assert "more" not in screen.text


def test_plain_shows_that_it_lives() -> None:
    screen = Screen(PlainDisplay, "a", "b")
    progress = screen.bake()
    screen.tick(HEARTBEAT_S - 1)
    assert screen.text == ""
    screen.tick(2)
    assert screen.text.strip() == "waiting for the engine"
    screen.feed(
        progress,
        started("[a c 1/2] RUN make", "1", started="2026-11-20T21:47:44Z"),
        # An image is older, and still being resolved: the command is what runs.
        started("[a r 1/1] FROM debian", "2", started="2026-11-20T21:47:43Z"),
    )
    screen.tick(HEARTBEAT_S * 3)
    screen.tick()
    screen.feed(progress, printed("1", b"[13/48] gcc\nnote\n"), cell="cp312")
    screen.tick(HEARTBEAT_S)
    assert screen.text.splitlines()[1:] == ["a  c  running for 1m30s", "a  c 13/48  running for 2m00s"]


def test_lines_name_the_cell_and_results_the_target() -> None:
    screen = Screen(partial(PlainDisplay, folds=True), "wheel-cp312", "test-cp312")
    screen.feed(
        screen.bake(),
        step("[requirements 1/1] RUN pip", "sha256:1"),
        step("[compile 1/1] RUN make", "sha256:2", cached=True),
        step("[test-cp312 test-env 1/1] RUN x", "sha256:3", error="exit code: 1"),
        step("[wheel-cp312] exporting to client directory", "sha256:4"),
        cell="cp312",
    )
    screen.display.finish()
    assert screen.rows == [
        ["::group::steps", "of", "2", "targets"],
        ["cp312", "resolve", "build", "requirements", "7.0s"],
        ["cp312", "install", "requirements", "of", "the", "test", "FAILED", "7.0s"],
        ["cp312", "copy", "the", "result", "7.0s"],
        ["wheel-cp312", "done"],
        ["::endgroup::"],
    ]


def test_short_steps_and_cached_work_have_no_lines_of_their_own() -> None:
    screen = Screen(PlainDisplay, "wheel-cp312")
    screen.feed(
        screen.bake(),
        step("[system 1/1] RUN apt", "sha256:1", cached=True),
        step("[compile 1/1] RUN make", "sha256:2", cached=True),
        step("[demo-wheel 1/1] COPY x y", "sha256:3", completed="2026-01-01T00:00:00.9Z"),
        step("exporting to client directory", "sha256:4", completed="2026-01-01T00:00:00.1Z"),
        cell="cp312",
    )
    assert screen.rows == [["wheel-cp312", "cached"]]


def test_a_cell_that_waits_for_the_step_of_another_says_so() -> None:
    screen = Screen(LiveDisplay, "wheel-a", "wheel-b")
    for name in ("wheel-a", "wheel-b"):
        screen.bake(name).feed(started("[system 1/1] RUN apt", "sha256:1"))
    screen.display.finish()
    first, second = screen.text.splitlines()
    assert first.split()[1:5] == ["a", "compilers", "and", "Python"]
    assert "compilers and Python: waits for a" in second


@pytest.mark.parametrize("kind", [PlainDisplay, LiveDisplay])
def test_markup_of_containers_is_text(kind: type[Listener]) -> None:
    screen = Screen(kind, "a", width=120)
    screen.feed(screen.bake(), step("x [red]y[/red] [/]", "1", error="no"))
    screen.display.finish()
    assert screen.text.count("x [red]y[/red] [/]") == 1


def test_raw_passes_json_only() -> None:
    recorded = (DATA / "rawjson" / "canceled.jsonl").read_text().splitlines()
    assert replay("canceled", raw).splitlines() == [line for line in recorded if line.startswith("{")]


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
    assert type(choose(mode, console(terminal=terminal), environ)) is kind


def test_verbose_prints_what_steps_print_once() -> None:
    verbose = partial(PlainDisplay, streams=True)
    screen = Screen(verbose, "wheel-a", "wheel-b")
    for name in ("a", "b"):
        began = started(f"[wheel-{name} compile 1/1] RUN make", "1")
        screen.feed(screen.bake(f"wheel-{name}"), began, printed("1", b"[13/48] gcc\nnote: x\n"), cell=name)
    assert [line.split("  ", 1)[1].strip() for line in screen.text.splitlines()] == ["[13/48] gcc", "note: x"]
    assert len(replay("fresh", verbose)) > len(replay("fresh", PlainDisplay))


def test_a_log_with_colours_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    made = SafeConsole(file=io.StringIO())
    assert made.is_terminal
    assert type(choose("auto", made, {})) is PlainDisplay


def test_unknown_mode() -> None:
    with pytest.raises(UsageError, match="unknown progress 'fancy'"):
        choose("fancy", console(), {})


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
    screen = Screen(PlainDisplay, "wheel-a", "wheel-b", "wheel-c", width=120)
    bakes = [screen.bake(name) for name in ("wheel-a", "wheel-b", "wheel-c")]
    for progress in bakes[:2]:
        screen.feed(progress, started("[base 1/1] RUN long", "sha256:1"))
    screen.tick(3)
    # The engine stamps the step for each bake: as long, and a bit later.
    stamps = {"started": "2026-01-01T00:00:00.000776333Z", "completed": "2026-01-01T00:00:07.000777000Z"}
    ends: list[dict[str, object]] = [{}, {**stamps}, {"cached": True}]
    for progress, end in zip(bakes, ends, strict=True):
        own = step("[compile 1/1] RUN own", f"sha256:{id(progress)}")
        screen.feed(progress, step("[base 1/1] RUN long", "sha256:1", **end), own)
    assert [" ".join(row) for row in screen.rows] == [
        "a install repair tools 7.0s",
        "a compile 7.0s",
        "b compile 7.0s",
        "c compile 7.0s",
    ]


def test_board_shows_the_newest_try_and_those_that_wait() -> None:
    screen = Screen(LiveDisplay, "wheel-a", "wheel-b")
    for error in ("exit code: 1", ""):
        failed, exported = step("[compile 1/1] RUN x", "1", error=error), step("exporting to client directory", "2")
        screen.feed(screen.bake("wheel-a"), failed, exported)
    screen.display.finish()
    assert [row[:3] for row in screen.rows] == [["✓", "a", "done"], ["–", "b", "waiting"]]


def test_raw_lines_tell_their_cell() -> None:
    screen = Screen(raw, "wheel-a")
    screen.feed(screen.bake(), step("[a 1/1] RUN x", "sha256:1"), b"{}", b"WARNING: text", cell="cp311-x")
    first, second = (json.loads(line) for line in screen.text.splitlines())
    assert first["cell"] == "cp311-x"
    assert first["vertexes"][0]["digest"] == "sha256:1"
    assert second == {}


TIMES = {"compilers and Python": 40.0, "compile": 170.0, "repair": 5.0, "test": 99.0}
TIMES |= {"install the wheel and test requirements": 600.0}
"""What the steps of a cell took last time; there is no test this time, and what it needs is cached."""


def test_plain_says_how_long_a_cell_takes_once_a_command_runs() -> None:
    screen = Screen(PlainDisplay, "wheel-a", "wheel-b", "wheel-c", times={"a": TIMES, "b": TIMES})
    for name in "abc":
        stages = ("compile", "repair")
        graph = [{"name": f"[{stage} 1/1] RUN x", "digest": f"sha256:{stage}-{name}"} for stage in stages]
        screen.feed(
            screen.bake(f"wheel-{name}"),
            status(vertexes=graph),
            step("[system 1/1] RUN apt", "sha256:0", cached=True),
            # Everything of b is cached.
            step("[compile 1/1] RUN make", "sha256:compile-b", cached=True)
            if name == "b"
            else started("[compile 1/1] RUN make", f"sha256:compile-{name}"),
            cell=name,
        )
    screen.tick()
    assert screen.text == ""
    screen.tick(2)
    screen.tick()
    assert screen.text.splitlines() == ["a        about 3 min, as last time"]


def test_a_row_has_the_time_that_is_left_until_it_is_done() -> None:
    screen = Screen(LiveDisplay, "wheel-a", "test-a", terminal=True, times={"a": TIMES})
    progress = screen.bake()

    def drawn(line: bytes, seconds: float) -> str:
        screen.feed(progress, line, cell="a")
        screen.clear()
        screen.tick(seconds)
        return " ".join(screen.text.split())

    graph = [
        {"name": "[compile 1/1] RUN x", "digest": "compile"},
        {"name": "[repair 1/1] RUN x", "digest": "repair", "inputs": ["compile"]},
        # Nothing that runs comes before it: it is cached, and the engine says so when the test needs it.
        {"name": "[test-a test-env 1/1] RUN x", "digest": "test-env"},
        # The test has a copy of a step that ran for the wheel.
        {"name": "[test-a system 1/1] RUN apt", "digest": "copy"},
    ]
    progress.feed(step("[wheel-a system 1/1] RUN apt", "system"))
    progress.feed(status(vertexes=graph))
    assert "compile 20.0s ~3 min left" in drawn(started("[compile 1/1] RUN make", "compile"), 20)
    text = drawn(printed("compile", b"[12/48] gcc\n"), 80)
    assert "compile 12/48 ━━━───────── 1m40s ~5 min left" in text, "as the first quarter of its files took"
    # No file ends any more, so the others will take longer, too.
    assert "~10 min left" in drawn(b"{}", 100)
    drawn(step("[compile 1/1] RUN make", "compile"), 1)
    assert "left" not in drawn(step("[repair 1/1] RUN make", "repair"), 1)
    # One row for the wheel and its test.
    assert "\n" not in screen.text
    screen.display.finish()


def test_a_run_has_a_total_when_all_of_its_cells_have_an_estimate() -> None:
    screen = Screen(LiveDisplay, "wheel-a", "wheel-b", terminal=True, times={"a": TIMES, "b": TIMES})
    screen.feed(screen.bake(), started("[wheel-a compile 1/1] RUN make", "compile"), cell="a")
    screen.tick(20)
    assert re.search(r"0/2 cells +~\d+ min left", screen.text)
    screen.display.finish()
    assert "cells" not in screen.text.splitlines()[-1]


@pytest.mark.parametrize("kind", [PlainDisplay, LiveDisplay])
def test_an_export_is_what_runs(kind: type[Listener]) -> None:
    screen = Screen(kind, "dev-a", terminal=kind is LiveDisplay)
    screen.feed(screen.bake(), step("[image 1/1] RUN x", "1"), started("exporting to image", "2"), cell="a")
    screen.clear()
    screen.tick(HEARTBEAT_S)
    assert "write the image" in screen.text
    assert "install" not in screen.text
    screen.display.finish()


def test_a_step_that_began_twice_took_what_it_ran() -> None:
    screen = Screen(PlainDisplay, "wheel-a")
    progress = screen.bake()
    screen.feed(
        progress,
        step("[x 1/1] FROM debian", "1", completed="2026-01-01T00:00:01Z"),
        step("[compile 1/1] RUN x", "2", completed="2026-01-01T00:01:00Z"),
        step("[x 1/1] FROM debian", "1", started="2026-01-01T00:01:00Z", completed="2026-01-01T00:01:03Z"),
        cell="a",
    )
    assert screen.rows == [["a", "compile", "1m00s"], ["a", "image", "debian", "4.0s"]]
    assert times_of(progress.targets.values()) == {"compile": 60.0, "image debian": 3.0}


def test_what_another_build_ran_before_is_cached() -> None:
    screen = Screen(PlainDisplay, "wheel-a")
    progress = screen.bake()
    now = {"started": "2026-01-01T00:01:00Z", "completed": "2026-01-01T00:01:05Z"}
    screen.feed(
        progress,
        step("[internal] load build definition from Dockerfile", "0", **now),
        started("[system 1/1] RUN apt", "1"),
        step("[system 1/1] RUN apt", "1"),
        step("[compile 1/1] RUN make", "2", **now, cached=True),
        step("exporting to client directory", "3", **{**now, "completed": "2026-01-01T00:01:01Z"}),
        cell="a",
    )
    assert screen.rows == [["wheel-a", "cached"]]
    assert times_of(progress.targets.values()) == {}
    assert [item.seconds for item in progress.targets["wheel-a"].steps.values()] == [0, 5]


@pytest.mark.parametrize(
    ("kind", "succeeded", "shown"),
    [
        (PlainDisplay, True, ["test-a", "done"]),
        (PlainDisplay, False, []),
        (LiveDisplay, True, ["✓", "a", "done"]),
        (LiveDisplay, False, ["–", "a", "test"]),
    ],
)
def test_a_target_that_exports_nothing_is_done_with_its_bake(
    kind: type[Listener], succeeded: bool, shown: list[str]
) -> None:
    screen = Screen(kind, "test-a")
    progress = screen.bake()
    screen.feed(
        progress,
        # BuildKit found an equal step, and continued with that.
        step("[test 1/2] RUN x", "1", error="context canceled"),
        step("[test 2/2] RUN x", "2", completed="2026-01-01T00:00:01Z"),
        cell="a",
    )
    progress.close(succeeded=succeeded)
    screen.display.finish()
    assert screen.text.split()[:3] == shown
