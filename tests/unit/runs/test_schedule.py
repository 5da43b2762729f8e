"""Which cell is baked when, and how much memory it needs."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakery.engine.memory_peaks import EVERY_S, Peaks, is_here
from bakery.plan.build_facts import JobLimits
from bakery.runs.scheduler import Item, Limits, Schedule, State, Try, Worker, delay


def names(items: list[Item]) -> list[str]:
    return [item.name for item in items]


def made(*items: Item, **limits: int | bool) -> Schedule:
    return Schedule(items, Limits(**limits))


def test_as_many_at_once_as_allowed() -> None:
    schedule = made(*(Item(name) for name in "abcd"), parallel=2)
    assert names(schedule.due(0)) == ["a", "b"]
    assert names(schedule.due(0)) == []
    schedule.ended("a", Try.PASSED, 1)
    assert names(schedule.due(1)) == ["c"]


def test_memory_limits_what_runs_at_once_and_one_always_runs() -> None:
    schedule = made(
        Item("huge", memory=900), Item("big", memory=300), Item("small", memory=100), parallel=4, memory=400
    )
    assert names(schedule.due(0)) == ["huge"]
    schedule.ended("huge", Try.PASSED, 0)
    assert names(schedule.due(0)) == ["big", "small"]


def test_what_nobody_knows_of_takes_no_memory() -> None:
    schedule = made(Item("known", memory=400), Item("a"), Item("b"), parallel=4, memory=400)
    assert names(schedule.due(0)) == ["known", "a", "b"]


def test_one_of_each_group_goes_ahead() -> None:
    items = [Item(f"{python}-{cuda}", group=cuda) for cuda in ("cu12", "cu13") for python in ("311", "312", "313")]
    schedule = made(*items, parallel=3)
    assert names(schedule.due(0)) == ["311-cu12", "311-cu13", "312-cu12"]


def test_cached_items_start_at_once_and_take_no_room() -> None:
    items = [Item(name, memory=300, cached=True) for name in "abc"]
    schedule = made(*items, Item("d", memory=300), Item("e", memory=300), parallel=1, memory=400)
    assert names(schedule.due(0)) == ["a", "b", "c", "d"]
    schedule.ended("a", Try.PASSED, 0)
    # They are not in the build cache: now they wait for room, as others do.
    schedule.ended("b", Try.LOST, 0)
    schedule.ended("c", Try.LOST, 0)
    assert names(schedule.due(0)) == []
    schedule.ended("d", Try.PASSED, 0)
    assert names(schedule.due(0)) == ["b"]
    assert schedule.entries["b"].tries == 1


def test_failure_stops_only_what_comes_after_it() -> None:
    schedule = made(Item("a"), Item("b", after="a"), Item("c", after="b"), Item("d"), parallel=1)
    assert names(schedule.due(0)) == ["a"]
    schedule.ended("a", Try.FAILED, 0)
    assert [schedule.entries[name].state for name in "abcd"] == [
        State.FAILED,
        State.SKIPPED,
        State.SKIPPED,
        State.WAITING,
    ]
    assert names(schedule.due(0)) == ["d"]


def test_what_is_skipped_never_begins() -> None:
    schedule = made(Item("a"), Item("b"), Item("c", after="b"), Item("d"), parallel=1)
    assert names(schedule.due(0)) == ["a"]
    schedule.skip("b")
    schedule.ended("a", Try.FAILED, 0)
    assert [schedule.entries[name].state for name in "bc"] == [State.SKIPPED, State.SKIPPED]
    assert names(schedule.due(0)) == ["d"]


def test_what_comes_after_waits() -> None:
    schedule = made(Item("b", after="a"), Item("a"), parallel=4)
    assert names(schedule.due(0)) == ["a"]
    schedule.ended("a", Try.PASSED, 0)
    assert names(schedule.due(0)) == ["b"]


def test_fail_fast_lets_nothing_begin() -> None:
    schedule = made(*(Item(name) for name in "abc"), parallel=2, keep_going=False)
    schedule.due(0)
    schedule.ended("a", Try.FAILED, 0)
    assert schedule.entries["c"].state is State.SKIPPED
    assert not schedule.over
    schedule.ended("b", Try.AGAIN, 0)
    assert schedule.over


def test_further_tries_come_later_and_end() -> None:
    schedule = made(Item("a"), retries=2)
    now = 0.0
    for number, wait in ((1, 5.0), (2, 15.0)):
        assert names(schedule.due(now)) == ["a"]
        schedule.ended("a", Try.AGAIN, now)
        assert schedule.entries["a"].tries == number
        assert names(schedule.due(now + wait - 0.1)) == []
        now += wait
    assert names(schedule.due(now)) == ["a"]
    schedule.ended("a", Try.AGAIN, now)
    assert schedule.entries["a"].state is State.FAILED
    assert schedule.over


def test_delays_grow_to_a_bound() -> None:
    assert [delay(tries) for tries in range(1, 7)] == [5, 15, 45, 120, 120, 120]


@pytest.mark.parametrize(
    ("job_memory", "jobs", "cores", "memory", "expected"),
    [
        (0, 4, 8, 9000, 0),
        (1500, 0, 8, 20000, 12000),
        (1500, 0, 32, 20000, 19500),
        (3500, 2, 8, 20000, 7000),
        (9000, 0, 8, 4000, 9000),
    ],
)
def test_memory_of_a_cell_is_that_of_its_compilers(
    job_memory: int, jobs: int, cores: int, memory: int, expected: int
) -> None:
    assert JobLimits(job_memory, jobs).needed(cores, memory) == expected


ITEMS = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 2), st.booleans()), min_size=1, max_size=12)


@given(ITEMS, st.integers(1, 4), st.integers(0, 600), st.booleans(), st.data())
def test_every_run_ends_within_its_limits(
    shapes: list[tuple[int, int, bool]], parallel: int, memory: int, keep_going: bool, data: st.DataObject
) -> None:
    items = [
        Item(str(index), str(index - 1) if index and follows else "", need, str(group))
        for index, (need, group, follows) in enumerate(shapes)
    ]
    schedule = Schedule(items, Limits(parallel, memory, 1, keep_going))
    running: list[str] = []
    now = 0.0
    for _ in range(500):
        begun = schedule.due(now)
        running += names(begun)
        assert len(running) <= parallel
        used = sum(item.memory for item in items if item.name in running)
        assert not memory or used <= memory or len(running) == 1
        if schedule.over:
            break
        if running:
            name = running.pop(data.draw(st.integers(0, len(running) - 1)))
            schedule.ended(name, data.draw(st.sampled_from(Try)), now)
        now += 1.0
    assert schedule.over
    passed = {item.name for item in items if schedule.entries[item.name].state is State.PASSED}
    assert all(item.after in passed or not item.after for item in items if item.name in passed)
    if keep_going:
        for item in items:
            assert schedule.entries[item.name].state is not State.SKIPPED or item.after not in passed


def spread(*items: Item, slots: int = 1, workers: str = "xy", **limits: int | bool) -> Schedule:
    return Schedule(
        items, Limits(parallel=99, **limits), [Worker(name, slots, frozenset({"amd64"})) for name in workers]
    )


def cells(letters: str, **more: str) -> list[Item]:
    return [Item(letter, platform="amd64", **more) for letter in letters]


def where(schedule: Schedule, letters: str) -> dict[str, str]:
    return {letter: schedule.entries[letter].worker for letter in letters}


def test_seats_fill_by_free_slots() -> None:
    schedule = Schedule(cells("abcdef"), Limits(parallel=99), [Worker("small", 1), Worker("large", 3)])
    assert names(schedule.due(0)) == list("abcd")
    assert where(schedule, "abcd") == {"a": "large", "b": "large", "c": "small", "d": "large"}
    schedule.ended("c", Try.PASSED, 0)
    assert names(schedule.due(0)) == ["e"]
    assert schedule.entries["e"].worker == "small"
    assert schedule.on("large") == ["a", "b", "d"]


def test_all_seats_together_hold_no_more_than_the_limit() -> None:
    schedule = Schedule(cells("abc"), Limits(parallel=2), [Worker("x", 4), Worker("y", 4)])
    assert names(schedule.due(0)) == ["a", "b"]


def test_what_a_seat_cannot_build_waits_for_one_that_can() -> None:
    items = [Item("a", platform="arm64"), Item("b", platform="amd64"), Item("c", platform="arm64")]
    workers = [Worker("x", 2, frozenset({"amd64"})), Worker("y", 1, frozenset({"amd64", "arm64"}))]
    schedule = Schedule(items, Limits(parallel=99), workers)
    assert names(schedule.due(0)) == ["b", "a"]
    assert where(schedule, "ab") == {"a": "y", "b": "x"}
    assert schedule.due(0) == []
    schedule.ended("a", Try.PASSED, 0)
    assert names(schedule.due(0)) == ["c"]


def test_seat_takes_what_shares_stages_that_it_has() -> None:
    items = [Item(f"{cuda}-{number}", platform="amd64", group=cuda) for number in range(2) for cuda in ("u", "v")]
    schedule = spread(*items)
    assert names(schedule.due(0)) == ["u-0", "v-0"]
    schedule.ended("u-0", Try.PASSED, 0)
    schedule.ended("v-0", Try.PASSED, 0)
    schedule.due(0)
    assert schedule.entries["u-1"].worker == schedule.entries["u-0"].worker
    assert schedule.entries["v-1"].worker == schedule.entries["v-0"].worker


def test_what_comes_after_is_built_where_the_first_was() -> None:
    first, second = Item("first", platform="amd64"), Item("second", platform="amd64", after="first")
    schedule = spread(Item("z", platform="amd64"), first, second, slots=1)
    schedule.due(0)
    schedule.ended("z", Try.PASSED, 0)
    schedule.ended("first", Try.PASSED, 0)
    assert names(schedule.due(0)) == ["second"]
    assert schedule.entries["second"].worker == schedule.entries["first"].worker == "y"


def test_lost_seat_costs_no_try() -> None:
    schedule = spread(*cells("abc"), retries=0)
    schedule.due(0)
    schedule.lose("x")
    schedule.ended("a", Try.LOST, 0)
    assert (schedule.entries["a"].state, schedule.entries["a"].tries) == (State.WAITING, 0)
    schedule.ended("b", Try.PASSED, 0)
    assert names(schedule.due(0)) == ["a"]
    assert (schedule.entries["a"].worker, schedule.entries["a"].tries) == ("y", 1)
    assert schedule.strand() == []
    schedule.lose("y")
    schedule.ended("a", Try.LOST, 0)
    assert schedule.strand() == ["a", "c"]
    assert schedule.over


def test_lost_seat_takes_the_wheel_along_that_is_still_tested() -> None:
    items = [*cells("a"), *cells("bc", after="a")]
    schedule = spread(*items, slots=2)
    schedule.due(0)
    schedule.ended("a", Try.PASSED, 0)
    assert names(schedule.due(0)) == ["b", "c"]
    schedule.ended("b", Try.PASSED, 0)
    schedule.lose("x")
    schedule.ended("c", Try.LOST, 0)
    assert [schedule.entries[name].state for name in "abc"] == [State.WAITING] * 3
    assert names(schedule.due(0)) == ["a"]
    schedule.ended("a", Try.PASSED, 0)
    schedule.due(0)
    assert where(schedule, "abc") == dict.fromkeys("abc", "y")


def test_finished_wheel_stays_when_its_seat_is_lost() -> None:
    schedule = spread(*cells("a"), *cells("b", after="a"))
    for name in "ab":
        schedule.due(0)
        schedule.ended(name, Try.PASSED, 0)
    schedule.lose("x")
    assert schedule.over


@given(
    st.lists(st.tuples(st.sampled_from("uvw"), st.booleans()), min_size=1, max_size=12),
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
)
def test_every_item_comes_to_an_end_whatever_seats_are_lost(
    drawn: list[tuple[str, bool]], slots: list[int], random: Random
) -> None:
    items = [
        Item(str(index), platform="amd64", group=group, after="0" if after and index else "")
        for index, (group, after) in enumerate(drawn)
    ]
    workers = [Worker(str(number), number_of, frozenset({"amd64"})) for number, number_of in enumerate(slots)]
    schedule, alive, running = (
        Schedule(items, Limits(parallel=99), workers),
        {worker.name for worker in workers},
        set[str](),
    )
    while not schedule.over:
        running |= set(names(schedule.due(0)))
        for worker in workers:
            assert len(schedule.on(worker.name)) <= worker.slots
        if len(alive) > 1 and random.random() < 0.2:
            gone = random.choice(sorted(alive))
            alive.remove(gone)
            lost = schedule.on(gone)
            schedule.lose(gone)
            for name in lost:
                schedule.ended(name, Try.LOST, 0)
            running -= set(lost)
        elif running:
            name = random.choice(sorted(running))
            running.remove(name)
            schedule.ended(name, Try.PASSED, 0)
    assert all(schedule.entries[item.name].state is State.PASSED for item in items)
    # Tests speak of the build that was made where they ran.
    for item in items:
        if item.after:
            assert schedule.entries[item.name].worker == schedule.entries[item.after].worker


V1 = "cache 108687360\nrss 1\ntotal_cache 5\ntotal_rss {}\n"
V2 = "anon {}\nfile 108687360\nkernel 5\n"
CELLS = {
    "cp311-cu12": {"PYTHON_VERSION": "3.11", "CUDA_VERSION": "12.8.1"},
    "cp313-cu12": {"PYTHON_VERSION": "3.13", "CUDA_VERSION": "12.8.1"},
    "cp311-cu13": {"PYTHON_VERSION": "3.11", "CUDA_VERSION": "13.0.3"},
}


@pytest.fixture
def peaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peaks:
    monkeypatch.setattr("bakery.engine.memory_peaks.EVERY_S", 0.0)
    return Peaks(tmp_path / "cgroup", tmp_path / "proc")


def step(tmp_path: Path, group: str, held: int, environment: str, stat: str = V1) -> None:
    """Write what the kernel shows of a step."""
    folder = tmp_path / "cgroup" / group
    folder.mkdir(parents=True, exist_ok=True)
    process = str(len(list(tmp_path.glob("proc/*"))) + 100)
    (folder / "memory.stat").write_text(stat.format(held))
    (folder / "cgroup.procs").write_text(f"{process}\n4711\n")
    (tmp_path / "proc" / process).mkdir(parents=True)
    (tmp_path / "proc" / process / "environ").write_text(environment.replace(" ", "\0") + "\0")


@pytest.mark.parametrize(
    ("place", "stat"),
    [("memory/docker/buildkit/abc", V1), ("docker/buildkit/abc", V2), ("system.slice/system.slice:docker:abc", V2)],
)
def test_peak_is_the_most_that_was_seen(tmp_path: Path, peaks: Peaks, place: str, stat: str) -> None:
    for held in (300_000_000, 1_200_000_000, 100_000_000):
        step(tmp_path, place, held, "PATH=/bin PYTHON_VERSION=3.13 CUDA_VERSION=12.8.1", stat)
        peaks.measure(CELLS)
    assert peaks.mb == {"cp313-cu12": 1200}


def test_shared_step_counts_for_all_that_it_serves(tmp_path: Path, peaks: Peaks) -> None:
    step(tmp_path, "memory/docker/buildkit/abc", 5_000_000, "CUDA_VERSION=12.8.1")
    step(tmp_path, "memory/docker/buildkit/other", 9_000_000, "PYTHON_VERSION=3.9 CUDA_VERSION=12.8.1")
    step(tmp_path, "memory/docker/buildkit/foreign", 9_000_000, "HOME=/root")
    peaks.measure(CELLS)
    assert peaks.mb == {"cp311-cu12": 5, "cp313-cu12": 5}


def test_a_variable_that_only_a_program_of_the_step_has(tmp_path: Path, peaks: Peaks) -> None:
    """SOURCE_DATE_EPOCH of a step that runs again with the repository; what the step's shell has comes first."""
    step(tmp_path, "memory/docker/buildkit/abc", 7_000_000, "LEVEL=1")
    (tmp_path / "proc" / "4711").mkdir()
    (tmp_path / "proc" / "4711" / "environ").write_text("LEVEL=2\0SOURCE_DATE_EPOCH=12\0")
    date = {"SOURCE_DATE_EPOCH": "12"}
    peaks.measure({"cp311": date, "cp313": {**date, "LEVEL": "2"}, "other": {"SOURCE_DATE_EPOCH": "13"}})
    assert peaks.mb == {"cp311": 7}


