"""Which failures are tried again: real messages, as tools and people's reports have them."""

from __future__ import annotations

import pytest

from bakery.runs.buildx.bake_outcome import Failure
from bakery.runs.buildx.failures import is_transient, lost_a_layer, may_be_the_cache

ENDED = 'process "/bin/sh -c x" did not complete successfully: exit code: {}'

ENGINE = [
    "failed to receive status: rpc error: code = NotFound desc = no such job rwuosac2rpyoqp4u343f6hq6k",
    "NotFound: forwarding Ping: no such job trm9u2yqo8p9pv0dnfw4j2i6i",
    "failed to receive status: rpc error: code = Unavailable desc = error reading from server: EOF",
    "failed to receive status: rpc error: code = Unavailable desc = closing transport due to: connection error: desc = "
    '"error reading from server: EOF", received prior goaway: code: NO_ERROR, debug data: "graceful_stop"',
    "failed to receive status: rpc error: code = Canceled desc = context canceled",
    "failed to get status: rpc error: code = Unavailable desc = timed out waiting for server handshake",
    "Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?",
    "failed to connect to the docker API at unix:///run/x/docker.sock; check if the path is correct and if the daemon is "
    "running: dial unix /run/x/docker.sock: connect: no such file or directory",
    'error during connect: Get "http://%2Frun%2Fdocker.sock/_ping": EOF',
    "docker buildx bake was ended by SIGKILL",
    'image "docker.io/library/kernels-builder:cp312": already exists',
    "failed to dial gRPC: cannot connect to the Docker daemon. Is 'docker daemon' running on this host?: read tcp "
    "172.17.0.2:38412->213.188.198.250:10000: read: connection reset by peer",
]

REGISTRY = [
    "debian:x: failed to resolve source metadata for docker.io/library/debian:x: failed to copy: httpReadSeeker: failed "
    "open: unexpected status code https://registry-1.docker.io/v2/library/debian/blobs/sha256:d945: 500 Internal Server Error",
    'failed to do request: Head "https://registry-1.docker.io/v2/library/debian/manifests/x": dial tcp: lookup '
    "registry-1.docker.io: i/o timeout",
    'failed to copy: httpReadSeeker: failed open: failed to do request: Get "https://production.cloudflare.docker.com/x": '
    "read tcp 172.17.0.3:42364->1.2.0.8:443: read: connection reset by peer",
    "unexpected status code [manifests latest]: 503 Service Unavailable",
    "received unexpected HTTP status: 503 Service Unavailable",
    "toomanyrequests: You have reached your pull rate limit.",
    "failed to authorize: failed to fetch oauth token: unexpected status from POST request to "
    "https://auth.docker.io/token: 504 Gateway Timeout",
    "net/http: TLS handshake timeout",
]

