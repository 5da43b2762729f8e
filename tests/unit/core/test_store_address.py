"""Addresses of stores for compiler caches, and their credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakery.core.errors import UsageError
from bakery.core.store_address import Credentials, StoreAddress, credentials, parse_place


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redis://h", ("redis", "h", 6379, "", "", "", "", False)),
        ("rediss://me@h:1/2/a/b/", ("rediss", "h", 1, "2/a/b", "me", "", "", True)),
        ("http://h/p", ("http", "h", 80, "p", "", "", "", False)),
        ("webdavs://h", ("webdavs", "h", 443, "", "", "", "", True)),
        ("s3://b/p?region=r", ("s3", "", 443, "p", "", "b", "r", True)),
        ("s3://b?endpoint=http://h:9", ("s3", "h", 9, "", "", "b", "us-east-1", False)),
        ("s3://b?endpoint=h&region=r", ("s3", "h", 443, "", "", "b", "r", True)),
    ],
)
def test_addresses(text: str, expected: tuple[object, ...]) -> None:
    scheme, host, port, path, user, bucket, region, secure = expected
    place = parse_place(text)
    assert isinstance(place, StoreAddress)
    assert (
        place.text.replace("//", f"//{user}@" if user else "//"),
        place.scheme,
        place.host,
        place.port,
        place.path,
    ) == (text, scheme, host, port, path)
    assert (place.user, place.bucket, place.region, place.secure) == (user, bucket, region, secure)


@pytest.mark.parametrize("text", ["cache", "/tmp/a", "~/x", "a:b"])
def test_everything_else_is_a_folder(text: str) -> None:
    assert parse_place(text) == Path(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ftp://h/p", "its scheme is 'ftp'"),
        ("redis://user:hidden@h", "it has a password"),
        ("redis://h:port", "its port, or what"),
        ("redis://h/name", "does not begin with the number of a database"),
        ("redis://", "it has no host"),
        ("redis://h?db=1", "unknown part 'db'"),
        ("https://h/a#b", "unknown part 'b'"),
        ("redis://u:hidden/2@h", "its port, or what"),
        ("redis://u:2/hidden@h", "characters that it must not have"),
        ("https://u:1?x=hidden@h", "unknown part 'x'"),
        ("https://to#hidden@h", "its port, or what"),
        ("https://h/a b", "characters that it must not have"),
        ("https://h/' || true || '", "characters that it must not have"),
        ("s3://b", "it has no region"),
        ("s3://b?endpoint=ftp://h", "its endpoint is"),
        ("s3://b?endpoint=https://u:hidden@h", "its endpoint is"),
        ("s3://b?endpoint=https://u:hidden/2@h", "its endpoint has"),
        ("s3://b?acl=public", "unknown part 'acl'"),
    ],
)
def test_malformed_addresses(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match="is no address of a store") as caught:
        parse_place(text)
    assert reason in caught.value.message
    assert caught.value.hint
    assert "hidden" not in f"{caught.value.message} {caught.value.hint}"


def place(text: str) -> StoreAddress:
    found = parse_place(text)
    assert isinstance(found, StoreAddress)
    return found


def test_credentials() -> None:
    own = {"BAKERY_COMPILER_CACHE_USER": "me", "BAKERY_COMPILER_CACHE_PASSWORD": "hidden"}
    amazon = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_SESSION_TOKEN": "token"}
    assert credentials(place("redis://h"), {**own, **amazon}) == Credentials("me", "hidden")
    assert credentials(place("redis://you@h"), own) == Credentials("you", "hidden")
    assert credentials(place("redis://h"), amazon) == Credentials()
    assert credentials(place("s3://b?region=r"), amazon) == Credentials("id", "key", "token")
    assert credentials(place("s3://b?region=r"), {**own, **amazon}) == Credentials("me", "hidden")
    assert "hidden" not in repr(Credentials("me", "hidden"))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_break_at_the_end_of_a_password_is_none_of_it(end: str) -> None:
    place = parse_place("https://cache.example/x")
    assert isinstance(place, StoreAddress)
    assert credentials(place, {"BAKERY_COMPILER_CACHE_PASSWORD": f"canary{end}"}) == Credentials("", "canary")


@pytest.mark.parametrize("name", ["BAKERY_COMPILER_CACHE_PASSWORD", "BAKERY_COMPILER_CACHE_USER", "AWS_SESSION_TOKEN"])
@pytest.mark.parametrize("value", ["can\nary", "\x1b[2Jcanary", "can\0ary", "can\x7fary"])
def test_a_password_with_control_characters_is_refused_and_not_shown(name: str, value: str) -> None:
    place = parse_place("s3://bucket?region=r" if name.startswith("AWS") else "https://cache.example/x")
    assert isinstance(place, StoreAddress)
    with pytest.raises(UsageError) as raised:
        credentials(place, {name: value})
    assert name in raised.value.message
    assert "ary" not in raised.value.message + raised.value.hint
