"""The error of a failed bake: a failed build, or inputs that differ from the lock."""

from __future__ import annotations

from bakery.build.buildx.outcome import BakeFailure, BakeOutcome
from bakery.build.buildx.retryable import OWN_WORK, is_transient
from bakery.build.lock.pip_errors import refusals
from bakery.core.errors import LockError


class LockFailure(BakeFailure):
    """The inputs of a step differ from the lock; ``details`` lists the differences."""

    exit_code = LockError.exit_code
    title = LockError.title

    def __init__(self, outcome: BakeOutcome, lock: str, details: tuple[str, ...]) -> None:
        super().__init__(outcome)
        self.message = f"what the build was given is not what {lock} says: {details[0]}"
        self.details = details
        again = (
            "`wheel-bakery lock` looks all of it up again; before that, find out why a file that was published changed"
        )
        log = outcome.failures[0].log
        self.hint = f"{again}; the whole log: {log}" if log else again


def failure(outcome: BakeOutcome, lock: str) -> BakeFailure:
    """Return the error of a failed bake.

    Args:
        lock: the lock that it was held to; empty for none.
    """
    # A project's own code may print anything.
    failures = [item for item in outcome.failures if lock and not OWN_WORK.match(item.step)]
    details = tuple(line for item in failures for line in refusals(item.tail, reached=not is_transient(item)))
    return LockFailure(outcome, lock, details) if details else BakeFailure(outcome)
