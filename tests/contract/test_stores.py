"""Stores of compiler caches: requests as servers want them, and answers that are wrong."""

from __future__ import annotations

import base64
import io
import shutil
import socket
import subprocess
import tarfile
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from file_trees import write_files
from hostile_servers import FAST, SLOW, serving
from sample import sampled

from bakery.core.connections import Deadline
from bakery.core.store_address import Credentials, StoreAddress, parse_place
from bakery.runs import compiler_cache
from bakery.runs.cibuildwheel.process import Build, build_environment
from bakery.runs.compiler_cache import RemoteCache, _members, _objects
from bakery.runs.stores import MAX_OBJECT, Store, StoreError, open_store, signed
from bakery.toolchains import programs

if TYPE_CHECKING:
    from bakery.plan.cells import Target
    from bakery.runs.bake_session import BakeSession, Pins

NOBODY = Credentials()
NOW = datetime(2026, 11, 23, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("method", "host", "path", "body", "token", "signature"),
    [
        (
            "GET", "objects.s3.eu-west-1.amazonaws.com", "/a/b%20c", b"", "",
            "c85c7fd0851618ffa150e981054270f4873b15b856c0ab877d76db94cad6e334",
        ),
        (
            "PUT", "127.0.0.1:9000", "/objects/a_b", b"data", "token",
            "91d47fc752a072fe3300c472c16b268c91645551534bda14d16400377357c7a4",
        ),
    ],
)  # fmt: skip
def test_signatures_are_those_of_botocore(
    method: str, host: str, path: str, body: bytes, token: str, signature: str
) -> None:
    """The expected ones were computed with botocore 1.44.5."""
    headers = signed(method, host, path, body, "eu-west-1", Credentials("id", "key", token), NOW)
    assert headers["Authorization"].endswith(f"Signature={signature}")


class Server(ThreadingHTTPServer):
    """A server that keeps what it is sent; as WebDAV's, it wants folders first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.folders: set[str] = {"", "/dav"}
        self.asked: list[str] = []
        self.authorization: str | None = None
        self.answers: list[bytes] = []
        """Sent as they are, instead of an answer."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.server.asked.append(f"{self.command} {self.path} {status}")
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refused(self) -> bool:
        if self.server.answers:
            self.wfile.write(self.server.answers.pop(0))
            self.close_connection = True
            return True
        if self.headers.get("Authorization") != self.server.authorization:
            self._answer(401)
            return True
        return False

    def do_GET(self) -> None:
        if not self._refused():
            body = self.server.objects.get(self.path)
            self._answer(404 if body is None else 200, body or b"")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self._refused():
            is_there = self.path.rpartition("/")[0] in self.server.folders
            if is_there:
                self.server.objects[self.path] = body
            self._answer(201 if is_there else 409)

    def do_MKCOL(self) -> None:
        is_new = self.path not in self.server.folders
        self.server.folders.add(self.path)
        self._answer(201 if is_new else 405)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def opened(address: str, secret: Credentials = NOBODY) -> Store:
    place = parse_place(address)
    assert isinstance(place, StoreAddress)
    return open_store(place, secret, "")


def dav(server: Server, secret: Credentials = NOBODY) -> Store:
    return opened(f"http://127.0.0.1:{server.server_port}/dav", secret)


def test_objects_on_a_webdav_server(server: Server) -> None:
    store = dav(server)
    assert store.get("a/b", 1 << 20, Deadline(60)) is None
    store.put("a/b", b"one", Deadline(60))
    store.put("a/c", b"", Deadline(60))
    assert store.get("a/b", 1 << 20, Deadline(60)) == b"one"
    assert store.get("a/c", 1 << 20, Deadline(60)) == b""
    assert server.objects == {"/dav/a/b": b"one", "/dav/a/c": b""}
    assert server.asked[1:5] == ["PUT /dav/a/b 409", "MKCOL /dav 405", "MKCOL /dav/a 201", "PUT /dav/a/b 201"]


