"""Taking over an index of a server that never ends an answer, or lies about its files."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hostile_servers import FAST, SLOW, serving
from sample import sampled

from bakery.core.errors import UnavailableError
from bakery.release.index import fetch, pages
from bakery.release.index.fetch import take
from bakery.release.index.files import File

WHEEL = "demo-1.0-py3-none-any.whl"


@pytest.mark.parametrize("name", sampled([*FAST, *SLOW], 6))
def test_no_server_holds_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT_S", 0.5)
    began = time.monotonic()
    with serving(name) as (port, _), pytest.raises(UnavailableError, match="cannot fetch"):
        take(f"http://127.0.0.1:{port}", tmp_path, tmp_path, str)
    assert time.monotonic() - began < 4


def test_what_an_index_lists_twice_is_not_fetched_twice() -> None:
    """A page of 90 kB made 10,000 requests."""
    with pytest.raises(ValueError, match="'demo' twice"):
        pages.parse_root(pages.root_json(["demo", "other", "demo"]))
    file = File(WHEEL, "demo", "1.0", "ab" * 32, 10, "", "cd" * 32, "2026-01-01", yanked=False)
    with pytest.raises(ValueError, match=f"'{WHEEL}' twice"):
        pages.parse(pages.project_json("demo", [file, file], {}), "demo")


class Lying(BaseHTTPRequestHandler):
    """Serves an index whose wheel is as large as the path of its address says, and sends a byte now and then."""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        size = int(self.path.split("/")[1])
        self.send_response(200)
        self.end_headers()
        if self.path.endswith(".whl"):
            for _ in range(100):
                self.wfile.write(b"x")
                time.sleep(0.1)
            return
        row = {"filename": WHEEL, "url": WHEEL, "size": size, "hashes": {"sha256": "0" * 64}, "requires-python": ""}
        row |= {"upload-time": "2026-01-01T00:00:00.000000Z", "core-metadata": {"sha256": "0" * 64}, "yanked": False}
        page = {"files": [row]} if "/demo/" in self.path else {"projects": [{"name": "demo"}]}
        self.wfile.write(json.dumps({"meta": {"api-version": "1.1"}, "name": "demo", **page}).encode())


@pytest.fixture
def lying() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Lying) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("size", "why"), [(10, "it takes longer than"), (1 << 60, "the disk has less space")])
def test_a_wheel_that_does_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lying: int, size: int, why: str
) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT_S", 0.5)
    began = time.monotonic()
    with pytest.raises(UnavailableError, match=why):
        take(f"http://127.0.0.1:{lying}/{size}", tmp_path / "site", tmp_path, str)
    assert time.monotonic() - began < 4
