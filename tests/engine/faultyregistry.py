"""Stands before a real registry and hands everything on, but for what is to go wrong."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ghacache import Fault, body_of

REQUESTS = ("manifest", "blob", "upload", "tag")
"""What a client does: reads a manifest, reads a blob, writes a blob, writes a manifest."""


class FaultyRegistry:
    """The registry with its faults.

    Attributes:
        faults: what is to go wrong; each is used up.
        met: how often something did.
    """

    def __init__(self, real: str) -> None:
        self.real = real
        self.faults: list[Fault] = []
        self.met = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"registry": self}))
        self._server.daemon_threads = True

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_port)

    def serve(self) -> None:
        """Listen, in a thread."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Be gone."""
        self._server.shutdown()
        self._server.server_close()

    def fault(self, request: str) -> str:
        """Return what goes wrong with a request; empty for nothing."""
        with self._lock:
            for one in self.faults:
                if one.request == request and one.times:
                    one.times -= 1
                    self.met += 1
                    return one.kind
        return ""


class _Handler(BaseHTTPRequestHandler):
    registry: FaultyRegistry
    protocol_version = "HTTP/1.1"
    # A client tries TLS first: it is only content with less when the answer is one of HTTP.
    default_request_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._hand_on()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _hand_on(self) -> None:
        body = body_of(self)
        fault = self.registry.fault(self._request())
        if fault == "reset":
            self.close_connection = True
            self.connection.close()
            return
        if fault.isdigit():
            self._answer(int(fault), {}, b'{"errors":[{"code":"UNKNOWN","message":"asked for"}]}')
            return
        real = http.client.HTTPConnection(self.registry.real, timeout=60)
        # Host stays the client's own, or the registry would send it past this server.
        left_out = ("transfer-encoding", "content-length", "connection")
        headers = {key: value for key, value in self.headers.items() if key.lower() not in left_out}
        real.request(self.command, self.path, body or None, {**headers, "Content-Length": str(len(body))})
        reply = real.getresponse()
        content = reply.read()
        told = {key: value for key, value in reply.getheaders() if key.lower() not in left_out}
        if self.command == "HEAD":
            told["Content-Length"] = reply.getheader("Content-Length") or "0"
        if fault == "lie":
            content = bytes(len(content))
        self._answer(reply.status, told, content, truncated=fault == "truncated")
        real.close()

    def _request(self) -> str:
        reads = self.command in ("GET", "HEAD")
        if "/manifests/" in self.path:
            return "manifest" if reads else "tag"
        if "/blobs/" in self.path:
            return "blob" if reads and "/uploads/" not in self.path else "upload"
        return ""

    def _answer(self, status: int, headers: dict[str, str], body: bytes, *, truncated: bool = False) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[: len(body) // 2] if truncated else body)
        if truncated:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def faulty_registry(real: str) -> Iterator[FaultyRegistry]:
    """Give a registry that listens before the one at ``real`` (host:port)."""
    made = FaultyRegistry(real)
    made.serve()
    try:
        yield made
    finally:
        made.stop()
