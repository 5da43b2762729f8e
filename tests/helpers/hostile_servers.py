"""Servers that never end an answer, or end it badly: for HTTP, and for a store that speaks Redis's protocol."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat

PAUSE_S = 0.2
"""Seconds between two bytes of an answer that drips."""

_OK = b"HTTP/1.1 200 OK\r\n"
_BLOCK = b"x" * (1 << 16)

FAST: dict[str, Callable[[], Iterator[bytes]]] = {
    "endless continue": lambda: repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "endless header": lambda: chain([_OK], repeat(b"X-A: b\r\n" * 1000)),
    "endless line": lambda: repeat(_BLOCK),
    "endless body": lambda: chain([_OK, b"\r\n"], repeat(_BLOCK)),
    "endless chunks": lambda: chain([_OK, b"Transfer-Encoding: chunked\r\n\r\n"], repeat(b"10000\r\n" + _BLOCK + b"\r\n")),
    "a body without end": lambda: chain([_OK, b"Content-Length: 99999999999\r\n\r\n"], repeat(_BLOCK)),
    "a body cut off": lambda: iter([_OK, b"Content-Length: 9\r\n\r\nxxx"]),
    "redirects to itself": lambda: iter([b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n"]),
    "a redirect with a body without end": lambda: chain([b"HTTP/1.1 302 Found\r\nLocation: /again\r\n\r\n"], repeat(_BLOCK)),
    "a redirect to a file": lambda: iter([b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"]),
    "a redirect to ftp": lambda: iter([b"HTTP/1.1 302 Found\r\nLocation: ftp://127.0.0.1:1/a\r\n\r\n"]),
    "an error without end": lambda: chain([b"HTTP/1.1 500 No\r\n\r\n"], repeat(_BLOCK)),
    "nothing": lambda: iter([]),
    "no status": lambda: iter([b"HTTP/1.1 abc\r\n\r\n"]),
}  # fmt: skip
"""What a server answers to each request, block after block."""

SLOW: dict[str, Callable[[], Iterator[bytes]]] = {
    "silence": lambda: repeat(b""),
    "a slow status": lambda: (b"%c" % byte for byte in _OK * 1000),
    "a slow header": lambda: chain([_OK], repeat(b"x")),
    "slow continues": lambda: repeat(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a slow body": lambda: chain([_OK, b"Content-Length: 1000\r\n\r\n"], repeat(b"x")),
    "slow chunks": lambda: chain([_OK, b"Transfer-Encoding: chunked\r\n\r\n"], repeat(b"1\r\nx\r\n")),
    "slow redirects": lambda: iter([b"HTTP/1.1 302 ", b"Found\r\n", b"Location: /again\r\n", b"\r\n"]),
}
"""As `FAST`, with a pause after each block."""


class Sent:
    """What a server has sent."""

    def __init__(self) -> None:
        self.bytes = 0


@contextmanager
def serving(name: str) -> Iterator[tuple[int, Sent]]:
    """Give the port of a server of `FAST` or `SLOW`, and what it has sent; it ends with the block."""
    blocks, pause = (FAST[name], 0.0) if name in FAST else (SLOW[name], PAUSE_S)
    over, sent = threading.Event(), Sent()

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(0.5)
            connection.recv(1 << 16)
            for block in blocks():
                connection.sendall(block)
                sent.bytes += len(block)
                if over.wait(pause):
                    return

    def serve() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1], sent
        finally:
            over.set()
            thread.join()
