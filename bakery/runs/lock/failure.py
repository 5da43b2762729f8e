"""The error of a failed bake: a failed build, or inputs that differ from the lock."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bakery.core.errors import BakeError, LockError
from bakery.runs.buildx.bake_outcome import BakeOutcome
from bakery.runs.buildx.failures import OWN_WORK, BakeFailure, is_transient

_OTHER_HASH = re.compile(
    r"(?m)^\s*(?P<name>\S+?)(?:==(?P<version>\S+))? (?:from|@) .*\n"
    r"\s*Expected (?P<kind>\w+) (?P<locked>[0-9a-f]+)\n(?:\s*Expected\s+or .*\n)*\s*Got\s+(?P<found>[0-9a-f]+)"
)
"""pip's HashMismatch, within HashErrors (pip/_internal/exceptions.py)."""

_GONE = re.compile(r"(?m)^ERROR: No matching distribution found for (?P<what>\S+)")
_SOURCE = re.compile(r"(?m)^sdist: (?P<file>\S+) is locked as sha256 (?P<locked>\w+), and the index has (?P<found>\w+)")
_BAKERY = re.compile(r"(?m)^(?:bakery|sdist): (?P<text>.*bakery\.lock.*|--locked takes no .*|.*the provenance .*)$")


def refusals(lines: Iterable[str], *, reached: bool = True) -> list[str]:
    """Return the differences from the lock in the output of a step; empty if it failed for another reason.

    ``reached``: the index answered; pip reports an unreachable index as empty.
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


class LockFailure(BakeFailure):
    """The inputs of a step differ from the lock; ``details`` lists the differences."""

    exit_code = LockError.exit_code
    title = LockError.title

    def __init__(self, outcome: BakeOutcome, lock: str, details: tuple[str, ...]) -> None:
        self.outcome, self.shell = outcome, ""
        again = "`wheel-bakery lock` resolves everything again; first find out why a published file changed"
        log = outcome.failures[0].log
        BakeError.__init__(
            self,
            f"the inputs of the build differ from {lock}: {details[0]}",
            hint=f"{again}; the whole log: {log}" if log else again,
            details=details,
        )


def failure(outcome: BakeOutcome, lock: str, cell: str = "", recipe: str = "") -> BakeFailure:
    """Return the error of the failed bake of a cell of a ``recipe`` (`Plan.reference`); ``lock`` is the lock that it used."""
    # The project's own code may print the same messages.
    failures = [item for item in outcome.failures if lock and not OWN_WORK.match(item.step)]
    details = tuple(line for item in failures for line in refusals(item.tail, reached=not is_transient(item)))
    return LockFailure(outcome, lock, details) if details else BakeFailure(outcome, cell, recipe)
