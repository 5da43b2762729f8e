"""What steps print when what they are given is not what is locked: pip's words, and those of bakery's own programs."""

from __future__ import annotations

import re
from collections.abc import Iterable

_OTHER_HASH = re.compile(
    r"(?m)^\s*(?P<name>\S+?)(?:==(?P<version>\S+))? (?:from|@) .*\n"
    r"\s*Expected (?P<kind>\w+) (?P<locked>[0-9a-f]+)\n(?:\s*Expected\s+or .*\n)*\s*Got\s+(?P<found>[0-9a-f]+)"
)
"""pip's HashMismatch, within HashErrors (pip/_internal/exceptions.py)."""

_GONE = re.compile(r"(?m)^ERROR: No matching distribution found for (?P<what>\S+)")
_SOURCE = re.compile(r"(?m)^sdist: (?P<file>\S+) is locked as sha256 (?P<locked>\w+), and the index has (?P<found>\w+)")
_BAKERY = re.compile(r"(?m)^(?:bakery|sdist): (?P<text>.*bakery\.lock.*|--locked takes no .*|.*the provenance .*)$")


def refusals(lines: Iterable[str], *, reached: bool = True) -> list[str]:
    """Return what differs from the lock, one line each; nothing where a step failed for another reason.

    Args:
        lines: the last that the step printed.
        reached: the index answered; to pip, one that cannot be reached has nothing.
    """
    text = "\n".join(lines)
    differences = [
        f"{match['name']} {match['version'] or ''}".strip()
        + f": {match['kind']} {match['locked']} is locked, and the package index gave {match['found']}"
        for match in _OTHER_HASH.finditer(text)
    ]
    differences += [
        f"{match['file']}: sha256 {match['locked']} is locked, and the package index gave {match['found']}"
        for match in _SOURCE.finditer(text)
    ]
    gone = _GONE.finditer(text) if reached else ()
    differences += [f"{match['what']} is locked, and the package index does not have it" for match in gone]
    differences += [match["text"] for match in _BAKERY.finditer(text)]
    return list(dict.fromkeys(differences))
