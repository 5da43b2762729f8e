"""The rawjson demultiplexer, on streams recorded from buildx 0.29.1 and on made-up ones."""

from __future__ import annotations

import base64
import json
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakery.runs.buildx.progress import Event, LogLines, Progress, StepFinished, StepStarted
from bakery.runs.buildx.rawjson import MAX_LINE_BYTES, LineBuffer, Output, Role, clean, parse
from bakery.runs.buildx.step_names import name_step

RECORDED = Path(__file__).parents[2] / "data" / "rawjson"
TWO = ("wheel-cp311", "wheel-cp312")


def replay(name: str, targets: tuple[str, ...]) -> tuple[Progress, list[Event]]:
    progress = Progress(targets, clock=lambda: 1.0)
    events: list[Event] = []
    for line in (RECORDED / f"{name}.jsonl").read_bytes().splitlines(keepends=True):
        events += progress.feed(line)
    return progress, events + progress.close(succeeded=False)


def status(**entries: object) -> bytes:
    return json.dumps(entries).encode()


def vertex(digest: str, name: str, **more: object) -> dict[str, object]:
    return {"digest": digest, "name": name, **more}


def log(digest: str, data: bytes) -> dict[str, object]:
    return {"vertex": digest, "stream": 1, "data": base64.b64encode(data).decode()}


STARTED = "2026-11-20T21:47:44.5Z"
ENDED = "2026-11-20T21:47:46.753999999Z"


def test_fresh_bake() -> None:
    progress, events = replay("fresh", TWO)
    for name in TWO:
        state = progress.targets[name]
        assert (state.done, state.total, state.cached, state.exported, state.failure) == (7, 7, 0, True, None)
        assert state.current is not None
        assert state.current.label.title == "exporting to client directory"
    assert progress.targets["wheel-cp312"].last_line == "line 5 of cp312"
    assert progress.failed_steps() == []
    started = [event.title for event in events if isinstance(event, StepStarted)]
    finished = [event.title for event in events if isinstance(event, StepFinished)]
    # The two targets share the base and the toolkit; each other step is told once for each of them.
    assert len(started) == len(finished) == 2 + 2 * 6
    assert len([title for title in started if title.startswith("[toolkit 1/1]")]) == 1


def test_log_of_shared_step_belongs_to_all_its_targets() -> None:
    _, events = replay("fresh", TWO)
    logs: dict[str, list[str]] = {name: [] for name in TWO}
    for event in events:
        if isinstance(event, LogLines):
            for name in event.targets:
                logs[name] += event.lines
    for name in TWO:
        cell = name.removeprefix("wheel-")
        assert logs[name][:3] == ["shared work", "progress 100%", f"requirements for {cell}"]
        assert logs[name][-1] == f"line 5 of {cell}"


def test_cached_bake() -> None:
    progress, events = replay("cached", TWO)
    assert [(state.cached, state.total) for state in progress.targets.values()] == [(7, 7), (7, 7)]
    steps = [event for event in events if isinstance(event, StepFinished) and event.title.startswith("[")]
    assert all(event.cached for event in steps)
    assert not any(isinstance(event, StepStarted) and event.title.startswith("[") for event in events)


def test_single_target_owns_everything() -> None:
    progress, _ = replay("single", ("wheel-cp311",))
    state = progress.targets["wheel-cp311"]
    assert (state.total, state.cached, state.exported) == (7, 7, True)


def test_failing_target_and_canceled_sibling() -> None:
    progress, _ = replay("canceled", ("w-fast", "w-slow", "w-bad"))
    assert {name: state.exported for name, state in progress.targets.items()} == {
        "w-fast": True,
        "w-slow": False,
        "w-bad": False,
    }
    (failed,) = progress.failed_steps()
    assert list(failed.targets) == ["w-bad"]
    assert list(failed.output.tail) == ["boom"]
    assert progress.targets["w-slow"].failure is None
    assert progress.targets["w-bad"].failure
    assert progress.targets["w-bad"].failure.error.endswith("exit code: 3")
    assert progress.blamed() == "w-bad"


def test_failure_of_shared_step() -> None:
    progress, events = replay("shared-failure", ("sh-1", "sh-2"))
    (failed,) = progress.failed_steps()
    assert sorted(failed.targets) == ["sh-1", "sh-2"]
    assert len([event for event in events if isinstance(event, StepFinished) and event.error]) == 1


def test_failure_before_any_step() -> None:
    progress, _ = replay("no-image", ("a", "b"))
    (failed,) = progress.failed_steps()
    assert failed.label.title == "[internal] load metadata for docker.io/library/nosuchimage:1"
    assert list(failed.targets) == ["a"]


