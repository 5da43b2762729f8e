"""Answers of servers of strangers end: after some bytes, or at the deadline, whatever the server sends."""

from __future__ import annotations

import http.client
import time
import tracemalloc
import urllib.request

import pytest
from hostile_servers import FAST, SLOW, serving
from sample import sampled

from bakery.core.connections import Deadline, fetch

MOST = 1 << 20


@pytest.mark.parametrize("name", sampled([*FAST, *SLOW], 3))
def test_an_answer_ends(name: str) -> None:
    tracemalloc.start()
    began = time.monotonic()
    with serving(name) as (port, sent):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/simple/a/")
        with pytest.raises((OSError, http.client.HTTPException, ValueError)):
            fetch(request, most=MOST, seconds=0.7)
    seconds = time.monotonic() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < 4
    assert peak < 16 * MOST
    # What was sent and not read waits in the system.
    assert sent.bytes < 32 * MOST or name == "endless continue"


def test_a_redirect_never_leaves_http() -> None:
    for name in ("a redirect to a file", "a redirect to ftp"):
        with serving(name) as (port, _), pytest.raises((OSError, ValueError)) as caught:
            fetch(urllib.request.Request(f"http://127.0.0.1:{port}/"), most=MOST, seconds=5)
        assert "root:" not in str(caught.value)


def test_the_earlier_of_two_deadlines_counts() -> None:
    whole = Deadline(1)
    assert Deadline(60, whole).left() <= 1
    assert Deadline(0.5, whole).left() <= 0.5
    assert Deadline(60).left() == 20
    with pytest.raises(TimeoutError, match="it takes longer than 0 s"):
        Deadline(0, whole).left()
