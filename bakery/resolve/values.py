"""Text of a recipe → values with references."""

from __future__ import annotations

from collections.abc import Iterable

from bakery.models.text import REFERENCE
from bakery.plan import Add, Command, Env, Ref, Run, Script, Step, Value


def parse(text: str) -> Value:
    """Return ``text`` with every ``${NAME}`` as a reference."""
    parts: list[str | Ref] = []
    end = 0
    for match in REFERENCE.finditer(text):
        if match.start() > end:
            parts.append(text[end : match.start()])
        parts.append(Ref(match.group(1)))
        end = match.end()
    if end < len(text) or not parts:
        parts.append(text[end:])
    return tuple(parts)


def references(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the names that steps refer to, in order and once each: what the stage must declare."""
    found: dict[str, None] = {}
    for step in steps:
        for value in _values(step):
            found.update(dict.fromkeys(part.name for part in value if isinstance(part, Ref)))
    return tuple(found)


def _values(step: Step) -> Iterable[Value]:
    match step:
        case Env(pairs):
            yield from (value for _, value in pairs)
        case Add(source, _):
            yield source
        case Run(commands):
            for command in commands:
                if isinstance(command, Command):
                    yield from command.words
                    yield from (value for _, value in command.environment)
                elif isinstance(command, Script):
                    yield parse(command.text)
        case _:
            return