def test_text_is_kept_apart() -> None:
    progress, _ = replay("bad-file", TWO)
    assert progress.failed_steps() == []
    assert progress.blamed() == ""
    assert progress.texts[0] == "bake.hcl:11"
    assert progress.texts[-1].startswith("ERROR: bake.hcl:11,41-12,1: Invalid single-argument block definition")


def test_target_that_joins_late_gets_the_log() -> None:
    progress = Progress(("a", "b"))
    progress.feed(status(vertexes=[vertex("1", "[a base 1/2] RUN x", started=STARTED)], logs=[log("1", b"early\n")]))
    events = progress.feed(status(vertexes=[vertex("1", "[b base 1/2] RUN x", started=STARTED)]))
    assert events == [LogLines(("b",), "[base 1/2] RUN x", ("early",), "1")]
    assert progress.feed(status(logs=[log("1", b"late\n")])) == [
        LogLines(("a", "b"), "[base 1/2] RUN x", ("late",), "1")
    ]


def test_step_that_begins_again() -> None:
    progress = Progress(("a",))
    name = "[1/2] FROM debian"
    done = vertex("1", name, started=STARTED, completed=STARTED)
    assert len(progress.feed(status(vertexes=[done]))) == 2
    assert progress.feed(status(vertexes=[vertex("1", name, started=STARTED)])) == []
    assert progress.steps["1"].running
    (event,) = progress.feed(status(vertexes=[vertex("1", name, started=STARTED, completed=ENDED)]))
    assert isinstance(event, StepFinished)
    assert event.seconds == pytest.approx(2.254, abs=1e-3)


def test_cache_that_cannot_be_read_is_no_failure() -> None:
    progress = Progress(("a",))
    name = "importing cache manifest from local:123"
    error = "could not read x: open x/index.json: no such file or directory"
    progress.feed(status(vertexes=[vertex("1", name, started=STARTED, completed=ENDED, error=error)]))
    assert progress.failed_steps() == []
    assert progress.targets["a"].failure is None
    # The first build finds none: there is nothing to say of it.
    assert progress.cache_troubles() == []


def test_what_went_wrong_with_a_cache_is_told_once() -> None:
    progress = Progress(("a", "b"))
    for digest, name, error in (
        ("1", "[a] importing cache manifest from gha:1", "dial tcp 127.0.0.1:1: connect: connection refused"),
        ("2", "[b] importing cache manifest from gha:1", "dial tcp 127.0.0.1:1: connect: connection refused"),
        ("3", "[a] exporting to GitHub Actions Cache", "maximum timeout reached"),
        ("4", "[b] exporting cache to registry", "error writing layer blob: not found"),
    ):
        progress.feed(status(vertexes=[vertex(digest, name, started=STARTED, completed=ENDED, error=error)]))
    assert progress.cache_troubles() == [
        "importing cache manifest from gha:1: dial tcp 127.0.0.1:1: connect: connection refused",
        "exporting to GitHub Actions Cache: maximum timeout reached",
        "exporting cache to registry: error writing layer blob: not found",
    ]
    assert progress.failed_steps() == []
    assert not progress.targets["a"].exported


def test_a_layer_of_an_imported_cache_that_is_fetched_late_was_not_run() -> None:
    progress = Progress(("a",))
    known = {"inputs": ["0"], "started": STARTED, "completed": STARTED, "cached": True}
    progress.feed(status(vertexes=[vertex("1", "[tools 1/1] RUN x", **known)]))
    # BuildKit tells of it without its inputs.
    progress.feed(status(vertexes=[vertex("1", "[tools 1/1] RUN x", started=STARTED)]))
    (event,) = progress.feed(status(vertexes=[vertex("1", "[tools 1/1] RUN x", started=STARTED, completed=ENDED)]))
    assert isinstance(event, StepFinished)
    assert event.cached
    assert progress.targets["a"].cached == 1
    # One that begins again with them is run: its layer could not be had.
    progress.feed(status(vertexes=[vertex("2", "[b 1/1] RUN y", **known)]))
    progress.feed(status(vertexes=[vertex("2", "[b 1/1] RUN y", inputs=["0"], started=STARTED, completed=ENDED)]))
    assert progress.targets["a"].cached == 1


