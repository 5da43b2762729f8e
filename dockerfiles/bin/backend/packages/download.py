"""Download what a server has, within limits of bytes and seconds: it may send a byte now and then, or not end."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import io
import signal
import urllib.request
from typing import Any, Iterator

FAILURES = (OSError, http.client.HTTPException, ValueError, LookupError, TypeError)
"""What is raised for a server that does not answer, or answers badly."""

SILENT_S = 60
"""Seconds that a server may be silent."""


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects without reading their bodies, which need not end."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        """Follow a redirect."""
        fp.close()
        return super().http_error_302(req, io.BytesIO(), code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in what takes longer. On Windows, only silence has a limit."""

    def late(*_: object) -> None:
        raise TimeoutError("it takes longer than " + str(seconds) + " s")

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def opened(request: urllib.request.Request | str) -> Any:
    """Return the answer to a request."""
    return urllib.request.build_opener(Redirects).open(request, timeout=SILENT_S)


def content(request: urllib.request.Request | str, most: int, seconds: float) -> tuple[bytes, str, str]:
    """Return what a server has, its media type, and its address after redirects; one of `FAILURES` if it is too much."""
    with within(seconds), opened(request) as reply:
        data = reply.read(most + 1)
        if len(data) > most:
            raise ValueError("it is larger than " + str(most) + " bytes")
        if getattr(reply, "length", None):
            raise ValueError("it is cut off")
        return data, reply.headers.get_content_type(), reply.geturl()


def save(request: urllib.request.Request | str, path: str, most: int, seconds: float) -> str:
    """Write what a server has into a file, and return its SHA-256; one of `FAILURES` if it is too much."""
    digest, left = hashlib.sha256(), most
    with within(seconds), opened(request) as reply, open(path, "wb") as file:
        for block in iter(lambda: reply.read(1 << 20), b""):
            left -= len(block)
            if left < 0:
                raise ValueError("it is larger than " + str(most) + " bytes")
            digest.update(block)
            file.write(block)
        if getattr(reply, "length", None):
            raise ValueError("it is cut off")
    return digest.hexdigest()
