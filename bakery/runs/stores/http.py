"""A store on a server with GET and PUT: WebDAV, or any other that keeps what it is sent."""

from __future__ import annotations

import base64
import http.client
import ssl
import threading
import urllib.parse
from collections.abc import Mapping

from bakery.core.connections import Deadline, TimedHttp, TimedHttps, http_connection, read_answer
from bakery.core.store_address import Credentials, StoreAddress
from bakery.runs.stores.store import failure, limit

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
