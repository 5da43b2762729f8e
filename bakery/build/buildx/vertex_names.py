"""The name of a vertex → the target, stage and step it is about.

``[wheel-cp312 linux/arm64 compile 3/5] RUN make`` names a target only when buildx builds more than one;
the platform stands there only when the target has several.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

_BRACKET = re.compile(r"\[(?P<head>[^\]]*)\] ?(?P<text>.*)", re.DOTALL)
_FLAGS = re.compile(r"(?<=^RUN )(?:--\S+\s+)+")
"""What a step mounts and may reach: in the file, and in nobody's way here."""

_CACHE = re.compile(r"(?:importing|exporting) .*\bcache\b|exporting .*\bs3\b", re.IGNORECASE)
"""What BuildKit calls the reading and writing of layer caches, one text for each kind."""

_INDEX = re.compile(r"(?P<at>\d+)/(?P<of>\d+)\Z")


class Role(StrEnum):
    """What a vertex is for."""

    STEP = "step"
    EXPORT = "export"
    CACHE = "cache"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Label:
    """A vertex name, taken apart.

    Attributes:
        target: the bake target, empty where the name has none.
        stage: the Dockerfile stage, empty where it has none.
        index: ``3/5``, empty for what is no step.
        text: the rest: its first line, without the flags of RUN.
    """

    target: str
    role: Role
    stage: str
    index: str
    text: str

    @property
    def title(self) -> str:
        """How a person reads it: ``[compile 3/5] RUN make``, without the target."""
        head = f"{self.stage} {self.index}".strip()
        return f"[{head}] {self.text}" if head else self.text


def parse(name: str, targets: Collection[str]) -> Label:
    """Return the parts of ``name``; ``targets`` are the names that may stand first in the brackets."""
    match = _BRACKET.match(name)
    words = match["head"].split() if match else []
    text = _first_line(match["text"] if match else name)
    target = words.pop(0) if words and words[0] in targets else ""
    if words and _INDEX.match(words[-1]):
        return Label(target, Role.STEP, " ".join(words[:-1]), words[-1], text)
    if not words and _CACHE.match(text):
        return Label(target, Role.CACHE, "", "", text)
    if text.startswith("exporting to ") and not words:
        return Label(target, Role.EXPORT, "", "", text)
    return Label(target, Role.INTERNAL, " ".join(words), "", text)


def _first_line(text: str) -> str:
    return " ".join(_FLAGS.sub("", text.strip().partition("\n")[0]).split())
