"""Stores that share compiler caches between machines: Redis, S3, and servers that speak HTTP or WebDAV.

Only Bakery's own process talks to a store and knows its credentials. Build steps never do.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import ssl
import threading
import urllib.parse
from collections.abc import Mapping
from datetime import UTC, datetime
from io import BufferedReader
from typing import Protocol

from bakery.core.connections import Deadline, TimedHttp, TimedHttps, TimedSocket, connect, http_connection, read_answer
from bakery.core.errors import BakeryError
from bakery.core.store_address import Credentials, StoreAddress

MAX_OBJECT = 128 << 20
"""Bytes of the largest object that is stored or taken."""

_REQUEST_S = 20.0
_SLOWEST = 1 << 20
"""Bytes of an object that have to move in each second, after the first `_REQUEST_S`."""


def limit(size: int, whole: Deadline) -> Deadline:
    """Return when a request has to be done that moves at most ``size`` bytes; ``whole``: when all of them have to."""
    return Deadline(_REQUEST_S + size / _SLOWEST, whole)


class StoreError(BakeryError, title="store"):
    """A store does not answer, or refuses a request."""


def failure(address: StoreAddress, secret: Credentials, reason: object) -> StoreError:
    """Return the error for what a connection or a server said: a server may repeat the password that it was told."""
    from bakery.runs.secrets.mask import Mask

    mask = Mask({"store": f"{secret.password}\n{secret.token}".encode()})
    return StoreError(f"{address.text}: {mask.hide(str(reason).rstrip().encode()).decode(errors='replace')}")


class Store(Protocol):
    """A store of objects by key. Threads may use it at the same time. All methods raise StoreError.

    ``whole``: when the caller's work has to be done; each request also has a limit of its own, `limit`.
    """

    def get(self, key: str, most: int, whole: Deadline) -> bytes | None:
        """Return an object; None if there is none. One of more than ``most`` bytes is an error."""

    def put(self, key: str, data: bytes, whole: Deadline) -> None:
        """Store an object; replace one that is there."""


_LARGEST_REPLY = 1 << 20
"""Bytes of an answer that is no object; none of them is read."""


class HttpStore:
    """A folder of a server; each thread has its own connection."""

    def __init__(self, address: StoreAddress, secret: Credentials, tls: ssl.SSLContext | None) -> None:
        self._address, self._secret, self._tls = address, secret, tls
        self.host, self.port, self.folder = address.host, address.port, address.path
        self._local = threading.local()

    def get(self, key: str, most: int, whole: Deadline) -> bytes | None:
        """Return an object; None if there is none."""
        status, body = self._request("GET", self._path(key), limit(most, whole), most=most)
        if status == 404:
            return None
        self._check(status, (200,))
        return body

    def put(self, key: str, data: bytes, whole: Deadline) -> None:
        """Store an object; replace one that is there."""
        path, deadline = self._path(key), limit(len(data), whole)
        status, _ = self._request("PUT", path, deadline, data)
        if status in (403, 404, 405, 409) and self._makes_folders:
            # WebDAV: folders have to be made first, and servers differ in how they say so.
            steps = path.strip("/").split("/")[:-1]
            folders = ["/" + "/".join(steps[: end + 1]) for end in range(len(steps))]
            statuses = [self._request("MKCOL", folder, deadline)[0] for folder in folders]
            if 201 in statuses or 405 in statuses:
                status, _ = self._request("PUT", path, deadline, data)
        self._check(status, (200, 201, 204))

    _makes_folders = True

    def headers(self, method: str, path: str, body: bytes) -> Mapping[str, str]:
        """Return the headers of a request that say who asks."""
        user, password = self._secret.user, self._secret.password
        if user:
            return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
        return {"Authorization": f"Bearer {password}"} if password else {}

    def _path(self, key: str) -> str:
        return "/" + urllib.parse.quote("/".join(filter(None, (self.folder, key))))

    def _check(self, status: int, good: tuple[int, ...]) -> None:
        if status not in good:
            reason = http.client.responses.get(status, "")
            raise failure(self._address, self._secret, f"HTTP {status} {reason}")

    def _request(
        self, method: str, path: str, deadline: Deadline, body: bytes = b"", most: int = _LARGEST_REPLY
    ) -> tuple[int, bytes]:
        """Return status and body of an answer. A kept connection that the server closed meanwhile is opened again."""
        while True:
            connection: TimedHttp | TimedHttps | None = getattr(self._local, "connection", None)
            is_kept = connection is not None
            connection = connection or http_connection(self.host, self.port, self._tls)
            try:
                connection.start(deadline)
                connection.request(method, path, body or None, dict(self.headers(method, path, body)))
                with connection.getresponse() as answer:
                    # Without a length, the end of the connection may have cut the answer.
                    if not answer.chunked and answer.length is None:
                        raise ValueError("an answer without its length")
                    data = read_answer(answer, most if answer.status == http.client.OK else _LARGEST_REPLY)
                self._local.connection = connection
                return answer.status, data
            except (OSError, ValueError, http.client.HTTPException) as error:
                connection.close()
                self._local.connection = None
                if not is_kept or isinstance(error, ValueError | TimeoutError):
                    raise failure(self._address, self._secret, error or type(error).__name__) from error


class S3Store(HttpStore):
    """A prefix of a bucket. Amazon has a host for each bucket; other services have the bucket in the path."""

    _makes_folders = False

    def __init__(self, address: StoreAddress, secret: Credentials, tls: ssl.SSLContext | None) -> None:
        super().__init__(address, secret, tls)
        # A certificate for *.s3… does not fit a bucket with a dot.
        in_path = bool(address.host) or "." in address.bucket
        amazon = f"s3.{address.region}.amazonaws.com"
        self.host = address.host or (amazon if in_path else f"{address.bucket}.{amazon}")
        self.folder = "/".join(filter(None, (address.bucket if in_path else "", address.path)))
        default = 443 if address.secure else 80
        self._host_header = self.host if self.port == default else f"{self.host}:{self.port}"

    def headers(self, method: str, path: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that sign a request; none without a key, for what anybody may read."""
        if not self._secret.password:
            return {}
        return signed(method, self._host_header, path, body, self._address.region, self._secret, datetime.now(UTC))


