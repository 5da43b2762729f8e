"""`wheel-bakery doctor`: checks whether this machine can build wheels, and gives advice.

The checks run in parallel. A check without a result after `LIMIT_S` seconds is reported as such, so a dead engine, a
silent registry or an unreachable name server delays nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TypeVar

from bakery.core.errors import BakeryError, EngineError
from bakery.engine import discover
from bakery.engine.client import EngineInfo
from bakery.engine.discover import EngineAddress
from bakery.engine.doctor_checks import CHECKS, CLIENT_S, Answer, Builder, Facts, State, current_builder

_T = TypeVar("_T")

LIMIT_S = 7.0
"""Seconds after which all checks end."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one check: one line, and advice if something is to be done."""

    name: str
    state: State
    found: str
    advice: str = ""


def diagnose(environ: Mapping[str, str], ca_bundle: Path | None) -> tuple[Diagnosis, ...]:
    """Run all checks. This takes at most `LIMIT_S` seconds and never fails."""
    deadline = time.monotonic() + LIMIT_S
    engine: Future[EngineAddress] = Future()
    info: Future[EngineInfo] = Future()
    builder: Future[Builder] = Future()
    facts = Facts(environ, ca_bundle, Path.cwd(), deadline, engine, info, builder)
    _start(engine, lambda: discover.find(environ, timeout_s=CLIENT_S))
    _start(info, lambda: facts.client().info())
    _start(builder, lambda: current_builder(facts.client()))
    running = [_start(Future(), partial(_run_check, name, facts)) for name in CHECKS]
    return tuple(_result(facts, name, future) for name, future in zip(CHECKS, running, strict=True))


def _start(future: Future[_T], work: Callable[[], _T]) -> Future[_T]:
    """Start ``work`` in a thread."""
    # No pool: when it exits, the interpreter waits for the threads of a pool, and a name lookup cannot be stopped.

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future


def _run_check(name: str, facts: Facts) -> Diagnosis:
    try:
        answer = CHECKS[name](facts)
    except EngineError as error:
        if facts.engine.done() and facts.engine.exception():
            # The check of the engine has the reason.
            return Diagnosis(name, State.SKIP, "needs an engine")
        answer = Answer(State.WARN, "; ".join((error.message, *error.details)), error.hint)
    # Output of other programs may have several lines.
    return Diagnosis(name, answer.state, " ".join(answer.text.split()), answer.advice)


def _result(facts: Facts, name: str, future: Future[Diagnosis]) -> Diagnosis:
    try:
        return facts.wait(future)
    except TimeoutError:
        # Without an engine nothing can be built; everything else may still be good enough.
        state = State.FAIL if name == "engine" else State.WARN
        return Diagnosis(name, state, f"no answer within {LIMIT_S:.0f} s", "try again when this machine is less busy")
    except (BakeryError, OSError, ValueError) as error:
        return Diagnosis(name, State.WARN, f"cannot be checked: {error}", "report this if it happens again")
