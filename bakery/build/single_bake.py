"""A bake beside the cells' own, watched to its end."""

from __future__ import annotations

from bakery.build.buildx.bake import BakeRequest, Bakes
from bakery.build.buildx.listener import Listener
from bakery.build.buildx.log_files import LogFiles
from bakery.build.buildx.outcome import BakeOutcome
from bakery.build.buildx.progress import Board
from bakery.build.processes import Children
from bakery.build.signals import caught
from bakery.core.errors import InterruptedBake


def bake_once(request: BakeRequest, listener: Listener) -> BakeOutcome:
    """Bake one request to its end; what failed stands in the outcome.

    Raises:
        InterruptedBake: a signal ended it.
    """
    board = Board([target.name for target in request.targets])
    ended: list[BakeOutcome] = []
    with caught() as signals, LogFiles(request.logs) as logs, Children(signals) as children:
        bakes = Bakes(children, logs, board, listener)
        listener.start(board)
        try:
            bakes.start(request)
            while not ended:
                ended = [outcome for _, outcome in bakes.turn()]
        finally:
            listener.finish()
    if signals.arrived:
        raise InterruptedBake(f"interrupted by {signals.name}: the build was ended", hint="nothing was changed")
    return ended[0]
