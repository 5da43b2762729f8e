"""Spans of time."""

from __future__ import annotations

import pytest

from bakery.core.durations import seconds_of
from bakery.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400),
        ("8h", 28800),
        ("1h30m", 5400),
        ("2d", 172800),
        ("45s", 45),
        ("1d2h3m4.5s", 93784.5),
        (" 5m ", 300),
    ],
)
def test_spans(text: str, seconds: float) -> None:
    assert seconds_of(text, "--timeout") == seconds


@pytest.mark.parametrize(
    "text", ["", "90", "m", "0s", "0h0m", "-5m", "5 m", "1m1h", "5min", "٥m", "1.5h", "1e3s", "99999999999999s"]
)
def test_others_are_told(text: str) -> None:
    with pytest.raises(UsageError, match="--cell-timeout") as caught:
        seconds_of(text, "--cell-timeout")
    assert "90m" in caught.value.hint
