"""The one way to a terminal and to the log of a CI job: text of strangers comes out as text.

Names, logs and messages may come from a checkout, an image, a server or a wheel. They must not move the cursor, set a
title or the clipboard, turn the direction of writing, make a link or, in CI, give the runner a command. `SafeConsole` and
the functions here see to that for all that is printed; a test forbids other ways (``tests/unit/test_output.py``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from wheel_audit.text import printable, printable_json

_CI = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Variables of runners that take commands from the output of a job."""

_COMMAND = re.compile(r"^([^\S\n]*):(?=:)|#(?=#\w*\[)", re.MULTILINE)
"""How commands begin: ``::set-output`` in a line of its own, ``##[group]`` and ``##vso[…]`` anywhere."""


def shown(text: str) -> str:
    """Return text as people see it: control characters as ``\\x1b``, and in CI ``\\x3a:group::`` for ``::group::``."""
    text = printable(text, keep="\n\t")
    if ("::" in text or "##" in text) and _is_read_by_runner():
        return _COMMAND.sub(lambda match: f"{match[1] or ''}\\x{ord(match[0][-1]):02x}", text)
    return text


def write(file: IO[str], text: str) -> None:
    """Write text, of any number of lines, as it is shown."""
    file.write(shown(text))


def write_json(file: IO[str], text: str) -> None:
    """Write JSON text; what it means stays the same."""
    text = printable_json(text)
    # JSON has this in strings only.
    file.write(text.replace("##", "\\u0023#") if _is_read_by_runner() else text)
    file.flush()


def write_command(file: IO[str], name: str, text: str = "") -> None:
    """Give GitHub's runner a command."""
    file.write(f"::{name}::{printable(text)}\n")
    file.flush()


def _is_read_by_runner() -> bool:
    return any(map(os.environ.get, _CI))


class SafeConsole(Console):
    """A console of rich that interprets nothing in strings, neither markup nor emoji, and prints all text as it is shown."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, "soft_wrap": True, **options})
        self._is_forced = bool(options.get("force_terminal"))

    @property
    def is_live(self) -> bool:
        """Whether lines can be drawn again: FORCE_COLOR colours a log, and makes no terminal of it."""
        return self.is_terminal and not self.is_dumb_terminal and (self._is_forced or self.file.isatty())

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            # Control segments are rich's own: they move the cursor of a live table.
            yield segment if control or text == "\n" else Segment(shown(text), style)
