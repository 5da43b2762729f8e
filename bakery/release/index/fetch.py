"""Downloads the wheels of a published index, and compares them with its pages."""

from __future__ import annotations

import hashlib
import shutil
import ssl
import urllib.error
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import Request

from packaging.utils import is_normalized_name

from bakery.core.connections import Deadline, fetch, open_url
from bakery.core.errors import UnavailableError
from bakery.core.files import write_file
from bakery.release.index import pages
from bakery.release.index.attestations import SUFFIX
from bakery.release.index.files import File
from bakery.release.index.store import SIMPLE, NewWheel

TIMEOUT_S = 60
"""Seconds for a page."""

_SLOWEST = 100_000
"""Bytes of a wheel that have to arrive in each second."""


def take(url: str, site: Path, scratch: Path, say: Callable[[str], None], ca_bundle: str = "") -> list[NewWheel]:
    """Download the wheels of an index that are not in folder ``site`` to the empty folder ``scratch``.

    ``url`` is the address of the folder that `extend` made; without an index there (404), the result is empty.
    ``ca_bundle`` is a PEM file, or empty for the system's. Raises UnavailableError if the index is not reachable or not
    one of bakery's, or if a wheel differs from its page.
    """
    served = _Fetch(url.rstrip("/") + f"/{SIMPLE}/", ca_bundle)
    root = served.page(pages.JSON)
    if root is None:
        say(f"{url} has no index yet")
        return []
    wheels = []
    try:
        for project in pages.parse_root(root):
            if not is_normalized_name(project):
                raise ValueError(f"{project[:80]!r} is not a normalised project name")
            page = served.page(f"{project}/{pages.JSON}")
            if page is None:
                raise ValueError(f"it lists {project} but has no page for it")
            for file in pages.parse(page, project):
                path = site / SIMPLE / project / file.name
                if not path.exists():
                    path = scratch / file.name
                    served.wheel(f"{project}/{quote(file.name)}", file, path)
                    if file.provenance and (text := served.page(f"{project}/{quote(file.name)}{SUFFIX}")):
                        write_file(path.with_name(file.name + SUFFIX), text)
                wheels.append(NewWheel(path, file.uploaded, file.yanked))
    except ValueError as error:
        raise UnavailableError(
            f"{url} is not an index that can be extended: {error}", hint="it must be made by `wheel-bakery index`"
        ) from error
    return wheels


class _Fetch:
    def __init__(self, base: str, ca_bundle: str) -> None:
        self._base = base
        secure = urlsplit(base).scheme == "https"
        self._context = ssl.create_default_context(cafile=ca_bundle or None) if secure else None

    def page(self, path: str) -> bytes | None:
        """Return a page; None if it does not exist."""
        try:
            return fetch(Request(self._base + path), most=pages.LARGEST, seconds=TIMEOUT_S, tls=self._context)[1]
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise self._failed(path, f"HTTP {error.code}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise self._failed(path, str(error)) from error

    def wheel(self, path: str, file: File, target: Path) -> None:
        """Write a wheel to ``target`` and compare it with its page."""
        digest, size = hashlib.sha256(), 0
        try:
            if file.size > shutil.disk_usage(target.parent).free:
                raise self._failed(path, f"its page says {file.size:,} bytes, and the disk has less space")
            deadline = Deadline(TIMEOUT_S + file.size / _SLOWEST)
            with open_url(Request(self._base + path), deadline, self._context) as reply, target.open("wb") as stream:
                while chunk := reply.read(1 << 20):
                    size += len(chunk)
                    if size > file.size:
                        raise self._failed(path, f"it has more bytes than its page says, {file.size:,}")
                    digest.update(chunk)
                    stream.write(chunk)
        except (OSError, HTTPException, ValueError) as error:
            raise self._failed(path, str(error)) from error
        if digest.hexdigest() != file.sha256:
            raise self._failed(path, f"it has sha256 {digest.hexdigest()}, and its page says {file.sha256}")

    def _failed(self, path: str, why: str) -> UnavailableError:
        return UnavailableError(f"cannot fetch {self._base}{path}: {why}", hint="the index on disk was not changed")
