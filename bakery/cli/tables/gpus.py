"""The GPUs that a list of architectures covers, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Column, Table
from rich.text import Text

from bakery.toolchains.facts.archs import Coverage, How
from bakery.toolchains.facts.rows import Gpu
from wheel_audit.tables import plain_table

VERSION = 1
"""Version of the JSON that `to_json` makes."""

_STYLES = {How.NATIVE: "green", How.PTX: "yellow", How.MISSED: "red"}
_TEXTS = {How.NATIVE: "native", How.PTX: "PTX", How.MISSED: "none"}


def table(coverage: Sequence[Coverage]) -> Table:
    """Return one row for each compute capability."""
    result = plain_table(*(Column(name, no_wrap=True) for name in ("GPU", "code", "from")), "products")
    for item in coverage:
        result.add_row(item.gpu.capability, Text(_TEXTS[item.how], style=_STYLES[item.how]), item.by, names(item.gpu))
    return result


def names(gpu: Gpu) -> str:
    """Return the GPUs of a row as text, and whether no primary source confirms them."""
    text = ", ".join(gpu.names) or "no product known"
    return text if gpu.verified else f"{text} (not verified)"


def to_json(
    archs: Sequence[str], cuda: str, coverage: Sequence[Coverage], warnings: Sequence[str]
) -> dict[str, object]:
    """Return the coverage for machines."""
    rows = [
        {
            "capability": item.gpu.capability,
            "names": list(item.gpu.names),
            "how": item.how.value,
            "by": item.by,
            "verified": item.gpu.verified,
        }
        for item in coverage
    ]
    return {"version": VERSION, "archs": list(archs), "cuda": cuda, "gpus": rows, "warnings": list(warnings)}
