"""Locks in use: which one fits a plan, what a build is held to by it, and how a new one is made."""

from bakery.locker.bench import Bench, Pins
from bakery.locker.fit import check_origins, fitting, keyed
from bakery.locker.hold import again, check_images, context_of, pins, with_sources
from bakery.locker.make import Locked, make
from bakery.locker.refuse import LockFailure, failure
from bakery.locker.tell import compare, tell

__all__ = [
    "Bench",
    "LockFailure",
    "Locked",
    "Pins",
    "again",
    "check_images",
    "check_origins",
    "compare",
    "context_of",
    "failure",
    "fitting",
    "keyed",
    "make",
    "pins",
    "tell",
    "with_sources",
]
