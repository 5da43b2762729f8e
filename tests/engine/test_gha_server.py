"""The tests' own server of GitHub's cache speaks the protocol: a small client goes through all of it."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ghacache import SERVICE, Fault, GhaCache, gha_cache, token

BLOCK = 1 << 20


@pytest.fixture
def cache() -> Iterator[GhaCache]:
    with gha_cache() as made:
        yield made


def call(cache: GhaCache, method: str, bearer: str = "", **said: object) -> dict[str, Any]:
    body = json.dumps({"version": "v", **said}).encode()
    headers = {"Authorization": f"Bearer {bearer or token()}", "Content-Type": "application/json"}
    request = urllib.request.Request(cache.url().rstrip("/") + SERVICE + method, body, headers)
    with urllib.request.urlopen(request, timeout=10) as reply:
        found: dict[str, Any] = json.loads(reply.read())
    return found


def put(url: str, body: bytes, **headers: str) -> int:
    request = urllib.request.Request(
        url, body, {key.replace("_", "-"): text for key, text in headers.items()}, method="PUT"
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        assert reply.headers["x-ms-request-id"]
        return int(reply.status)


def get(url: str, **headers: str) -> tuple[int, bytes]:
    request = urllib.request.Request(url, headers={key.replace("_", "-"): text for key, text in headers.items()})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return int(reply.status), reply.read()


def store(cache: GhaCache, key: str, content: bytes) -> None:
    url = call(cache, "CreateCacheEntry", key=key)["signed_upload_url"]
    if len(content) < BLOCK:
        assert put(url, content, x_ms_blob_type="BlockBlob") == 201
    else:
        ids = [f"{at:08}" for at in range(0, len(content), BLOCK)]
        for name in ids:
            assert put(f"{url}&comp=block&blockid={name}", content[int(name) : int(name) + BLOCK]) == 201
        listed = "".join(f"<Latest>{name}</Latest>" for name in ids)
        assert put(f"{url}&comp=blocklist", f"<BlockList>{listed}</BlockList>".encode()) == 201
    done = call(cache, "FinalizeCacheEntryUpload", key=key, size_bytes=len(content))
    assert done["ok"]
    assert isinstance(done["entry_id"], str)


@pytest.mark.parametrize("size", [0, 1000, BLOCK - 1, BLOCK, 5 * BLOCK + 17])
def test_what_is_stored_comes_back(cache: GhaCache, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    store(cache, "one", content[:size])
    url = call(cache, "GetCacheEntryDownloadURL", key="one")["signed_download_url"]
    assert get(url) == (200, content[:size])
    assert get(url, x_ms_range="bytes=7-") == (206, content[7:size])


def test_blocks_stand_in_the_order_of_their_list(cache: GhaCache) -> None:
    url = call(cache, "CreateCacheEntry", key="one")["signed_upload_url"]
    for name in ("b", "a"):
        put(f"{url}&comp=block&blockid={name}", name.encode())
    put(f"{url}&comp=blocklist", b"<BlockList><Latest>b</Latest><Latest>a</Latest></BlockList>")
    call(cache, "FinalizeCacheEntryUpload", key="one", size_bytes=2)
    assert cache.entries["v", "one"] == b"ba"


def test_the_newest_entry_that_a_key_begins(cache: GhaCache) -> None:
    for key in ("index-a#1", "index-a#2", "index-b#1"):
        store(cache, key, key.encode())
    found = call(cache, "GetCacheEntryDownloadURL", key="index-a#", restore_keys=["index-a#"])
    assert found["matched_key"] == "index-a#2"
    assert call(cache, "GetCacheEntryDownloadURL", key="index-c") == {"ok": False}
    assert call(cache, "GetCacheEntryDownloadURL", key="index-a#1")["matched_key"] == "index-a#1"


def code_of(cache: GhaCache, method: str, **said: object) -> int:
    with pytest.raises(urllib.error.HTTPError) as caught:
        call(cache, method, **said)  # type: ignore[arg-type]
    return caught.value.code


def test_what_is_refused(cache: GhaCache) -> None:
    store(cache, "one", b"1")
    assert code_of(cache, "CreateCacheEntry", key="one") == 409
    assert code_of(cache, "FinalizeCacheEntryUpload", key="two", size_bytes=1) == 404
    assert code_of(cache, "CreateCacheEntry", bearer=token(-10), key="two") == 401
    assert code_of(cache, "NoSuchMethod", key="two") == 404
    url = call(cache, "CreateCacheEntry", key="two")["signed_upload_url"]
    with pytest.raises(urllib.error.HTTPError, match="400"):
        put(url, b"2")


@pytest.mark.parametrize(("kind", "code"), [("429", 429), ("403", 403), ("500", 500)])
def test_faults_are_used_up(cache: GhaCache, kind: str, code: int) -> None:
    store(cache, "one", b"12345678")
    cache.faults = [Fault("get", kind, times=2, after=1)]
    url = call(cache, "GetCacheEntryDownloadURL", key="one")["signed_download_url"]
    assert get(url)[0] == 200
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError, match=str(code)):
            get(url)
    assert get(url)[0] == 200
    assert cache.met == 2


def test_bodies_that_are_cut_off_or_false(cache: GhaCache) -> None:
    store(cache, "one", b"12345678")
    url = call(cache, "GetCacheEntryDownloadURL", key="one")["signed_download_url"]
    cache.faults = [Fault("get", "truncated"), Fault("get", "lie"), Fault("get", "reset")]
    with pytest.raises(http.client.IncompleteRead):
        get(url)
    assert get(url) == (200, bytes(8))
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError, urllib.error.URLError)):
        get(url)
    assert get(url) == (200, b"12345678")


def test_a_server_that_is_gone(cache: GhaCache, tmp_path: Path) -> None:
    url = cache.url()
    cache.stop()
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(url, timeout=5)
