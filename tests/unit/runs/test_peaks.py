"""Whose step holds how much memory, read from folders shaped like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakery.engine.memory_peaks import EVERY_S, Peaks, is_here

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
