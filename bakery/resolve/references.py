"""Text of a recipe → values with references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from bakery.core.errors import PlanError
from bakery.core.names import DERIVED
from bakery.plan.dockerfile import Add, Arg, Command, Copy, Env, Run, Script, Stage, Step
from bakery.plan.values import Ref, Value, names_in
from bakery.recipe.models.text import REFERENCE

_EXPANSIONS = {"MAJOR": "%%.*", "MINOR": "%.*"}
"""Part of a release → the expansion that BuildKit derives it with from any value."""


def parse(text: str) -> Value:
    """Return ``text`` with every ``${NAME}`` as a reference."""
    # Texts and names in turn.
    pieces = enumerate(REFERENCE.split(text))
    return tuple(Ref(piece) if index % 2 else piece for index, piece in pieces if piece) or ("",)


def parse_all(texts: Iterable[str]) -> tuple[Value, ...]:
    """Return every text with its references."""
    return tuple(map(parse, texts))


def parse_table(table: Mapping[str, str | tuple[str, ...]]) -> tuple[tuple[str, Value], ...]:
    """Return the items of a table with their references; a list is several items."""
    return tuple(
        (key, parse(item)) for key, value in table.items() for item in ((value,) if isinstance(value, str) else value)
    )


def declarations(steps: Iterable[Step]) -> tuple[Arg, ...]:
    """Return the ``ARG`` lines of a stage: the build arguments that its steps refer to, and their sources."""
    # PATH is a variable of the image, not a build argument.
    args = (arg for name in references(steps) if name != "PATH" for arg in _declaration(name))
    return tuple(dict.fromkeys(args))


def _declaration(name: str) -> tuple[Arg, ...]:
    if name not in DERIVED:
        return (Arg(name),)
    variable, part = DERIVED[name]
    if part in _EXPANSIONS:
        return (Arg(variable), Arg(name, (Ref(variable + _EXPANSIONS[part]),)))
    minor = name.replace(part, "MINOR")
    return (*_declaration(minor), Arg(name, (Ref(f"{minor}//./"),)))


def from_value(value: Value) -> Value:
    """Return a value for ``FROM``, where derived arguments are unknown; PlanError if no expansion replaces one."""
    return tuple(_expanded(part) if isinstance(part, Ref) else part for part in value)


def _expanded(ref: Ref) -> Ref:
    if ref.name not in DERIVED:
        return ref
    variable, part = DERIVED[ref.name]
    if part not in _EXPANSIONS:
        raise PlanError(
            f"the name of a base image cannot refer to ${{{ref.name}}}",
            hint=f"use ${{{variable}}}, or its parts {' and '.join(_EXPANSIONS)}; "
            "or declare a variable for it, with its value for each cell under [[matrix.overrides]]",
        )
    return Ref(variable + _EXPANSIONS[part])


def references(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the names that steps refer to, once each, in order."""
    return names_in(value for step in steps for value in _values(step))


def rename_arg(stage: Stage, old: str, new: str) -> Stage:
    """Return a stage that refers to build argument ``new`` wherever it referred to ``old``."""

    def of(value: Value) -> Value:
        return tuple(Ref(new) if part == Ref(old) else part for part in value)

    def pairs(items: tuple[tuple[str, Value], ...]) -> tuple[tuple[str, Value], ...]:
        return tuple((key, of(value)) for key, value in items)

    def command(item: Command | Script) -> Command | Script:
        if isinstance(item, Script):
            return Script(item.text.replace(f"${{{old}}}", f"${{{new}}}"))
        return Command(tuple(map(of, item.words)), pairs(item.environment))

    def step(item: Step) -> Step:
        match item:
            case Arg(name, default):
                return Arg(new if name == old else name, of(default))
            case Env(values):
                return Env(pairs(values))
            case Run(commands, resolves=resolves):
                new_resolves = resolves and replace(resolves, words=tuple(map(of, resolves.words)))
                return replace(item, commands=tuple(map(command, commands)), resolves=new_resolves)
            case _:
                return item

    return replace(stage, steps=tuple(map(step, stage.steps)))


def with_sources(step: Step, names: Mapping[str, str]) -> Step:
    """Return a step that mounts and copies from stages of other names; a stage that ``names`` lacks keeps its own."""
    if isinstance(step, Copy):
        return replace(step, from_=names.get(step.from_, step.from_))
    if isinstance(step, Run):
        mounts = (replace(mount, from_=names.get(mount.from_, mount.from_)) for mount in step.mounts)
        return replace(step, mounts=tuple(mounts))
    return step


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
