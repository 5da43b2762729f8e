"""Answers of servers as one input each: what is sent for each address, behind a line with a part of it.

A real server on the loopback sends them as they are, and closes the connection.
"""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import socket
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from bakery.core.connections import Deadline
from bakery.core.errors import UnavailableError
from bakery.core.store_address import Credentials, parse_place
from bakery.engine.package_index import Index, releases
from bakery.plan.cells import Target
from bakery.release.index import pages
from bakery.release.index.fetch import take
from bakery.release.index.files import File
from bakery.runs.bake_session import BakeSession, Pins
from bakery.runs.compiler_cache import RemoteCache
from bakery.runs.stores import open_store
from fuzz.mutate import LARGEST, Mutator, any_bytes, any_json, any_text, count, text
from fuzz.refusals import refusals

_ROUTE = re.compile(rb"(?:\A|\n)=== ([\w./-]{0,80})\n")
_PORT = b"@PORT@"


class _Server:
    """Sends each client the answer for what it asks for: that of the longest route in its request, else the first one."""

    def __init__(self) -> None:
        self.answers: list[tuple[bytes, bytes]] = [(b"", b"")]
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(10)
            while request := connection.recv(1 << 16):
                fitting = [item for item in self.answers if item[0] in request]
                body = max(fitting or self.answers[:1], key=lambda item: len(item[0]))[1]
                connection.sendall(body.replace(_PORT, str(self.port).encode()))
                whole = re.match(rb"\$([0-9]{1,8})\r\n", body)
                # A client of Redis asks again, unless it waits for the rest of an answer.
                if not whole or len(body) != whole.end() + int(whole[1]) + 2:
                    break
            connection.shutdown(socket.SHUT_WR)
            # What the client has sent and nobody reads would make the kernel throw away the answer.
            while connection.recv(1 << 16):
                pass


@cache
def _server() -> _Server:
    return _Server()


def _serving(data: bytes) -> str:
    """Serve an input; return the server's address."""
    parts = _ROUTE.split(data)
    server = _server()
    server.answers = list(zip(parts[1::2], parts[2::2], strict=True)) or [(b"", data)]
    return f"127.0.0.1:{server.port}"


def _input(answers: dict[str, bytes]) -> bytes:
    return b"\n".join(b"=== %b\n%b" % (route.encode(), body) for route, body in answers.items())


def _http(body: bytes, kind: str = "application/octet-stream", *, chunked: bool = False) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n" % kind.encode()
    if not chunked:
        return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    at = len(body) // 2
    parts = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:at], body[at:]) if part)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"


_STATUS = (
    *(b"200 OK", b"100 Continue", b"103 Early Hints", b"204 No Content", b"206 Partial Content", b"301 Moved", b"302"),
    *(
        b"303 See", b"304 Not Modified", b"307 Again", b"308 Moved", b"401 Who", b"404 Not Found", b"407 Proxy",
        b"500 \xff",
    ),
    *(b"999 \x1b[31m", b"-1 OK", b"20 OK", b"2000000 OK", b"", b"\xc2\xb2\xc2\xb2\xc2\xb2 OK"),
)  # fmt: skip
_HEADERS = (
    *(b"Transfer-Encoding: chunked", b"Content-Length: 0", b"Content-Length: -1", b"Content-Length: 9" + b"9" * 5000),
    *(
        b"Content-Length: 4000000000",
        b"Location: file:///etc/passwd",
        b"Location: http://127.0.0.1:@PORT@/simple/demo/",
    ),
    *(
        b"Location: http://127.0.0.1:@PORT@/" + b"a" * 9000,
        b"Location: http://[",
        b"Location: ftp://a@b",
        b"Location: //x:y/",
    ),
    *(b"Location: http://127.0.0.1:99999999/", b"Location: \xff\x00", b"Content-Encoding: gzip", b"Connection: close"),
    *(b"Content-Type: text/html; charset=idna", b"Content-Type: application/json", b"Content-Type: " + b";a=" * 3000),
    *(b"Content-Type: text/html" + b";x*0*=a''b" * 2000, b"A: " + b"b" * 70_000, b" folded", b": empty", b"no colon"),
    *(b"Set-Cookie: a=b", b"WWW-Authenticate: Basic realm=x", b"Refresh: 0", b"\x00: \x00", b"Trailer: x"),
)
_SIZES = (b"0", b"-1", b"ffffffffffffffffff", b"7fffffff", b"1;" + b"x" * 70_000, b"", b"g", b" 5 ", b"0x5", b"5\n")


