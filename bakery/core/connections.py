"""Connections to servers of strangers: each answer has limits of bytes and of seconds, whatever the server sends.

A limit of a socket alone ends only silence: a server that sends a byte now and then would hold a build for ever.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import IO, Any

SILENT_S = 20.0
"""Seconds that a server may be silent."""

_CHUNK = 1 << 16


class Deadline:
    """A moment at which something has to be done: ``seconds`` from now, and not later than ``whole``."""

    def __init__(self, seconds: float, whole: Deadline | None = None) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        if whole and whole._end < self._end:
            self.seconds, self._end = whole.seconds, whole._end

    def left(self) -> float:
        """Return the seconds that are left, at most `SILENT_S`. Raises TimeoutError if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"it takes longer than {self.seconds:.0f} s")
        return min(left, SILENT_S)


class _Raw(io.RawIOBase):
    """Reads a socket, each time for as long as the deadline lets it."""

    def __init__(self, owner: TimedSocket, file: io.RawIOBase) -> None:
        self._owner, self._file = owner, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._owner.prepare()
        try:
            return self._file.readinto(buffer)
        except TimeoutError:
            # Says that it was the deadline, if it was.
            self._owner.deadline.left()
            raise

    def close(self) -> None:
        self._file.close()
        super().close()


class TimedSocket:
    """A connected socket, as `http.client` uses one; all that it sends and receives ends at ``deadline``."""

    def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
        self._socket, self.deadline = connected, deadline

    def prepare(self) -> None:
        """Give the next operation the time that is left."""
        self._socket.settimeout(self.deadline.left())

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of some bytes."""
        view = memoryview(data).cast("B")
        for at in range(0, len(view), _CHUNK):
            self.prepare()
            self._socket.sendall(view[at : at + _CHUNK])

    def makefile(self, _mode: str = "rb", *_: object) -> io.BufferedReader:
        """Return a file to read from; it keeps the connection open."""
        return io.BufferedReader(_Raw(self, self._socket.makefile("rb", buffering=0)), _CHUNK)

    def close(self) -> None:
        """Close the connection when its files are closed."""
        self._socket.close()


def connect(host: str, port: int, tls: ssl.SSLContext | None, deadline: Deadline) -> TimedSocket:
    """Connect to a server. Raises OSError."""
    connected = socket.create_connection((host, port), deadline.left())
    if tls:
        connected.settimeout(deadline.left())
        connected = tls.wrap_socket(connected, server_hostname=host)
    return TimedSocket(connected, deadline)


class _Timed:
    """What both kinds of connections of `http.client` add."""

    deadline: Deadline
    sock: Any
    timeout: Any

    def connect(self) -> None:
        self.timeout = self.deadline.left()
        super().connect()  # type: ignore[misc]
        self.sock = TimedSocket(self.sock, self.deadline)

    def start(self, deadline: Deadline) -> None:
        """Begin a request that ends at a deadline."""
        self.deadline = deadline
        if self.sock is not None:
            self.sock.deadline = deadline


class TimedHttp(_Timed, http.client.HTTPConnection):
    """A connection for HTTP; `start` comes before each request."""


class TimedHttps(_Timed, http.client.HTTPSConnection):
    """A connection for HTTP over TLS; `start` comes before each request."""


def http_connection(host: str, port: int, tls: ssl.SSLContext | None) -> TimedHttp | TimedHttps:
    """Return a connection that connects when it is first used."""
    return TimedHttps(host, port, context=tls) if tls else TimedHttp(host, port)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects without reading their bodies, which need not end."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        fp.close()
        return super().http_error_302(req, io.BytesIO(), code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens http and https, and nothing else: an answer may lead anywhere."""

    def __init__(self, deadline: Deadline, tls: ssl.SSLContext | None) -> None:
        urllib.request.AbstractHTTPHandler.__init__(self)
        self._deadline, self._tls = deadline, tls

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(self._made, TimedHttp), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        # A redirect may lead from http to https.
        tls = self._tls or ssl.create_default_context()
        return self.do_open(partial(self._made, TimedHttps, context=tls), req)

    def _made(self, kind: Callable[..., TimedHttp | TimedHttps], *words: Any, **options: Any) -> Any:
        connection = kind(*words, **options)
        connection.start(self._deadline)
        return connection


def open_url(
    request: urllib.request.Request, deadline: Deadline, tls: ssl.SSLContext | None
) -> http.client.HTTPResponse:
    """Ask for an address, and follow redirects by http and https; all of it ends at the deadline.

    Raises urllib.error.HTTPError, OSError, http.client.HTTPException or ValueError.
    """
    opener = urllib.request.OpenerDirector()
    for kind in (
        urllib.request.ProxyHandler,
        urllib.request.UnknownHandler,
        urllib.request.HTTPDefaultErrorHandler,
        _Redirects,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(kind())
    opener.add_handler(_Handler(deadline, tls))
    reply: http.client.HTTPResponse = opener.open(request, timeout=deadline.left())
    return reply


def read_answer(reply: IO[bytes], most: int) -> bytes:
    """Return what an answer has. Raises ValueError if it is cut off, or has more than ``most`` bytes, or OSError."""
    data = reply.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    if getattr(reply, "length", None):
        raise ValueError("it is cut off")
    return data


def fetch(
    request: urllib.request.Request, *, most: int, seconds: float, tls: ssl.SSLContext | None = None
) -> tuple[str, bytes]:
    """Return the media type and the content of an address: at most ``most`` bytes, within ``seconds``.

    Raises as `open_url` and `read_answer` do.
    """
    with open_url(request, Deadline(seconds), tls) as reply:
        return reply.headers.get_content_type(), read_answer(reply, most)


def answers(address: str, seconds: float) -> bool:
    """Whether a server answers at all, with an error or a certificate that nobody here knows, too."""
    try:
        open_url(urllib.request.Request(address), Deadline(seconds), None).close()
    except urllib.error.HTTPError as error:
        error.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        return isinstance(getattr(error, "reason", error), ssl.SSLError)
    return True
