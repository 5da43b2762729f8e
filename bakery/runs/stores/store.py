"""What a store is, and how to open one."""

from __future__ import annotations

import ssl
from typing import Protocol

from bakery.core.connections import Deadline
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


def open_store(address: StoreAddress, secret: Credentials, ca_bundle: str) -> Store:
    """Return the store at an address; it connects when it is first used. ``ca_bundle`` is empty for the system's."""
    from bakery.runs.stores.http import HttpStore
    from bakery.runs.stores.redis import RedisStore
    from bakery.runs.stores.s3 import S3Store

    tls = ssl.create_default_context(cafile=ca_bundle or None) if address.secure else None
    if address.scheme.startswith("redis"):
        return RedisStore(address, secret, tls)
    return (S3Store if address.scheme == "s3" else HttpStore)(address, secret, tls)
