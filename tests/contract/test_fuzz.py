"""A few hostile inputs of each kind, and all that ever crashed a reader. `make fuzz` reads more of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.runner import crashers, read_files, read_made
from fuzz.targets import TARGETS, seeds_of

COUNT = 30
RIGHT = {"ok", "differs", "page", "plan", "fits", "records", "functions", "right", "1"}
ALSO = {"stale", "refused", "2"}


def test_what_crashed_a_reader_once_does_not_again() -> None:
    stored = crashers()
    tally = read_files(stored)
    assert tally.inputs == len(stored)
    assert tally.times == {}


def test_hostile_inputs_end_soon_and_clean() -> None:
    tally = read_made(list(TARGETS), 0, COUNT)
    assert tally.inputs == COUNT
    assert tally.times == {}


@pytest.mark.parametrize("name", TARGETS)
def test_what_fuzzing_begins_with_is_right(name: str, tmp_path: Path) -> None:
    # Else nothing behind the first check of a reader would be reached.
    outcomes = [TARGETS[name].read(tmp_path, data) for data in seeds_of(TARGETS[name])[:4]]
    assert outcomes[0] in RIGHT
    assert set(outcomes) <= RIGHT | ALSO