def test_nothing_is_known_where_nothing_can_be_read(tmp_path: Path, peaks: Peaks) -> None:
    peaks.measure(CELLS)
    (tmp_path / "cgroup" / "docker" / "buildkit" / "abc").mkdir(parents=True)
    (tmp_path / "cgroup" / "docker" / "buildkit" / "abc" / "memory.stat").write_text("anon much\n")
    peaks.measure(CELLS)
    assert peaks.mb == {}


def test_looks_are_seldom(tmp_path: Path) -> None:
    assert EVERY_S >= 1
    peaks = Peaks(tmp_path / "cgroup", tmp_path / "proc")
    peaks.measure(CELLS)
    step(tmp_path, "docker/buildkit/abc", 5_000_000, "PYTHON_VERSION=3.13", V2)
    peaks.measure(CELLS)
    assert peaks.mb == {}


@pytest.mark.parametrize(
    ("environment", "here"),
    [
        ({}, True),
        ({"DOCKER_HOST": "unix:///run/docker.sock", "DOCKER_CONTEXT": "far"}, True),
        ({"DOCKER_HOST": "tcp://far:2376"}, False),
        ({"DOCKER_HOST": "ssh://far"}, False),
        ({"DOCKER_CONTEXT": "far"}, False),
    ],
)
def test_engine_elsewhere_is_not_looked_for_here(environment: dict[str, str], here: bool) -> None:
    assert is_here(environment) is here
