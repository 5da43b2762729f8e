"""What a list of architectures covers, for people and for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from bakery.toolchains.facts.cover import Coverage, How
from bakery.toolchains.facts.rows import Gpu

VERSION = 1
"""Version of the JSON that `to_json` makes."""

_STYLES = {How.NATIVE: "green", How.PTX: "yellow", How.MISSED: "red"}
_TEXTS = {How.NATIVE: "native", How.PTX: "by PTX", How.MISSED: "missed"}


def table(coverage: Sequence[Coverage]) -> Table:
    """Return one row for each compute capability."""
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("GPU of", "runs", "", "what it is"):
        result.add_column(column, no_wrap=column != "what it is")
    for item in coverage:
        how = Text(_TEXTS[item.how], style=_STYLES[item.how])
        result.add_row(item.gpu.capability, how, item.by, names(item.gpu))
    return result


def names(gpu: Gpu) -> str:
    """Return the GPUs of a row as text, with what is not sure about them."""
    text = ", ".join(gpu.names) or "no product known"
    return text if gpu.verified else f"{text} (not verified)"


def to_json(archs: Sequence[str], cuda: str, coverage: Sequence[Coverage], warnings: Sequence[str]) -> str:
    """Return the same as JSON."""
    return json.dumps(
        {
            "version": VERSION,
            "archs": list(archs),
            "cuda": cuda,
            "gpus": [
                {
                    "capability": item.gpu.capability,
                    "names": list(item.gpu.names),
                    "how": item.how.value,
                    "by": item.by,
                    "verified": item.gpu.verified,
                }
                for item in coverage
            ],
            "warnings": list(warnings),
        },
        indent=1,
    )