def test_elapsed_time_stops_at_the_end() -> None:
    now = [100.0]
    progress = Progress(("a",), clock=lambda: now[0])
    progress.feed(status(vertexes=[vertex("1", "[w 1/1] RUN x", started=STARTED)]))
    now[0] = 107.0
    state = progress.targets["a"]
    assert state.elapsed(now[0]) == 7.0
    progress.feed(status(vertexes=[vertex("1", "[w 1/1] RUN x", started=STARTED, completed=ENDED)]))
    now[0] = 200.0
    assert state.elapsed(now[0]) == 7.0


def test_memory_is_bounded() -> None:
    progress = Progress(("a",))
    progress.feed(status(vertexes=[vertex("1", "[w 1/1] RUN x", started=STARTED)]))
    for number in range(2000):
        progress.feed(status(logs=[log("1", b"%d\n" % number + b"x" * 1000)]))
        progress.feed(b"text %d" % number)
    assert len(progress.steps["1"].output.tail) == 200
    assert len(progress.texts) <= 501


@pytest.mark.parametrize(
    ("name", "target", "role", "title"),
    [
        ("[wheel-cp311 compile  2/10] RUN a\nb", "wheel-cp311", Role.STEP, "[compile 2/10] RUN a"),
        ("[compile 2/10] RUN a", "", Role.STEP, "[compile 2/10] RUN a"),
        ("[wheel-cp311 linux/arm64 compile 1/2] RUN a", "wheel-cp311", Role.STEP, "[linux/arm64 compile 1/2] RUN a"),
        ("[wheel-cp311 1/2] FROM x@sha256:1", "wheel-cp311", Role.STEP, "[1/2] FROM x@sha256:1"),
        ("[wheel-cp311 internal] load .dockerignore", "wheel-cp311", Role.INTERNAL, "[internal] load .dockerignore"),
        ("[wheel-cp311] exporting to client directory", "wheel-cp311", Role.EXPORT, "exporting to client directory"),
        ("exporting to image", "", Role.EXPORT, "exporting to image"),
        ("[wheel-cp311] exporting cache to gha", "wheel-cp311", Role.CACHE, "exporting cache to gha"),
        ("[auth] library/debian:pull token", "", Role.INTERNAL, "[auth] library/debian:pull token"),
        ("", "", Role.INTERNAL, ""),
    ],
)
def test_names(name: str, target: str, role: Role, title: str) -> None:
    label = parse(name, TWO)
    assert (label.target, label.role, label.title) == (target, role, title)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain", "plain"),
        (b"10%\r50%\r100%", "100%"),
        (b"windows\r", "windows"),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07x", "red x"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        (b"bell\x07 \x9b31m del\x7f", "bell \ufffd31m del"),
        (b"\x1b]52;c;ZXZpbA==\x1b\\text", "text"),
        (b"", ""),
    ],
)
def test_lines_are_cleaned(raw: bytes, text: str) -> None:
    assert clean(raw) == text


def test_progress_bar_does_not_grow() -> None:
    buffer = LineBuffer()
    for number in range(100_000):
        buffer.feed(b"%d%%\r" % number)
    assert buffer.unfinished == "99999%"
    assert buffer.feed(b"done\n") == ["done"]


def test_endless_line_is_cut() -> None:
    buffer = LineBuffer()
    assert [len(line) for _ in range(3) for line in buffer.feed(b"x" * MAX_LINE_BYTES)] == [2 * MAX_LINE_BYTES]


@given(st.lists(st.text(alphabet="abcé☃", max_size=8), max_size=8), st.lists(st.integers(0, 100), max_size=10))
def test_pieces_do_not_matter(lines: list[str], cuts: list[int]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    output = Output()
    found: list[str] = []
    for begin, end in pairwise(edges):
        found += output.feed(1, data[begin:end])[0]
    assert found + output.flush() == lines


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(["vertexes", "logs", "warnings", "digest", "vertex", "name", "started", "data", "short"]),
            children,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON | st.dictionaries(st.sampled_from(["vertexes", "logs", "warnings"]), st.lists(JSON, max_size=3)))
def test_any_json_is_survived(document: object) -> None:
    progress = Progress(TWO)
    progress.feed(json.dumps(document).encode())
    progress.close(succeeded=False)


@given(st.binary())
def test_any_bytes_are_survived(line: bytes) -> None:
    progress = Progress(TWO)
    progress.feed(line)
    progress.close(succeeded=False)