def _any_head(rng: random.Random, head: bytes) -> bytes:
    lines = head.split(b"\r\n")
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(lines) + 1)
        new = rng.choice((*_HEADERS, b"X: " + text(rng).encode("utf-8", "replace")))
        match rng.randrange(4):
            case 0:
                lines[0:1] = [b"HTTP/1.%b %b" % (rng.choice((b"1", b"0", b"9")), rng.choice(_STATUS))]
            case 1:
                lines[at:at] = [new] * min(count(rng), LARGEST // (len(new) + 1))
            case 2:
                lines[at : at + 1] = [new]
            case 3:
                interim = b"HTTP/1.1 100 Continue\r\n" + (new + b"\r\n" if rng.random() < 0.3 else b"")
                lines[0:0] = [interim] * min(count(rng), LARGEST // len(interim))
    return b"\r\n".join(lines)


def _any_chunks(rng: random.Random, body: bytes) -> bytes:
    """Return a body in chunks, not all of which are right."""
    parts = []
    for _ in range(min(count(rng), 1 + LARGEST // (len(body) + 80_000))):
        size = rng.choice((b"%x" % len(body), b"%x" % len(body), rng.choice(_SIZES)))
        parts.append(size + b"\r\n" + body + b"\r\n")
    return b"".join(parts) + rng.choice((b"0\r\n\r\n", b"0\r\n" + b"a: b\r\n" * count(rng), b""))


def _any_http(rng: random.Random, answer: bytes, change: Mutator) -> bytes:
    """Change an answer: its body alone, so that its length is right, or its head, or any of its bytes."""
    head, _, body = answer.partition(b"\r\n\r\n")
    kind = rng.randrange(8)
    if kind < 4:
        body = change(rng, body)
        head = re.sub(rb"Content-Length: [0-9]+", b"Content-Length: %d" % len(body), head)
    elif kind < 6:
        head = _any_head(rng, head)
    elif kind == 6:
        head, body = head.replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nX"), _any_chunks(rng, body)
    else:
        return any_bytes(rng, answer)
    return head + b"\r\n\r\n" + body


def _any_redis(rng: random.Random, answer: bytes, change: Mutator) -> bytes:
    kind = rng.randrange(6)
    if kind < 3:
        body = change(rng, answer.partition(b"\r\n")[2].removesuffix(b"\r\n"))
        return b"$%d\r\n%b\r\n" % (len(body), body)
    if kind == 3:
        sign = rng.choice((b"$", b"-", b"+", b":", b"*", b"", b"%", b"\xff"))
        size = rng.choice((b"-1", b"-2", b"0", b"9" * 5000, b"5", b"1_0", b" 5", b"", b"\xd9\xa3", b"x" * 10_000))
        return sign + size + rng.choice((b"\r\n", b"\n", b"")) + any_bytes(rng, b"hello\r\n")
    return rng.choice((any_bytes, any_text))(rng, answer)


def _mutator(change: Mutator) -> Mutator:
    def mutate(rng: random.Random, data: bytes) -> bytes:
        parts = _ROUTE.split(data)
        if len(parts) < 3:
            return any_bytes(rng, data)
        at = rng.randrange(2, len(parts), 2)
        of_redis = parts[at].startswith((b"$", b"+", b"-"))
        parts[at] = (_any_redis if of_redis else _any_http)(rng, parts[at], change)
        answers = zip(parts[1::2], parts[2::2], strict=True)
        return b"\n".join(b"=== %b\n%b" % (route, body) for route, body in answers)[: 2 * LARGEST]

    return mutate


# --- stores of a compiler cache

_OBJECTS = {"a/1R": b"object one", "0/2_b": b"two" * 1000}


def store_seeds() -> list[bytes]:
    """Return what stores of each kind send for the lists and objects of a cell."""
    listing = "".join(f"{len(body)} {name}\n" for name, body in _OBJECTS.items()).encode()
    objects = {f"objects/{name.replace('/', '_')}": body for name, body in _OBJECTS.items()}
    bodies = {"cells": hashlib.sha256(listing).hexdigest().encode(), "lists": listing, **objects}
    web = {route: _http(body) for route, body in bodies.items()}
    redis = {route: b"$%d\r\n%b\r\n" % (len(body), body) for route, body in bodies.items()}
    chunked = {route: _http(body, chunked=True) for route, body in bodies.items()}
    return [
        _input({**web, "PUT": _http(b"")}),
        _input({**redis, "SET": b"+OK\r\n"}),
        _input({**chunked, "PUT": _http(b"")}),
    ]


any_store = _mutator(lambda rng, data: rng.choice((any_bytes, any_text, _any_list))(rng, data))


def _any_list(rng: random.Random, _: bytes) -> bytes:
    lines = [
        rng.choice((f"{rng.choice((1, 99, 10**11, 10**12))} a/{number}", f"5 {text(rng)}", f"{number} 0/{number}"))
        for number in range(count(rng))
    ]
    return "\n".join(lines).encode("utf-8", "replace")[:LARGEST]


def read_store(folder: Path, data: bytes) -> str:
    """Take the objects of a cell out of a store, and put one into it."""
    server = _serving(data)
    is_redis = b"\n$" in data[:200] or b"\n+" in data[:200]
    s3 = f"s3://bucket?endpoint=http://{server}&region=a"
    place = parse_place(f"redis://{server}/0/folder" if is_redis else s3 if len(data) % 2 else f"http://{server}/dav")
    assert not isinstance(place, Path)
    store = open_store(place, Credentials("", ""), "")
    plan = SimpleNamespace(recipe="demo", cells=[SimpleNamespace(id="cp311", platform="linux/amd64")])
    session = cast(
        "BakeSession", SimpleNamespace(environment={"BAKERY_CACHE_KEY": "key"}, root=folder, plan=plan, scope="demo")
    )
    target = cast("Target", SimpleNamespace(cell=plan.cells[0], name="cache"))
    remote, whole, taken = RemoteCache(session, cast("Pins", None), (target,), folder, store, print), Deadline(60), {}
    outcome = "nothing"
    with refusals():
        # Each object is a request.
        listed = dict(list(remote._listed(target, whole).items())[:20])
        taken = remote._download(target, listed, folder / "archive", 0, whole)
        assert (folder / "archive").exists() or not taken
        outcome = "right" if taken else "nothing"
    # The server has closed the connection of the other one.
    open_store(place, Credentials("", ""), "").put("a/b", b"data", whole)
    return outcome


# --- indexes of packages

_WHEEL = b"PK\x05\x06" + bytes(18)
_JSON_PAGE = "application/vnd.pypi.simple.v1+json"


def index_seeds() -> list[bytes]:
    """Return what an index sends that `wheel-bakery index` made, and one with pages of HTML."""
    sha256 = hashlib.sha256(_WHEEL).hexdigest()
    name = "demo-1.0-py3-none-any.whl"
    file = File(name, "demo", "1.0", sha256, len(_WHEEL), ">=3.9", "cd" * 32, "2026-01-01", yanked=False)
    page = pages.project_json("demo", [file], {}).encode()
    shared = {
        f"simple/{pages.JSON}": _http(pages.root_json(["demo"]).encode(), _JSON_PAGE),
        f"simple/demo/{pages.JSON}": _http(page, _JSON_PAGE),
        name: _http(_WHEEL),
    }
    html = pages.project_html("demo", [file], {}).encode()
    moved = b"HTTP/1.1 302 Found\r\nLocation: /simple/demo/index.html\r\nContent-Length: 0\r\n\r\n"
    return [
        _input({"simple/demo/": _http(page, _JSON_PAGE), **shared}),
        _input({"simple/demo/": _http(html, "text/html", chunked=True), **shared}),
        _input({"simple/demo/": moved, "simple/demo/index.html": _http(html, "text/html"), **shared}),
    ]


any_index = _mutator(lambda rng, data: rng.choice((any_json, any_json, any_text, any_bytes))(rng, data))


def read_index(folder: Path, data: bytes) -> str:
    """Ask an index for releases, and take its wheels."""
    server = f"http://{_serving(data)}"
    found = taken = None
    with refusals(UnavailableError):
        found = releases(Index(f"{server}/simple", {}), "demo", sdist=False, ca_bundle="", timeout_s=10)
    scratch = folder / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    with refusals(UnavailableError):
        taken = take(server, folder / "site", scratch, lambda _: None)
    assert {path.name for path in scratch.rglob("*")} <= {path.name for path in scratch.iterdir()}
    return "right" if found and taken else "refused" if found is None and taken is None else "page"
