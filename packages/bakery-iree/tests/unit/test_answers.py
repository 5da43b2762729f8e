"""Answers of IREE's containers, which nobody has checked, are read within limits."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from bakery.core.errors import EngineError
from bakery_iree.benchmark import _times
from bakery_iree.check_runs import _read_ended, _read_problems, _read_records
from bakery_iree.sandbox import RESULT, ProgramResult

if TYPE_CHECKING:
    from bakery_iree.check_runs import Case

BOMBS = {
    "many": b"[]",
    "deep": b"[" * 500_000 + b"]" * 500_000,
    "number": b"[" + b"1" * 900_000 + b"]",
    "text": b"x",
    "other": b'{"calls": 1, "benchmarks": [1]}',
    "endless": b"",
}


CASE = cast("Case", SimpleNamespace(types=("a result",), call=SimpleNamespace(function=SimpleNamespace(name="f"))))


def answered(folder: Path, name: str, code: int = 0) -> ProgramResult:
    file = folder / "0"
    if name == "endless":
        file.symlink_to("/dev/zero")
    else:
        file.write_bytes(b"[" + b"[]," * 9_000_000 + b"[]]" if name == "many" else BOMBS[name])
    return ProgramResult(code, timed_out=False, files={RESULT: file}, log="the log")


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_a_failed_call(tmp_path: Path, name: str) -> None:
    """28 MB of these took 760 MB, and a gigabyte was read."""
    result = answered(tmp_path, name)
    tracemalloc.start()
    began = time.process_time()
    assert _read_ended(result, 2) == ([(1, "the log")] * 2, "")
    assert _read_problems(result, 2) == ["the log"] * 2
    assert _times(result) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - began < 4
    assert peak < 64 << 20


@pytest.mark.parametrize(("number", "values"), [(5010, 4), pytest.param(100_010, 13, marks=pytest.mark.proof)])
def test_every_repetition_has_its_time(tmp_path: Path, number: int, values: int) -> None:
    """For each, iree-benchmark-module 3.13.0 writes 13 values in some 400 bytes."""
    names = {f"name{index}": "x" * (360 // (values - 3)) for index in range(values - 3)}
    one = {**names, "run_type": "iteration", "real_time": 1.5, "time_unit": "ms"}
    result = answered(tmp_path, "text")
    result.files[RESULT].write_text(json.dumps({"benchmarks": [one] * number}))
    assert _times(result, number) == [0.0015] * number
    assert _times(result, 100) == []


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_no_comparison(tmp_path: Path, name: str) -> None:
    with pytest.raises(EngineError, match="results cannot be compared"):
        _read_records(answered(tmp_path, name), [CASE])


@pytest.mark.parametrize(
    ("answer", "code"), [(b"[]", 0), (b"[{}]", 0), (b"[1]", 0), (b'[{"problem": ""}]', 0), (b"[]", 1)]
)
def test_a_comparison_that_is_not_there_has_not_passed(tmp_path: Path, answer: bytes, code: int) -> None:
    result = answered(tmp_path, "text", code)
    result.files[RESULT].write_bytes(answer)
    with pytest.raises(EngineError, match="results cannot be compared"):
        _read_records(result, [CASE])