NETWORK = [
    "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files.pythonhosted.org', port=443): Read timed out.",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "pip._vendor.urllib3.exceptions.ProtocolError: ('Connection broken: IncompleteRead(1 bytes read)', IncompleteRead())",
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(': Failed to establish a new "
    "connection: [Errno -3] Temporary failure in name resolution')': /simple/setuptools/",
    "ERROR: HTTP error 503 while getting https://files.pythonhosted.org/packages/x.whl",
    "pip._vendor.requests.exceptions.HTTPError: 502 Server Error: Bad Gateway for url: https://pypi.org/simple/x/",
    "error: Failed to fetch: `https://pypi.org/simple/x/`: HTTP status server error (503 Service Unavailable)",
    "W: Failed to fetch http://archive.example/dists/x/InRelease  Temporary failure resolving 'archive.example'",
    "E: Failed to fetch http://archive.example/pool/x.deb  502  Bad Gateway",
    "E: Failed to fetch http://archive.example/by-hash/SHA256/e201  Hash Sum mismatch",
    "   File has unexpected size (1 != 2). Mirror sync in progress?",
    "fatal: unable to access 'https://github.com/x/y/': Could not resolve host: github.com",
    "error: RPC failed; curl 92 HTTP/2 stream 5 was not closed cleanly: CANCEL (err 8)",
    "fatal: early EOF",
    "× Download failed after 6 attempts because not enough bytes were received (64 kB/128 kB)",
    "curl: (28) Operation timed out after 30001 milliseconds with 0 out of 0 bytes received",
    "curl: (22) The requested URL returned error: 503",
]

PERMANENT = [
    "ERROR: No matching distribution found for nanobind==99",
    "E: Unable to locate package libfoo-dev",
    "error: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
    "ERROR: HTTP error 404 while getting https://files.pythonhosted.org/packages/x.whl",
    "fatal: couldn't find remote ref v1.2.3",
    "OSError: [Errno 28] No space left on device",
    "g++: fatal error: Killed signal terminated program cc1plus",
    "gcc -O2 -DTIMEOUT=500 -c line503.c",
    "  Downloading x-1.0-py3-none-any.whl (503 kB)",
]

OWN = [
    "[compile 3/5] RUN with-ccache python -m build", "[backend-requires 1/1] RUN python requires.py",
    "[native 1/1] RUN cmake -S . -B /build", "[repair 1/1] RUN finish.py",
    "[linux/amd64 compile 1/1] RUN python -m build", "[my-kernels-test 2/4] RUN python -m pytest",
]  # fmt: skip


def failed(step: str, *printed: str, code: str = "1") -> Failure:
    return Failure(("wheel-cp311",), step, ENDED.format(code), printed, None, "")


@pytest.mark.parametrize("message", [*ENGINE, *REGISTRY])
def test_what_the_engine_says_is_tried_again(message: str) -> None:
    assert is_transient(Failure(("wheel-cp311",), "", message, ("something before",), None, ""))
    # Also in the midst of a compile: it is not the compile that failed.
    assert is_transient(Failure(("wheel-cp311",), OWN[0], message, ("error: printed by the step",), None, ""))


@pytest.mark.parametrize("message", NETWORK)
def test_what_the_network_does_to_a_step_is_tried_again(message: str) -> None:
    assert is_transient(failed("[builder 3/3] RUN net python -m pip install", "before", message, "after"))


@pytest.mark.parametrize("step", OWN)
def test_what_compiles_or_tests_is_not(step: str) -> None:
    for message in (*NETWORK, *ENGINE):
        assert not is_transient(failed(step, message))


@pytest.mark.parametrize("message", PERMANENT)
def test_what_stays_so_is_not(message: str) -> None:
    assert not is_transient(failed("[builder 3/3] RUN net python -m pip install", message))


def test_text_of_a_step_is_not_the_engines() -> None:
    bad = Failure((), "", "bake.hcl:2,3-11: Invalid block definition", ("ERROR: bake.hcl:2",), None, "")
    assert not is_transient(bad)


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (
            "failed to commit u9s to lt2 during finalize: failed to stat active key during commit: snapshot u9s does not "
            "exist: not found",
            True,
        ),
        (
            "failed to solve: stat /data/io.containerd.snapshotter.v1.overlayfs/snapshots/48/fs: no such file or directory",
            True,
        ),
        ('failed to prepare x: failed to create snapshot: missing parent "y" bucket: not found', False),
        (ENDED.format("1") + ": snapshot x does not exist", False),
        ("not done within 60 s", False),
    ],
)
def test_a_layer_that_the_engine_lost(error: str, lost: bool) -> None:
    assert lost_a_layer(Failure(("wheel-cp311",), OWN[0], error, (), None, "")) == lost


@pytest.mark.parametrize(
    ("error", "possible"),
    [
        ("failed to load cache key: failed to copy: httpReadSeeker: failed open: connection refused", True),
        ("failed to compute cache key: unexpected commit digest sha256:1, expected sha256:2", True),
        (ENDED.format("1"), False),
        ("not done within 60 s", False),
    ],
)
def test_what_a_layer_cache_may_have_done(error: str, possible: bool) -> None:
    assert may_be_the_cache(Failure(("wheel-cp311",), OWN[0], error, (), None, "")) == possible
