"""Where in a JSON text each key and list item stands; the text is valid JSON."""

from __future__ import annotations

import json
import re

from bakery.recipe.toml_positions import DEEPEST, TooMuch
from bakery.recipe.type_names import Step

MOST = 200_000
"""Keys and list items that a job may have."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\n')


def key_lines(text: str) -> dict[tuple[Step, ...], int]:
    """Return the 1-based line of every key and list item of ``text``, by path.

    Raises:
        TooMuch: lists or objects are nested more than `DEEPEST` levels deep, or there are more than `MOST` entries.
    """
    lines: dict[tuple[Step, ...], int] = {}
    stack: list[list[Step]] = []
    line = 1
    key = True
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == "\n":
            line += 1
            continue
        if token in "}]":
            stack.pop()
            key = False
            continue
        if token == ",":
            key = isinstance(stack[-1][-1], str)
            if not key:
                stack[-1][-1] = _next(stack[-1][-1])
            continue
        if token == ":":
            key = False
            continue
        if stack and key and isinstance(stack[-1][-1], str):
            stack[-1][-1] = json.loads(token)
        if stack:
            lines.setdefault(tuple(level[-1] for level in stack), line)
            if len(lines) > MOST:
                raise TooMuch(f"more than {MOST} keys and list items", line)
        if token in "{[":
            if len(stack) >= DEEPEST:
                raise TooMuch(f"lists or objects are nested more than {DEEPEST} levels deep", line)
            stack.append([""] if token == "{" else [0])
            key = token == "{"
    return lines


def _next(step: Step) -> Step:
    return step + 1 if isinstance(step, int) else step
