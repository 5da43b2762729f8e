"""Addresses that may hold a credential: what is secret in them, and how they are shown."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from itertools import pairwise

_ADDRESS = re.compile(r"(?<=://)([^\s/?#]*)([^\s?#]*)(\?[^\s#]*)?(\S*)")
_PLACE = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::\d+)?")
_HARMLESS = frozenset(("ref", "branch", "tag", "commit", "checksum", "subdir", "submodules", "keep-git-dir"))
"""Keys of BuildKit in the query of a git address (util/gitutil); others may be tokens."""

_WORD = re.compile(r"[A-Za-z0-9]{16,}")


def without_credentials(text: str) -> str:
    """Return a text without user, password and query of its addresses, which may be secret.

    An address whose password is not percent-encoded loses all up to its last ``@``, or after its first colon.
    """
    return _ADDRESS.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    authority, path, query, rest = (part or "" for part in match.groups())
    place = authority.rpartition("@")[2]
    if not _PLACE.fullmatch(place):
        return (path + query + rest).rpartition("@")[2] or place.partition(":")[0]
    kept = "&".join(item for item in query[1:].split("&") if item.partition("=")[0] in _HARMLESS)
    return f"{place}{path}{f'?{kept}' if kept else ''}{rest}"


def hidden(text: str) -> str:
    """Return a text whose addresses have neither what `without_credentials` removes nor tokens in their paths."""
    shown = without_credentials(text)
    for secret in credentials_in(shown):
        shown = shown.replace(secret, "***")
    return shown


def is_address(text: str) -> bool:
    """Whether programs agree on the parts of an address; not so if a password has ``/``, ``?`` or ``#`` as they are."""
    return all(_PLACE.fullmatch(match[1].rpartition("@")[2]) for match in _ADDRESS.finditer(text))


def credentials_in(text: str) -> Iterator[str]:
    """Yield what is secret in the addresses of a text, as it is written and decoded.

    That is the password, or the user if there is none, and in users and paths what looks random: indexes take a token
    there (``https://index.example/TOKEN/simple``).
    """
    for match in _ADDRESS.finditer(text):
        user, _, password = match[1].rpartition("@")[0].partition(":")
        named = [part for part in (user, *match[2].split("/")) if _looks_random(part)]
        for secret in dict.fromkeys((password or user, *named)):
            if secret:
                yield from dict.fromkeys((secret, urllib.parse.unquote(secret)))


def _looks_random(text: str) -> bool:
    """Whether a text is 16 or more letters and digits, of which each fourth at least is of another kind than the one before."""
    kinds = ["0" if char.isdigit() else "a" if char.islower() else "A" for char in text]
    changes = sum(one != other for one, other in pairwise(kinds))
    return bool(_WORD.fullmatch(text)) and changes * 4 >= len(text) and "0" in kinds
