"""Addresses are shown without what is secret in them, however badly a password is written."""

from __future__ import annotations

import pytest

from bakery.core.addresses import credentials_in, hidden, is_address, without_credentials

TOKEN = "AbCd1234EfGh5678"


@pytest.mark.parametrize(
    ("text", "shown", "well_formed"),
    [
        ("https://me:hunter2@h/simple", "https://h/simple", True),
        ("see https://hunter2@h and http://a:hunter2@b:80/.", "see https://h and http://b:80/.", True),
        ("https://me:hun@ter2@h/simple", "https://h/simple", True),
        ("https://me:/hunter2@h/simple", "https://h/simple", False),
        ("https://me:x/hunter2@h/simple", "https://h/simple", False),
        ("https://me:x?hunter2@h/simple", "https://h/simple", False),
        ("https://me:hunter2#x@h/simple", "https://h/simple", False),
        ("https://me:hunter2@[bad/simple", "https:///simple", False),
        ("https://me:hunter2", "https://me", False),
        ("https://me:hunter2/simple", "https:///simple", False),
        ("git+https://me:hunter2@h/x.git@v1?ref=a&token=hunter2#subdirectory=b", "git+https://h/x.git@v1?ref=a#subdirectory=b", True),
        ("https://[::1]:8080/@scope/x", "https://[::1]:8080/@scope/x", True),
        ("a text: no address", "a text: no address", True),
    ],
)  # fmt: skip
def test_without_credentials(text: str, shown: str, well_formed: bool) -> None:
    assert without_credentials(text) == shown
    assert is_address(text) is well_formed


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"https://index.example/{TOKEN}/simple", [TOKEN]),
        (f"https://me:hunter2@index.example/{TOKEN}/simple", ["hunter2", TOKEN]),
        (f"https://{TOKEN}:x-oauth-basic@h/", ["x-oauth-basic", TOKEN]),
        ("https://a:p%2Fw@h/ https://token@h/", ["p%2Fw", "p/w", "token"]),
        ("https://h/whl/torch270cu128nightly/manylinux_2_28/12345678901234567890", []),
        ("https://h/org/0a1b2c3d-4e5f-6a7b-8c9d-0e1f2a3b4c5d/_packaging/feed/pypi/simple/", []),
    ],
)
def test_what_is_secret(text: str, secret: list[str]) -> None:
    assert list(credentials_in(text)) == secret
    assert not [item for item in secret if item in hidden(text)]


def test_a_token_in_a_path_is_hidden_where_an_index_is_shown() -> None:
    assert hidden(f"https://me@h/{TOKEN}/simple") == "https://h/***/simple"
    # In a record, the path of a file may have the digest of its content.
    assert without_credentials(f"https://me@h/{TOKEN}/simple") == f"https://h/{TOKEN}/simple"