def test_what_is_baked_beside_tells_nothing_of_its_own() -> None:
    name = partial(name_step, stages={"requirements": "resolve build requirements"})
    progress = Progress(("wheel-a",), clock=lambda: 1.0, name=name, beside=("materials-a",))
    alone = vertex("1", "[materials-a ingredients 1/2] COPY x", started=STARTED)
    assert progress.feed(status(vertexes=[alone], logs=[log("1", b"x\n")])) == []
    assert progress.feed(status(vertexes=[{**alone, "completed": ENDED}])) == []
    shared = vertex("2", "[materials-a requirements 1/2] RUN y", started=STARTED)
    assert progress.feed(status(vertexes=[shared], logs=[log("2", b"early\n")])) == []
    # The wheel's own name for the step comes later: what was printed by then is told with it.
    named = {**shared, "name": "[wheel-a requirements 1/2] RUN y"}
    events = progress.feed(status(vertexes=[named]))
    assert events == [
        LogLines(("wheel-a",), "[requirements 1/2] RUN y", ("early",), "2"),
        StepStarted(("wheel-a",), "[requirements 1/2] RUN y", "2", "resolve build requirements"),
    ]
    assert list(progress.targets) == ["wheel-a"]
    assert progress.targets["wheel-a"].total == 1
    failed = progress.feed(status(vertexes=[{**alone, "completed": ENDED, "error": "no space"}]))
    assert failed == []
    assert [step.error for step in progress.failed_steps()] == ["no space"]


def test_bytes_that_were_told_before_are_no_progress() -> None:
    now = 0.0
    progress = Progress(("a",), clock=lambda: now)

    def told(**entries: object) -> float:
        progress.feed(status(**entries))
        return progress.moved

    now = 1.0
    assert told(vertexes=[vertex("f", "[base 1/1] FROM x", started=STARTED)]) == 1.0
    now = 2.0
    assert told(statuses=[{"id": "sha256:1", "vertex": "f", "current": 5}]) == 2.0
    now = 3.0
    assert told(statuses=[{"id": "sha256:1", "vertex": "f", "current": 5}]) == 2.0
    assert told(statuses=[{"id": "sha256:1", "vertex": "f", "current": 6}]) == 3.0
    now = 4.0
    assert told(logs=[log("f", b"x")]) == 4.0


@pytest.mark.parametrize(
    ("name", "more", "may"),
    [
        ("[compile 1/1] RUN make", {"inputs": ["x"]}, True),
        ("exporting to GitHub Actions Cache", {}, True),
        ("exporting cache to registry", {}, True),
        ("exporting to image", {}, True),
        ("[base 1/1] FROM debian", {}, False),
        ("importing cache manifest from gha:1", {}, False),
        ("[compile 1/1] COPY . .", {"inputs": ["x"]}, False),
    ],
)
def test_what_may_be_still(name: str, more: dict[str, object], may: bool) -> None:
    progress = Progress(("a",))
    progress.feed(status(vertexes=[vertex("v", name, started=STARTED, **more)]))
    assert progress.may_be_still == may
    progress.feed(status(vertexes=[vertex("v", name, started=STARTED, completed=ENDED, **more)]))
    assert not progress.may_be_still


def test_a_layer_that_is_fetched_is_no_command() -> None:
    progress = Progress(("a",))
    name = "[system 1/1] RUN apt-get install"
    progress.feed(status(vertexes=[vertex("v", name, started=STARTED, completed=STARTED, cached=True, inputs=["x"])]))
    assert not progress.ran
    progress.feed(status(vertexes=[vertex("v", name, started=STARTED)]))
    assert not progress.may_be_still
    progress.feed(status(vertexes=[vertex("v", name, started=STARTED, completed=ENDED)]))
    assert not progress.ran
    progress.feed(status(vertexes=[vertex("w", name, started=STARTED, completed=ENDED, inputs=["x"])]))
    assert progress.ran


def test_a_step_whose_key_was_not_computed_to_the_end_is_cached() -> None:
    """BuildKit found its result by another key meanwhile."""
    progress = Progress(["a"], clock=lambda: 1.0)
    stopped = "failed to calculate checksum of ref 4oc::ym1: context canceled: context canceled"
    known = {"inputs": ["0"], "started": STARTED, "completed": STARTED}
    (event,) = (
        event
        for event in progress.feed(status(vertexes=[vertex("v", "[a requirements 1/1] RUN x", **known, error=stopped)]))
        if isinstance(event, StepFinished)
    )
    assert (event.cached, event.error, event.canceled) == (True, "", False)
    # It runs after all.
    again = {"inputs": ["0"], "started": "2026-11-20T21:47:45.5Z", "completed": ENDED}
    progress.feed(status(vertexes=[vertex("v", "[a requirements 1/1] RUN x", **again)]))
    assert progress.targets["a"].cached == 0
