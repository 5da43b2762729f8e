"""Runs one bake that is not a cell's own."""

from __future__ import annotations

from bakery.build.buildx.bake import BakeRequest, open_bakes
from bakery.build.buildx.listener import Listener
from bakery.build.buildx.outcome import BakeOutcome
from bakery.build.signals import caught
from bakery.core.errors import InterruptedBake


def bake_once(request: BakeRequest, listener: Listener) -> BakeOutcome:
    """Run one bake to its end; the outcome has its failures.

    Raises:
        InterruptedBake: a signal ended it.
    """
    ended: list[BakeOutcome] = []
    names = [target.name for target in request.targets]
    with caught() as signals, open_bakes(names, request.logs, signals, listener) as bakes:
        bakes.start(request)
        while not ended:
            ended = [outcome for _, outcome in bakes.turn()]
    if signals.arrived:
        raise InterruptedBake(f"interrupted by {signals.name}: the build was ended", hint="nothing was changed")
    return ended[0]
