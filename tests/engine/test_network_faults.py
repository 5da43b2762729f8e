"""An index, a registry and a cache that refuse, hang, truncate and lie: one clear error, and nothing in the output folder."""

from __future__ import annotations

import hashlib
import io
import re
import socket
import threading
import time
import uuid
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from command import bakery
from projects import pure
from runs import runs_of
from sample import sampled

from bakery.engine.package_index import configured

pytestmark = pytest.mark.engine

FAULTY = "bakery-faulty"
FILE = "bakery_faulty-1.0-py3-none-any.whl"


def wheel() -> bytes:
    """Return the one file of the project that the index is false about."""
    made = io.BytesIO()
    info = "bakery_faulty-1.0.dist-info"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: bakery-faulty\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
        archive.writestr("filler", uuid.uuid4().hex * 4000)
    return made.getvalue()


class Faulty(BaseHTTPRequestHandler):
    """Sends readers to the real index for everything but one project."""

    fault = ""
    index = ""
    content = b""

    def do_GET(self) -> None:
        if not self.path.startswith((f"/simple/{FAULTY}/", "/files/")):
            self.send_response(302)
            self.send_header("Location", self.index.rstrip("/") + "/" + self.path.removeprefix("/simple/"))
            self.end_headers()
        elif self.path.startswith("/simple/"):
            if self.fault == "hang":
                time.sleep(60)
            digest = hashlib.sha256(self.content).hexdigest()
            self._answer(f'<a href="/files/{FILE}#sha256={digest}">{FILE}</a>'.encode(), "text/html")
        elif self.fault == "truncate":
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.content)))
            self.end_headers()
            self.wfile.write(self.content[: len(self.content) // 2])
        else:
            self._answer(wheel() if self.fault == "lie" else self.content, "application/octet-stream")

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def own_address() -> str:
    """Return the address under which containers reach this machine; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the address of an index with a fault; where nobody listens, for one that refuses."""
    address = own_address()
    fault = str(request.param)
    if fault == "refuse":
        with socket.socket() as free:
            free.bind((address, 0))
            port = free.getsockname()[1]
        yield f"{address}:{port}"
        return
    handler = type("Handler", (Faulty,), {"fault": fault, "index": configured().url, "content": wheel()})
    server = ThreadingHTTPServer((address, 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"{address}:{server.server_port}"
    server.shutdown()
    server.server_close()


def project(folder: Path) -> Path:
    # Another list in each run: it is in no cache.
    more = f'requirements = ["{FAULTY}", "wheel!=0.{uuid.uuid4().int % 10**9}"]'
    return pure(folder, f'name = "faults"\n[builder]\n{more}\n[wheel]\nrepair = false\n')


def environment(served: str) -> dict[str, str]:
    return {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": f"http://{served}/simple/",
        "PIP_TRUSTED_HOST": served.partition(":")[0],
        # Without one, pip says nothing of why it found nothing.
        "PIP_RETRIES": "1",
        "PIP_TIMEOUT": "5",
    }


@pytest.mark.parametrize(
    ("served", "said"),
    [
        ("refuse", "onnection refused"),
        pytest.param("hang", "imed out", marks=pytest.mark.proof),
        # Debian's pip takes what it got for the file, as pip did before release 25.
        pytest.param("truncate", "not enough bytes were received|DO NOT MATCH THE HASHES", marks=pytest.mark.proof),
        ("lie", "DO NOT MATCH THE HASHES"),
    ],
    indirect=["served"],
)
def test_a_false_index_ends_in_one_error(tmp_path: Path, served: str, said: str) -> None:
    folder = project(tmp_path / "project é x")
    done = bakery(folder, "wheel", "--retries", "0", code=7, environment=environment(served), timeout_s=300)
    assert re.search(said, done.log("wheel-cp311")), done.log("wheel-cp311")[-3000:]
    assert not list(folder.glob("dist/*.whl"))
    assert not list(runs_of(folder).glob("*/stage"))


@pytest.mark.proof
@pytest.mark.parametrize("served", ["honest"], indirect=True)
def test_an_honest_index_is_believed(tmp_path: Path, served: str) -> None:
    """The other tests fail for what is wrong with the index, and for nothing else."""
    (made,) = bakery(project(tmp_path / "project"), "wheel", environment=environment(served)).wheels
    assert made.is_file()


class FaultyRegistry(BaseHTTPRequestHandler):
    """Answers every question of a registry's client in the same wrong way."""

    fault = ""

    def do_GET(self) -> None:
        if self.fault == "hang":
            time.sleep(120)
        body = b'{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": "none"}'
        self.send_response(503 if self.fault == "refuse" else 200)
        self.send_header("Content-Type", "application/vnd.oci.image.manifest.v1+json")
        self.send_header("Docker-Content-Digest", f"sha256:{'0' * 64}")
        self.send_header("Content-Length", str(len(body) + (100 if self.fault == "truncate" else 0)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def registry_of(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the address of a registry with a fault, on the loopback interface, where plain HTTP is spoken."""
    handler = type("Handler", (FaultyRegistry,), {"fault": str(request.param)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.socket.close()


@pytest.mark.parametrize("registry_of", sampled(["lie", "refuse", "truncate"], 3), indirect=True)
def test_a_base_of_a_false_registry_is_one_error(tmp_path: Path, registry_of: str) -> None:
    recipe = f'name = "faults"\n[builder]\nbase = {{ image = "{registry_of}/base:1" }}\n[wheel]\nrepair = false\n'
    folder = pure(tmp_path / "project", recipe)
    done = bakery(folder, "wheel", "--retries", "0", code=7, timeout_s=300)
    assert registry_of in done.err
    assert not list(folder.glob("dist/*.whl"))


@pytest.mark.parametrize("registry_of", sampled(["lie", "refuse", "truncate"], 3), indirect=True)
def test_a_false_cache_is_as_none(tmp_path: Path, registry_of: str) -> None:
    folder = pure(tmp_path / "project", 'name = "faults"\n[wheel]\nrepair = false\n')
    reference = f"type=registry,ref={registry_of}/cache:1"
    done = bakery(folder, "wheel", "--set", f"*.cache-from={reference}", timeout_s=300)
    assert len(done.wheels) == 1