def signed(
    method: str, host: str, path: str, body: bytes, region: str, key: Credentials, now: datetime
) -> dict[str, str]:
    """Return the headers that sign a request to S3 without a query; ``path`` is quoted already."""
    moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    content = hashlib.sha256(body).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": content, "x-amz-date": moment}
    if key.token:
        headers["x-amz-security-token"] = key.token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = f"{method}\n{path}\n\n{lines}\n{names}\n{content}"
    scope = f"{day}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    secret = f"AWS4{key.password}".encode()
    for part in (day, region, "s3", "aws4_request"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    signature = hmac.digest(secret, text.encode(), "sha256").hex()
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={key.user}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


_Ends = tuple[TimedSocket, BufferedReader]
"""Where requests go, and where answers come from."""


class RedisStore:
    """A database of Redis; each thread has its own connection."""

    def __init__(self, address: StoreAddress, secret: Credentials, tls: ssl.SSLContext | None) -> None:
        self._address, self._secret, self._tls = address, secret, tls
        self._database, _, self._prefix = address.path.partition("/")
        self._local = threading.local()

    def get(self, key: str, most: int, whole: Deadline) -> bytes | None:
        """Return an object; None if there is none."""
        return self._ask(limit(most, whole), most, b"GET", self._key(key))

    def put(self, key: str, data: bytes, whole: Deadline) -> None:
        """Store an object; replace one that is there."""
        self._ask(limit(len(data), whole), 0, b"SET", self._key(key), data)

    def _key(self, key: str) -> bytes:
        return "/".join(filter(None, (self._prefix, key))).encode()

    def _ask(self, deadline: Deadline, most: int, *words: bytes) -> bytes | None:
        try:
            ends = getattr(self._local, "ends", None) or self._connect(deadline)
            ends[0].deadline = deadline
            return self._command(ends, most, *words)
        except (OSError, ValueError) as error:
            for end in getattr(self._local, "ends", None) or ():
                end.close()
            self._local.ends = None
            raise failure(self._address, self._secret, error or type(error).__name__) from error

    def _connect(self, deadline: Deadline) -> _Ends:
        connection = connect(self._address.host, self._address.port, self._tls, deadline)
        ends = self._local.ends = connection, connection.makefile()
        user, password = self._secret.user, self._secret.password
        if password:
            self._command(ends, 0, b"AUTH", *((user.encode(),) if user else ()), password.encode())
        if self._database not in ("", "0"):
            self._command(ends, 0, b"SELECT", self._database.encode())
        return ends

    def _command(self, ends: _Ends, most: int, *words: bytes) -> bytes | None:
        connection, file = ends
        parts = (b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        connection.sendall(b"*%d\r\n" % len(words) + b"".join(parts))
        line = file.readline(1 << 12)
        kind, rest = line[:1], line[1:].rstrip(b"\r\n")
        if kind == b"-":
            raise failure(self._address, self._secret, rest.decode(errors="replace"))
        if kind in (b"+", b":"):
            return rest
        if kind != b"$" or not line.endswith(b"\r\n"):
            raise ValueError("the answer is not Redis's, or incomplete")
        size = int(rest)
        if size < 0:
            return None
        if size > most:
            raise ValueError(f"an object of {size} bytes")
        data = file.read(size + 2)
        if len(data) != size + 2:
            raise ValueError("the answer is incomplete")
        return data[:-2]


def open_store(address: StoreAddress, secret: Credentials, ca_bundle: str) -> Store:
    """Return the store at an address; it connects when it is first used. ``ca_bundle`` is empty for the system's."""
    tls = ssl.create_default_context(cafile=ca_bundle or None) if address.secure else None
    if address.scheme.startswith("redis"):
        return RedisStore(address, secret, tls)
    return (S3Store if address.scheme == "s3" else HttpStore)(address, secret, tls)
