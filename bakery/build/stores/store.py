"""What a store is, and how to open one."""

from __future__ import annotations

import ssl
from typing import Protocol

from bakery.core.errors import BakeryError
from bakery.core.store_address import Credentials, StoreAddress

TIMEOUT_S = 20
"""Seconds that a connection may be silent."""

MAX_OBJECT = 256 << 20
"""Bytes of the largest object that is stored or taken."""


class StoreError(BakeryError, title="store"):
    """A store does not answer, or refuses a request."""


class Store(Protocol):
    """A store of objects by key. Threads may use it at the same time. All methods raise StoreError."""

    def get(self, key: str) -> bytes | None:
        """Return an object; None if there is none."""

    def put(self, key: str, data: bytes) -> None:
        """Store an object; replace one that is there."""


def open_store(address: StoreAddress, secret: Credentials, ca_bundle: str) -> Store:
    """Return the store at an address; it connects when it is first used. ``ca_bundle`` is empty for the system's."""
    from bakery.build.stores.http import HttpStore
    from bakery.build.stores.redis import RedisStore
    from bakery.build.stores.s3 import S3Store

    tls = ssl.create_default_context(cafile=ca_bundle or None) if address.secure else None
    if address.scheme.startswith("redis"):
        return RedisStore(address, secret, tls)
    return (S3Store if address.scheme == "s3" else HttpStore)(address, secret, tls)
