"""Queries a Docker engine over its unix socket, which is much faster than starting a client."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path

from bakery.plan.values import Json

TIMEOUT_S = 5.0


class ApiError(Exception):
    """The engine does not answer, or answers with an error."""


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def get(path: Path, request: str, timeout: float = TIMEOUT_S) -> dict[str, Json]:
    """Return the answer to a GET request, which must be a JSON object.

    Raises ApiError if no answer, or one that is not a JSON object with status 200.

    Args:
        path: the engine's unix socket.
        request: path and query, e.g. ``/version``.
        timeout: seconds to wait for connection and answer.
    """
    connection = _UnixConnection(path, timeout)
    try:
        connection.request("GET", request)
        response = connection.getresponse()
        body = response.read()
        document = json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ApiError(f"{path}: {error}") from error
    finally:
        connection.close()
    if response.status != http.client.OK or not isinstance(document, dict):
        raise ApiError(f"{path}: HTTP {response.status} {document}")
    return document
