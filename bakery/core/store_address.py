"""The place of ``--compiler-cache``: a folder, or the address of a store."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bakery.core.addresses import hidden
from bakery.core.errors import UsageError
from bakery.core.text import is_line

VARIABLE = "BAKERY_COMPILER_CACHE"
USER, PASSWORD = f"{VARIABLE}_USER", f"{VARIABLE}_PASSWORD"

PORTS = {"redis": 6379, "rediss": 6379, "http": 80, "https": 443, "webdav": 80, "webdavs": 443, "s3": 443}
"""Scheme → the port that it stands for."""

_EXAMPLES = "redis://cache.example:6379, s3://bucket/prefix?region=eu-west-1 or https://cache.example/path"
_PATH = re.compile(r"[A-Za-z0-9/._~-]*")
_TEXT = re.compile(r"[A-Za-z0-9:/?&=.@%_~+-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The address of a store, without its password.

    Attributes:
        text: as it was written, without the user, who may be a token.
        host: for S3, that of the endpoint; empty for Amazon's.
        path: without slashes at its ends; for Redis, the number of the database and a prefix of keys.
        bucket: of S3.
        secure: the connection uses TLS.
    """

    text: str
    scheme: str
    host: str
    port: int
    path: str
    user: str = ""
    bucket: str = ""
    region: str = ""
    secure: bool = False


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a store asks for. ``token`` is that of a temporary key of S3."""

    user: str = ""
    password: str = ""
    token: str = ""

    def __repr__(self) -> str:
        """Return no secret."""
        return "Credentials(…)"


def parse_place(text: str) -> StoreAddress | Path:
    """Return the address of a store, or else the path of a folder. Raises UsageError if an address is malformed."""
    scheme, colon, _ = text.partition("://")
    if not colon:
        return Path(text)
    if scheme not in PORTS:
        raise _wrong(f"its scheme is {scheme!r}", f"use one of {', '.join(sorted(PORTS))}, such as {_EXAMPLES}")
    try:
        parts = urllib.parse.urlsplit(text)
        port = parts.port
        query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        if "@" in "".join((parts.fragment, *query)):
            raise ValueError
    except ValueError:
        # Its text may have a part of a password.
        raise _wrong(
            "its port, or what stands after ? or #, is malformed", f"write an address such as {_EXAMPLES}"
        ) from None
    text, written = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), text
    if parts.password is not None:
        raise _wrong("it has a password, which logs and lists of processes would show", f"put it into {PASSWORD}")
    unknown = sorted(set(query) - ({"endpoint", "region"} if scheme == "s3" else set()))
    if unknown or parts.fragment:
        raise _wrong(f"it has the unknown part {(unknown or [parts.fragment])[0]!r}", f"see {_EXAMPLES}")
    if not parts.hostname or not _TEXT.fullmatch(written) or not _PATH.fullmatch(parts.path):
        raise _wrong("it has no host, or characters that it must not have", f"see {_EXAMPLES}")
    path, user = parts.path.strip("/"), urllib.parse.unquote(parts.username or "")
    if scheme == "s3":
        return _bucket(text, parts.netloc.rpartition("@")[2], path, user, query)
    if scheme.startswith("redis") and not re.fullmatch(r"(?:[0-9]{1,5}(?:/.*)?)?", path):
        raise _wrong("its path does not begin with the number of a database", "write redis://HOST/0/PREFIX")
    return StoreAddress(
        text, scheme, parts.hostname, port or PORTS[scheme], path, user, secure=scheme in ("rediss", "https", "webdavs")
    )


def _bucket(text: str, bucket: str, path: str, user: str, query: Mapping[str, str]) -> StoreAddress:
    """Return the address of a bucket and prefix of S3."""
    region, endpoint = query.get("region", ""), query.get("endpoint", "")
    if not endpoint:
        if not region:
            raise _wrong("it has no region", "add ?region=NAME, or ?endpoint=URL of another service than Amazon's")
        return StoreAddress(text, "s3", "", 443, path, user, bucket, region, secure=True)
    try:
        parts = urllib.parse.urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        port = parts.port
    except ValueError:
        raise _wrong("its endpoint has a malformed port", "write endpoint=https://HOST:PORT") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or "@" in parts.netloc:
        raise _wrong(f"its endpoint is {hidden(endpoint)!r}", "write endpoint=https://HOST:PORT")
    secure = parts.scheme == "https"
    port = port or (443 if secure else 80)
    return StoreAddress(text, "s3", parts.hostname, port, path, user, bucket, region or "us-east-1", secure)


def credentials(address: StoreAddress, environ: Mapping[str, str]) -> Credentials:
    """Return the credentials of a store from the environment: Bakery's variables, or for S3 also those of Amazon's.

    Raises UsageError, without the value, if one has control characters.
    """

    def read(name: str) -> str:
        # As the shell's $(…) does: a file with a password ends in a line break.
        value = environ.get(name, "").rstrip("\r\n")
        if not is_line(value):
            raise UsageError(
                f"{name}: expected one line without control characters", hint="set it again; it is not shown"
            )
        return value

    user, password = address.user or read(USER), read(PASSWORD)
    if address.scheme == "s3" and not password:
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        return Credentials(*map(read, names))
    return Credentials(user, password)


def _wrong(what: str, hint: str) -> UsageError:
    # Without the address: it may have a password.
    return UsageError(f"--compiler-cache is no address of a store: {what}", hint=hint)
