"""The journal: what it holds after any end of whoever wrote it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakery.core.errors import OutputError
from bakery.runs.journal import (
    LONGEST_STEP_S,
    MAX_JOURNAL_BYTES,
    MAX_JOURNALS,
    Journal,
    Record,
    RecordedWheel,
    Result,
    _line,
    newest_records,
    open_journal,
    read,
)

WHEEL = RecordedWheel("demo-1.0-py3-none-any.whl", "ab" * 32, 1234)
RECORDS = st.lists(
    st.builds(
        Record,
        cell=st.sampled_from(["cp311", "cp312", "cp313-cu128"]),
        key=st.text("0123456789abcdef", min_size=4, max_size=8),
        result=st.sampled_from(Result),
        memory=st.integers(0, 10**6),
        wheels=st.lists(
            st.builds(RecordedWheel, st.text(max_size=9), st.text(max_size=4), st.integers(0, 10**9)), max_size=2
        ).map(tuple),
        times=st.dictionaries(st.text(max_size=9), st.floats(0, LONGEST_STEP_S, exclude_max=True), max_size=2),
    ),
    max_size=8,
)


def state(records: list[Record]) -> dict[str, Record]:
    return {record.cell: record for record in records}


@settings(max_examples=settings.default.max_examples // 3)
@given(RECORDS)
def test_cut_at_every_byte_it_is_a_journal_of_what_happened_before(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    root = tmp_path_factory.mktemp("j")
    journal = open_journal(root, "demo")
    ends = [0]
    for record in records:
        journal.write(record)
        ends.append(journal.path.stat().st_size)
    data = journal.path.read_bytes()
    assert newest_records(root, "demo") == state(records)
    for cut in range(len(data) + 1):
        # A record without its line's end is whole.
        whole = sum(end - 1 <= cut for end in ends[1:])
        assert read(data[:cut]) == state(records[:whole])


@pytest.mark.parametrize("seconds", ["-1.0", "NaN", "Infinity", "1e400", '"1"', "null", "[]"])
def test_times_that_no_step_takes_are_damage(seconds: str) -> None:
    line = _line(Record("cp311", "k", Result.DONE, times={"compile": 1.5}))
    assert read(line)["cp311"].times == {"compile": 1.5}
    assert read(line.replace(b"1.5", seconds.encode())) == {}


def test_a_record_of_an_earlier_version_has_no_times() -> None:
    line = _line(Record("cp311", "k", Result.DONE)).replace(b', "times": {}', b"")
    assert b"times" not in line
    assert read(line)["cp311"].times == {}


@given(RECORDS, st.binary(max_size=60), st.data())
def test_damage_makes_up_no_finished_cell(records: list[Record], noise: bytes, data: st.DataObject) -> None:
    lines = [bytes(f'{{"version": 1, "cell": "x", "key": "{n}"', "ascii") for n in range(3)]
    read(b"\n".join(data.draw(st.permutations([*lines, noise, b"[]", b"null", b"\xff", b'{"version": 2}']))))
    assert all(record.result in Result for record in read(noise).values())


def test_last_run_is_the_one_with_the_highest_number(tmp_path: Path) -> None:
    for number in range(MAX_JOURNALS + 3):
        open_journal(tmp_path, "demo").write(Record("cp311", str(number), Result.DONE))
    assert newest_records(tmp_path, "demo")["cp311"].key == str(MAX_JOURNALS + 2)
    assert len(list((tmp_path / "journal" / "demo").iterdir())) == MAX_JOURNALS
    assert newest_records(tmp_path, "other") == {}


def test_what_is_carried_is_there_at_once(tmp_path: Path) -> None:
    open_journal(
        tmp_path, "demo", [Record("cp311", "k", Result.DONE, 700, (WHEEL,)), Record("cp312", "k", Result.CANCELED)]
    )
    assert newest_records(tmp_path, "demo")["cp311"].wheels == (WHEEL,)
    assert newest_records(tmp_path, "demo")["cp312"].result is Result.CANCELED


def test_journal_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        open_journal(tmp_path, "demo")
    journal = open_journal(tmp_path / "else", "demo")
    journal.path.unlink()
    journal.path.mkdir()
    with pytest.raises(OutputError, match="cannot write the journal"):
        journal.write(Record("cp311", "", Result.DONE))


@pytest.mark.parametrize("kind", ["device", "pipe", "link"])
def test_journal_that_is_no_plain_file_is_an_error_at_once(tmp_path: Path, kind: str) -> None:
    path = open_journal(tmp_path, "demo").path
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="cannot read"):
        newest_records(tmp_path, "demo")
    with pytest.raises(OutputError, match="cannot write the journal"):
        Journal(path).write(Record("cp311", "", Result.DONE))
    assert not (tmp_path / "elsewhere").exists()


def test_journal_without_an_end_is_not_read(tmp_path: Path) -> None:
    path = open_journal(tmp_path, "demo").path
    os.truncate(path, MAX_JOURNAL_BYTES + 1)
    with pytest.raises(OutputError, match="larger than"):
        newest_records(tmp_path, "demo")
