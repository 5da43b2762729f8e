"""What overrides in bake's grammar mean for a recipe.

Those of whole groups change the recipe itself: its variables, axes and platforms. Those of single cells change
these cells before anything is derived from them. buildx is handed what is left.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import cast

from bakery.core.errors import UsageError
from bakery.core.names import GROUPS, PLATFORM, Kind
from bakery.plan.cells import Cell
from bakery.plan.options import Override
from bakery.recipe.load import Loaded
from bakery.resolve.defaults import DEFAULTS
from bakery.resolve.set_option import Sets
from bakery.resolve.settings import settable

NO_ARGUMENT = frozenset({"DEST", "CACHE", "CACHE_REF", "CACHE_DIR", "CACHE_BRANCH", "CACHE_READ_ONLY"})
"""Variables of the bake file that steps do not see."""

_PLATFORMS = cast(tuple[str, ...], DEFAULTS["platforms"])


def lift(said: Sets, loaded: Loaded) -> tuple[dict[str, str], tuple[str, ...] | None, tuple[Override, ...]]:
    """Turn overrides of whole groups into what they mean: variables, axes and platforms of the recipe."""
    variables = dict(said.variables)
    platforms: tuple[str, ...] | None = None
    rest: list[Override] = []
    known = settable(loaded) - NO_ARGUMENT
    for override in said.overrides:
        name = override.key.removeprefix("args.")
        if not _is_whole(override.pattern):
            rest.append(override)
        elif override.key.startswith("args.") and name in known:
            variables[name] = override.value
        elif override.key == "platform":
            before = (platforms or loaded.recipe.platforms or _PLATFORMS) if override.append else ()
            platforms = tuple(dict.fromkeys((*before, *_platforms(override))))
        else:
            rest.append(override)
    return variables, platforms, tuple(rest)


def _is_whole(pattern: str) -> bool:
    """Whether a pattern means every cell: all targets, or all of a kind, since a cell's targets are one build."""
    return pattern == "*" or pattern in GROUPS or pattern in {f"{kind}-*" for kind in Kind}


def _platforms(override: Override) -> tuple[str, ...]:
    values = tuple(item.strip() for item in override.value.split(","))
    wrong = [item for item in values if not PLATFORM.match(item)]
    if wrong:
        raise UsageError(
            f"--set '{override}': unknown platform {', '.join(map(repr, wrong))}",
            hint="expected platforms such as linux/amd64, linux/arm64 or macos/arm64, with commas between them",
        )
    return values


def check_patterns(overrides: Sequence[Override], ids: Sequence[str]) -> None:
    """Raise UsageError if an override matches no target."""
    for override in overrides:
        if not any(selects(override.pattern, cell) for cell in ids):
            raise UsageError(f"--set '{override}' matches no target", hint=_no_match(override.pattern, ids))


def placed(
    axes: Sequence[Mapping[str, str]], ids: Sequence[str], overrides: Sequence[Override]
) -> list[Mapping[str, str]]:
    """Return each cell's axes with the platform that an override of single cells gives it.

    Raises:
        UsageError: a cell would have several platforms, or another than its id names.
    """
    result = list(axes)
    for override in (item for item in overrides if item.key == "platform"):
        given = _platforms(override)
        if override.append or len(given) != 1 or len({cell["platform"] for cell in axes}) > 1:
            raise UsageError(
                f"--set '{override}': a cell has one platform, and its id names it where platforms differ",
                hint="write '*.platform=…' for all of them, and choose cells with --only",
            )
        result = [
            {**cell, "platform": given[0]} if selects(override.pattern, cell_id) else cell
            for cell, cell_id in zip(result, ids, strict=True)
        ]
    return result


def handed_on(overrides: Sequence[Override], cells: Sequence[Cell]) -> tuple[Override, ...]:
    """Return the overrides that buildx applies, with its own patterns: it knows targets and no groups.

    Raises:
        UsageError: one names the wheel of a cell whose wheel another cell builds.
    """
    found = tuple(
        replace(override, pattern=pattern)
        for override in overrides
        if override.key != "platform" and not override.key.startswith("args.")
        for pattern in ([f"{kind}-*" for kind in GROUPS.get(override.pattern, ())] or [override.pattern])
    )
    targets = [f"{kind}-{cell.id}" for kind in Kind for cell in cells if cell.has(kind)] if found else []
    for override in found:
        if not fnmatch.filter(targets, override.pattern):
            meant = {cell.built_by for cell in cells if selects(override.pattern, cell.id)}
            raise UsageError(
                f"--set '{override}' matches no target: the wheel is built by another cell",
                hint=f"write {' or '.join(f'{Kind.WHEEL}-{builder}' for builder in sorted(meant))}",
            )
    return found


def selects(pattern: str, cell_id: str) -> bool:
    """Whether a pattern of the command line means a cell: one of its targets, or a whole group."""
    return pattern in GROUPS or any(fnmatch.fnmatchcase(f"{kind}-{cell_id}", pattern) for kind in Kind)


def _no_match(pattern: str, ids: Sequence[str]) -> str:
    names = [f"{kind}-{cell}" for kind in Kind for cell in ids]
    near = get_close_matches(pattern, names, n=1)
    return f"did you mean {near[0]}?" if near else f"targets are called {names[0]}, …; '*' matches all"