@pytest.mark.parametrize(
    ("secret", "header"),
    [
        (Credentials("me", "hidden"), "Basic " + base64.b64encode(b"me:hidden").decode()),
        (Credentials("", "hidden"), "Bearer hidden"),
    ],
)
def test_user_and_password(server: Server, secret: Credentials, header: str) -> None:
    server.authorization = header
    store = dav(server, secret)
    store.put("a", b"one", Deadline(60))
    assert store.get("a", 1 << 20, Deadline(60)) == b"one"
    with pytest.raises(StoreError, match="HTTP 401 Unauthorized") as caught:
        dav(server, Credentials("me", "other")).put("a", b"two", Deadline(60))
    assert "other" not in str(caught.value)
    assert server.objects == {"/dav/a": b"one"}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\n\r\nno length",
        b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
        b"what?\r\n",
        b"",
    ],
)
def test_an_answer_that_is_wrong_is_no_object(server: Server, answer: bytes) -> None:
    server.answers = [answer]
    with pytest.raises(StoreError, match=r"^http://127\.0\.0\.1:"):
        dav(server).get("a", 1 << 20, Deadline(60))


def test_a_connection_that_the_server_closed_is_opened_again(server: Server) -> None:
    store = dav(server)
    store.put("a", b"one", Deadline(60))
    server.answers = [b""]
    assert store.get("a", 1 << 20, Deadline(60)) == b"one"


def test_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for scheme in ("http", "redis"):
        with pytest.raises(StoreError, match="refused"):
            opened(f"{scheme}://127.0.0.1:{port}").get("a", 1 << 20, Deadline(60))


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Give the port of a server that answers each connection with the same bytes, and ends it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("scheme", "answer"),
    [
        ("redis", b"-ERR unknown command 'AUTH', with args beginning with: 'me' 'hunter2-x' \r\n"),
        ("http", b"hunter2-x\r\n"),
        ("http", base64.b64encode(b"me:hunter2-x") + b"\r\n"),
    ],
)
def test_a_server_that_repeats_the_password(scheme: str, answer: bytes) -> None:
    with answering(answer) as port, pytest.raises(StoreError) as caught:
        opened(f"{scheme}://me@127.0.0.1:{port}/1/a", Credentials("me", "hunter2-x")).get("a", 1 << 20, Deadline(60))
    assert caught.value.message.startswith(f"{scheme}://127.0.0.1:{port}/1/a: ")
    assert "***" in caught.value.message
    assert "hunter2" not in caught.value.message
    assert "bWU6aHVudGVy" not in caught.value.message


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"$5\r\nabc", b"$5", b"$x\r\n", b"*1\r\n$1\r\na\r\n", b"$999999999999\r\n", b"-ERR no\r\n",
        b"HTTP/1.1 400\r\n",
    ],
)  # fmt: skip
def test_an_answer_that_is_not_redis_is_no_object(answer: bytes) -> None:
    with answering(answer) as port, pytest.raises(StoreError, match=r"^redis://127\.0\.0\.1:"):
        opened(f"redis://127.0.0.1:{port}").get("a", 1 << 20, Deadline(60))


@pytest.mark.parametrize(
    ("scheme", "name"), sampled([(scheme, name) for name in (*FAST, *SLOW) for scheme in ("http", "s3", "redis")], 7)
)
def test_no_server_holds_a_build(scheme: str, name: str) -> None:
    """Most of these held it for ever."""
    with serving(name) as (port, _):
        server = f"127.0.0.1:{port}"
        place = f"s3://bucket?endpoint=http://{server}&region=a" if scheme == "s3" else f"{scheme}://{server}"
        store, began = opened(place, Credentials("id", "key")), time.monotonic()
        with pytest.raises(StoreError, match=r"127\.0\.0\.1"):
            store.get("a", 1 << 20, Deadline(0.5))
        assert time.monotonic() - began < 3


def remote(tmp_path: Path, store: Store) -> tuple[RemoteCache, Target]:
    environment = {"BAKERY_CACHE_KEY": "key"}
    plan = SimpleNamespace(recipe="demo", cells=[SimpleNamespace(id="cp311", platform="linux/amd64")])
    session = cast("BakeSession", SimpleNamespace(environment=environment, root=tmp_path, plan=plan, scope="demo"))
    target = cast("Target", SimpleNamespace(cell=plan.cells[0], name="cache"))
    return RemoteCache(session, cast("Pins", None), (target,), tmp_path, store, print), target


class Generous:
    """A store that has an object of any name: as large as it may be."""

    block = bytes(MAX_OBJECT)

    def get(self, key: str, most: int, whole: Deadline) -> bytes | None:
        return bytes(memoryview(self.block)[:most])

    def put(self, key: str, data: bytes, whole: Deadline) -> None:
        raise AssertionError


