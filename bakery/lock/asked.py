"""What a plan asks of the package index for one cell, as far as it is known before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bakery.names import with_derived
from bakery.plan import Cell, Copy, Plan, Resolves, Run, Stage, Value

_PARTS: dict[str, Callable[[str], str]] = {
    "%%.*": lambda text: text.partition(".")[0],
    "%.*": lambda text: text.rpartition(".")[0],
    "//./": lambda text: text.replace(".", ""),
}
"""The expansions of build arguments that `bakery.resolve.values` writes."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What one place asks for.

    Attributes:
        words: requirements and options of pip.
        complete: there are no others; else the project's source has more of them.
        direct: distributions that may come from an address.
    """

    words: frozenset[str]
    complete: bool
    direct: tuple[str, ...] = ()


def asked(plan: Plan, cell: Cell, listed: Mapping[str, Sequence[str]]) -> dict[str, Asked]:
    """Return place → what is asked for there, for the stages that a cell's materials need.

    Args:
        listed: file that words name with ``-r`` → its lines; those that only the build knows are left out.
    """
    arguments = with_derived(plan.args_of(cell))
    stages = {stage.name: stage for stage in plan.stages}
    waiting, seen = [f"{plan.recipe}-materials"], set[str]()
    found: dict[str, Asked] = {}
    while waiting:
        stage = stages.get(waiting.pop())
        if stage is None or stage.name in seen:
            continue
        seen.add(stage.name)
        waiting += _needs(stage, arguments)
        for step in stage.steps:
            if isinstance(step, Run) and step.resolves:
                found[step.resolves.place] = _asked(step.resolves, arguments, listed)
    return found


def _needs(stage: Stage, arguments: Mapping[str, str]) -> Iterator[str]:
    """Yield the stages that a stage starts from, copies from and mounts."""
    yield _text(stage.base, arguments)
    for step in stage.steps:
        if isinstance(step, Copy):
            yield step.from_
        elif isinstance(step, Run):
            yield from (mount.from_ for mount in step.mounts)


def _asked(resolves: Resolves, arguments: Mapping[str, str], listed: Mapping[str, Sequence[str]]) -> Asked:
    words = iter([_text(word, arguments) for word in resolves.words])
    found: list[str] = []
    complete = True
    for word in words:
        if word != "-r":
            found.append(word)
        else:
            file = next(words)
            complete = complete and file in listed
            found += listed.get(file, ())
    return Asked(frozenset(found), complete, resolves.direct)


def _text(value: Value, arguments: Mapping[str, str]) -> str:
    return "".join(part if isinstance(part, str) else _value(part.name, arguments) for part in value)


def _value(name: str, arguments: Mapping[str, str]) -> str:
    for sign, expand in _PARTS.items():
        if name.endswith(sign):
            return expand(arguments.get(name.removesuffix(sign), ""))
    return arguments.get(name, "")
