"""What every command shares: the consoles, and how failures are shown."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from rich.console import Console
from rich.text import Text

from bakery.errors import BakeryError, InterruptedBake

out = Console(highlight=False, soft_wrap=True)
"""Results: what a pipe should get."""

err = Console(stderr=True, highlight=False, soft_wrap=True)
"""Everything else: progress and failures."""


@contextmanager
def failures() -> Iterator[None]:
    """Show a `BakeryError` as text with its hint and exit with its code; no traceback reaches a person."""
    try:
        yield
    except BakeryError as error:
        show(error)
        leave(error.exit_code)
    except KeyboardInterrupt:
        show(InterruptedBake("interrupted", hint="nothing was changed"))
        leave(InterruptedBake.exit_code)
    except BrokenPipeError:
        # The reader (a pager, `head`) has what it wanted.
        sys.stderr.close()
        leave(0)
    except Exception as error:
        if os.environ.get("BAKERY_DEBUG"):
            raise
        text = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
        show(
            BakeryError(f"internal error: {text}", hint="this is a defect of bakery; BAKERY_DEBUG=1 shows where it is")
        )
        leave(BakeryError.exit_code)


def show(error: BakeryError) -> None:
    """Print a failure: what is wrong, the lines that show it, what to do next."""
    line = Text()
    line.append(f"{error.title}: ", style="bold red")
    line.append(error.message, style="bold")
    err.print(line)
    for detail in error.details:
        err.print(Text("  " + detail))
    if error.hint:
        hint = Text()
        hint.append("→ ", style="cyan")
        hint.append(error.hint)
        err.print(hint)


def say(text: str) -> None:
    """Print one line about what is going on."""
    err.print(Text(text, style="dim"))


def leave(code: int) -> NoReturn:
    """Exit with ``code``."""
    raise SystemExit(code)