def test_restoring_takes_little_memory(tmp_path: Path) -> None:
    """It took 1.2 GB for 64 objects of 20 MB."""
    cache, target = remote(tmp_path, Generous())
    sizes = {f"a/{number}": 20 << 20 for number in range(30)}
    tracemalloc.start()
    taken = cache._download(target, sizes, tmp_path / "tar", 0, Deadline(60))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(taken) == 30
    assert peak < 128 << 20
    assert sum(taken.values()) < (tmp_path / "tar").stat().st_size < 640 << 20


def test_restoring_takes_no_more_than_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list may name 500,000 objects: the archive grew until the disk was full."""
    monkeypatch.setattr(compiler_cache, "_MOST_BYTES", 10 << 20)
    monkeypatch.setattr(compiler_cache, "_IN_MEMORY", 4 << 20)
    cache, target = remote(tmp_path, Generous())
    # Each one is 1 MiB larger than its list says.
    cache._download(target, {f"a/{number}": 1 for number in range(500)}, tmp_path / "tar", 0, Deadline(60))
    assert (tmp_path / "tar").stat().st_size < 16 << 20
    free = shutil.disk_usage(tmp_path)._replace(free=4 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    cache._download(target, {f"a/{number}": 1 << 20 for number in range(500)}, tmp_path / "tar", 0, Deadline(60))
    assert (tmp_path / "tar").stat().st_size < 4 << 20


def test_a_cell_has_one_digest(tmp_path: Path) -> None:
    """Answers of 256 MB were read in place of the 64 bytes of a digest."""
    asked: list[int] = []

    class Counting(Generous):
        def get(self, key: str, most: int, whole: Deadline) -> bytes | None:
            asked.append(most)
            return super().get(key, most, whole)

    cache, target = remote(tmp_path, Counting())
    assert cache._listed(target, Deadline(60)) == {}
    assert asked == [64]


def test_lists_and_archives_of_others_name_objects_alone() -> None:
    names = ["5/a/bR", "../x/y", "/a/b", "a/../b", "ab/c", "a", "0/ccache.conf\n", "5/a/b c", "0/a/", "0//a"]
    listed = _objects("".join(f"7 {name}\n" for name in names).encode() + b"x 1/2\n\xff\n")
    assert set(listed) == {"5/a/bR", "0/ccache.conf"}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"x"))
        link = tarfile.TarInfo("1/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    buffer.seek(0)
    assert [name for name, _ in _members(buffer)] == ["5/a/bR"]


def test_only_objects_that_are_new_to_the_store_are_packed(tmp_path: Path) -> None:
    carry, cache, asked, made = (tmp_path / name for name in ("carry", "cache", "asked", "made"))
    carry.write_text(programs.text("carry-ccache"))
    files = {
        "5/a/oneR": "11",
        "5/b/twoM": "2",
        "5/stats": "1",
        "ccache.conf": "a",
        "5/c/x.tmp.1": "b",
        "5/a/threeR": "3",
    }
    write_files(cache, files)
    (cache / "5/b/link").symlink_to("/etc/passwd")
    asked.mkdir()
    (asked / "since").write_text("0")
    subprocess.run(["sh", carry, cache, asked, made], check=True)
    assert sorted((made / "objects").read_text().split("\n"))[1:] == ["1 5/a/threeR", "1 5/b/twoM", "2 5/a/oneR"]
    assert not (made / "ccache.tar").exists()
    # It knows the second one, and an older first one.
    (asked / "known").write_text("9 5/a/oneR\n1 5/b/twoM\n")
    subprocess.run(["sh", carry, cache, asked, made], check=True)
    with tarfile.open(made / "ccache.tar") as tar:
        assert sorted(tar.getnames()) == ["5/a/oneR", "5/a/threeR"]
    # Nothing was used since then, so nothing is new.
    (asked / "since").write_text(str(int((made / "now").read_text()) + 60))
    subprocess.run(["sh", carry, cache, asked, made], check=True)
    with tarfile.open(made / "ccache.tar") as tar:
        assert tar.getnames() == []


def test_cibuildwheel_does_not_get_what_opens_a_store(tmp_path: Path) -> None:
    """On macOS and Windows it runs the project's code with its own environment."""
    request = Build((), ("cp311-macosx_arm64",), tmp_path, tmp_path, tmp_path / "log", True, None, (), "macos")
    hidden = {"BAKERY_COMPILER_CACHE_USER": "me", "BAKERY_COMPILER_CACHE_PASSWORD": "x", "BAKERY_CACHE_KEY": "y"}
    passed = build_environment(request, {**hidden, "PATH": "/bin", "CIBW_SKIP": "*"})
    assert passed == {"PATH": "/bin", "CIBW_BUILD": "cp311-macosx_arm64"}
