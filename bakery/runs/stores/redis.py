"""A store in Redis, or in a server that speaks its protocol (RESP 2)."""

from __future__ import annotations

import ssl
import threading
from io import BufferedReader

from bakery.core.connections import Deadline, TimedSocket, connect
from bakery.core.store_address import Credentials, StoreAddress
from bakery.runs.stores.store import failure, limit

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
