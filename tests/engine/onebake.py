"""One bake from its beginning to its end, as the runner does it with many."""

from __future__ import annotations

from bakery.core.errors import InterruptedBake
from bakery.runs.buildx.bake import BakeRequest, Bakes, LogFiles
from bakery.runs.buildx.bake_outcome import BakeOutcome
from bakery.runs.buildx.board import Board, Listener
from bakery.runs.buildx.failures import BakeFailure
from bakery.runs.processes import Children, caught


def bake(request: BakeRequest) -> BakeOutcome:
    """Bake and wait for the end.

    Raises:
        BakeFailure: a target failed, or the time was over.
        InterruptedBake: a signal ended the bake.
    """
    board = Board({target.name: target.cell.id for target in request.targets})
    with caught() as signals, LogFiles(request.logs) as logs, Children(signals) as children:
        bakes = Bakes(children, logs, board, Listener())
        bakes.start(request)
        ended: list[BakeOutcome] = []
        while not ended:
            ended = [outcome for _, outcome in bakes.turn()]
    if signals.arrived:
        raise InterruptedBake(f"interrupted by {signals.name}")
    if ended[0].failures:
        raise BakeFailure(ended[0])
    return ended[0]
