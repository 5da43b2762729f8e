"""GitHub's cache as BuildKit sees it: the second version of its protocol, with faults on request.

Twirp over HTTP for what is asked of the service, and signed addresses that take and give blobs as Azure's storage does.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

SERVICE = "/twirp/github.actions.results.api.v1.CacheService/"

CALLS = ("CreateCacheEntry", "FinalizeCacheEntryUpload", "GetCacheEntryDownloadURL")
"""What the service is asked."""

BLOBS = ("put", "block", "blocklist", "get")
"""What is done with blobs: written whole, written in blocks, their list, read."""


RESERVED_S = 5.0
"""How long a key that somebody writes is refused to others."""


@dataclass
class Fault:
    """What goes wrong with some requests.

    Attributes:
        request: one of ``CALLS`` or ``BLOBS``.
        kind: a status, ``truncated`` (half of the body), ``lie`` (other bytes), ``reset`` (no answer) or ``miss``.
        times: how often; the rest of these requests go well.
        after: how many of them go well first.
    """

    request: str
    kind: str
    times: int = 1
    after: int = 0


def body_of(request: BaseHTTPRequestHandler) -> bytes:
    """Return the body of a request, also of one in chunks."""
    if request.headers.get("Transfer-Encoding", "").lower() != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length", 0)))
    parts = []
    while size := int(request.rfile.readline(), 16):
        parts.append(request.rfile.read(size))
        request.rfile.readline()
    request.rfile.readline()
    return b"".join(parts)


@dataclass
class GhaCache:
    """The server.

    Attributes:
        entries: (version, key) → content, in the order of their making.
        faults: what is to go wrong; each is used up.
        asked: the requests so far, ``Fault.request`` of each, with the status of the answer.
    """

    address: str = "127.0.0.1"
    entries: dict[tuple[str, str], bytes] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    asked: list[tuple[str, int]] = field(default_factory=list)
    met: int = 0
    _open: dict[str, tuple[str, str, dict[str, bytes]]] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)
    _blobs: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Listen."""
        handler = type("Handler", (_Handler,), {"cache": self})
        self._server = ThreadingHTTPServer((self.address, 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Be gone; what was kept stays in memory."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def url(self, host: str = "") -> str:
        """Return the service's address, as the environment of a job has it."""
        assert self._server
        return f"http://{host or self.address}:{self._server.server_port}/"

    def environment(self, host: str = "") -> dict[str, str]:
        """Return what a job's environment says of the cache."""
        return {
            "ACTIONS_RUNTIME_TOKEN": token(),
            "ACTIONS_RESULTS_URL": self.url(host),
            "ACTIONS_CACHE_SERVICE_V2": "true",
        }

    def fault(self, request: str) -> str:
        """Return what goes wrong with a request; empty for nothing."""
        with self._lock:
            for one in self.faults:
                if one.request != request or not one.times:
                    continue
                if one.after:
                    one.after -= 1
                    continue
                one.times -= 1
                self.met += 1
                return one.kind
        return ""

    def count(self, request: str) -> int:
        """Return how many requests of a kind there were."""
        return sum(name == request for name, _ in self.asked)

    def call(self, method: str, said: Mapping[str, Any], origin: str) -> tuple[int, Mapping[str, Any]]:
        """Answer a question to the service."""
        key, version = str(said["key"]), str(said["version"])
        with self._lock:
            match method:
                case "CreateCacheEntry":
                    reserved = any(
                        own == [version, key] and time.monotonic() - self._since[one] < RESERVED_S
                        for one, (*own, _) in self._open.items()
                    )
                    if (version, key) in self.entries or reserved:
                        return 409, {"code": "already_exists", "msg": "cache entry with the same key exists"}
                    name = uuid.uuid4().hex
                    self._open[name] = (version, key, {})
                    self._since[name] = time.monotonic()
                    return 200, {"ok": True, "signed_upload_url": f"{origin}/upload/{name}?sig=s&se=soon"}
                case "FinalizeCacheEntryUpload":
                    opened = next((one for one, (*own, _) in self._open.items() if own == [version, key]), "")
                    content = self._blobs.pop(opened, None)
                    if content is None or len(content) != int(said["size_bytes"]):
                        return 404, {"code": "not_found", "msg": "nothing of that size was uploaded"}
                    del self._open[opened]
                    self.entries[version, key] = content
                    return 200, {"ok": True, "entry_id": str(len(self.entries))}
                case _:
                    found = self._match(version, [key, *(said.get("restore_keys") or ())])
                    if found is None:
                        return 200, {"ok": False}
                    name = base64.urlsafe_b64encode(json.dumps([version, found]).encode()).decode()
                    return 200, {
                        "ok": True,
                        "matched_key": found,
                        "signed_download_url": f"{origin}/download/{name}?sig=s&se=soon",
                    }

    def _match(self, version: str, keys: list[str]) -> str | None:
        """Return the newest entry that a key begins, the first key first."""
        for key in keys:
            if (version, key) in self.entries:
                return key
            own = [name for kind, name in self.entries if kind == version and name.startswith(key)]
            if own:
                return own[-1]
        return None

    def write(self, name: str, query: Mapping[str, list[str]], body: bytes) -> int:
        """Take a blob, a block or the list of a blob's blocks; return the status."""
        with self._lock:
            if name not in self._open:
                return 404
            blocks = self._open[name][2]
            match query.get("comp", [""])[0]:
                case "block":
                    blocks[query["blockid"][0]] = body
                case "blocklist":
                    wanted = [item.text or "" for item in ElementTree.fromstring(body).iter("Latest")]
                    if not set(wanted) <= blocks.keys():
                        return 400
                    self._blobs[name] = b"".join(blocks[item] for item in wanted)
                case _:
                    self._blobs[name] = body
            return 201

    def read(self, name: str) -> bytes | None:
        """Return a blob; None where there is none."""
        version, key = json.loads(base64.urlsafe_b64decode(name))
        with self._lock:
            return self.entries.get((version, key))


class _Handler(BaseHTTPRequestHandler):
    cache: GhaCache
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        method = self.path.removeprefix(SERVICE)
        body = body_of(self)
        if method not in CALLS:
            self._answer(method, 404, b"{}")
        elif not _is_valid(self.headers.get("Authorization", "")):
            self._answer(method, 401, b'{"code":"unauthenticated","msg":"token"}')
        elif not self._fails(method):
            status, said = self.cache.call(method, json.loads(body), f"http://{self.headers['Host']}")
            self._answer(method, status, json.dumps(said).encode())

    def do_PUT(self) -> None:
        address = urlsplit(self.path)
        query = parse_qs(address.query)
        kind = query.get("comp", ["put"])[0]
        body = body_of(self)
        if self._fails(kind):
            return
        if kind == "put" and self.headers.get("x-ms-blob-type") != "BlockBlob":
            self._answer(kind, 400, b"x-ms-blob-type")
            return
        self._answer(kind, self.cache.write(address.path.removeprefix("/upload/"), query, body), b"")

    def do_GET(self) -> None:
        content = self.cache.read(urlsplit(self.path).path.removeprefix("/download/"))
        fault = self.cache.fault("get")
        if content is None:
            self._answer("get", 404, b"")
            return
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("x-ms-range") or self.headers.get("Range") or "")
        rest = content[int(match[1]) :] if match else content
        if fault == "lie":
            rest = bytes(len(rest))
        self._answer("get", 206 if match else 200, rest, "" if fault == "lie" else fault)

    def _fails(self, request: str) -> bool:
        """Whether a fault took the place of the answer."""
        kind = self.cache.fault(request)
        if kind == "miss":
            self._answer(request, 200, b'{"ok":false}')
        elif kind:
            self._answer(request, 200, b"{}", kind)
        return bool(kind)

    def _answer(self, request: str, status: int, body: bytes, fault: str = "") -> None:
        if fault == "reset":
            self.cache.asked.append((request, 0))
            self.close_connection = True
            self.connection.close()
            return
        if fault.isdigit():
            code = "already_exists" if fault == "409" else "fault"
            status, body = int(fault), json.dumps({"code": code, "msg": "asked for"}).encode()
        self.cache.asked.append((request, status))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        # The client takes this header for granted.
        self.send_header("x-ms-request-id", uuid.uuid4().hex)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.end_headers()
        if fault == "truncated":
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def token(life_s: float = 3600) -> str:
    """Return a token as a job has it: signed by nobody, for the branch ``main``."""
    now = int(time.time())
    scopes = json.dumps([{"Scope": "refs/heads/main", "Permission": 3}])
    claims = {"nbf": now - 60, "exp": int(now + life_s), "ac": scopes}
    parts = (json.dumps(part).encode() for part in ({"alg": "none", "typ": "JWT"}, claims))
    return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), "c2lnbmF0dXJl"])


def _is_valid(header: str) -> bool:
    pieces = header.removeprefix("Bearer ").split(".")
    if len(pieces) != 3:
        return False
    claims = json.loads(base64.urlsafe_b64decode(pieces[1] + "=" * (-len(pieces[1]) % 4)))
    return bool(claims["exp"] > time.time() and json.loads(claims["ac"]))


@contextmanager
def gha_cache(address: str = "127.0.0.1") -> Iterator[GhaCache]:
    """Give a server that listens."""
    cache = GhaCache(address)
    cache.start()
    try:
        yield cache
    finally:
        cache.stop()
