"""A store in Redis, or in a server that speaks its protocol (RESP 2)."""

from __future__ import annotations

import socket
import ssl
import threading
from io import BufferedRWPair

from bakery.build.stores.store import MAX_OBJECT, TIMEOUT_S, StoreError
from bakery.core.store_address import Credentials, StoreAddress


class RedisStore:
    """A database of Redis; each thread has its own connection."""

    def __init__(self, address: StoreAddress, secret: Credentials, tls: ssl.SSLContext | None) -> None:
        self._address, self._secret, self._tls = address, secret, tls
        self._database, _, self._prefix = address.path.partition("/")
        self._local = threading.local()

    def get(self, key: str) -> bytes | None:
        """Return an object; None if there is none."""
        return self._ask(b"GET", self._key(key))

    def put(self, key: str, data: bytes) -> None:
        """Store an object; replace one that is there."""
        self._ask(b"SET", self._key(key), data)

    def _key(self, key: str) -> bytes:
        return "/".join(filter(None, (self._prefix, key))).encode()

    def _ask(self, *words: bytes) -> bytes | None:
        try:
            file = getattr(self._local, "file", None) or self._connect()
            return self._command(file, *words)
        except (OSError, ValueError) as error:
            self._local.file = None
            raise StoreError(f"{self._address.text}: {error or type(error).__name__}") from error

    def _connect(self) -> BufferedRWPair:
        connection = socket.create_connection((self._address.host, self._address.port), TIMEOUT_S)
        if self._tls:
            connection = self._tls.wrap_socket(connection, server_hostname=self._address.host)
        file = connection.makefile("rwb")
        # The file keeps the connection open.
        connection.close()
        user, password = self._secret.user, self._secret.password
        if password:
            self._command(file, b"AUTH", *((user.encode(),) if user else ()), password.encode())
        if self._database not in ("", "0"):
            self._command(file, b"SELECT", self._database.encode())
        self._local.file = file
        return file

    def _command(self, file: BufferedRWPair, *words: bytes) -> bytes | None:
        file.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))
        file.flush()
        line = file.readline(1 << 12)
        kind, rest = line[:1], line[1:].rstrip(b"\r\n")
        if kind == b"-":
            raise StoreError(f"{self._address.text}: {rest.decode(errors='replace')}")
        if kind in (b"+", b":"):
            return rest
        if kind != b"$" or not line.endswith(b"\r\n"):
            raise ValueError("the answer is not Redis's, or incomplete")
        size = int(rest)
        if size < 0:
            return None
        if size > MAX_OBJECT:
            raise ValueError(f"an object of {size} bytes")
        data = file.read(size + 2)
        if len(data) != size + 2:
            raise ValueError("the answer is incomplete")
        return data[:-2]
