"""Applies overrides in bake's grammar to a recipe.

Overrides of all cells change the recipe itself: its variables, axes and platforms. Overrides of single cells change
these cells before anything is derived from them. The other overrides are passed to buildx.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import cast

from bakery.core.errors import UsageError
from bakery.core.names import GROUPS, PLATFORM, Kind
from bakery.plan.cells import Cell
from bakery.plan.options import Override
from bakery.recipe.load import Loaded
from bakery.resolve.cell_draft import CellDraft
from bakery.resolve.defaults import DEFAULTS
from bakery.resolve.set_option import SetOptions
from bakery.resolve.settings import settable

NO_ARGUMENT = frozenset({"DEST", "CACHE", "CACHE_REF", "CACHE_DIR", "CACHE_BRANCH", "CACHE_READ_ONLY"})
"""Variables of the bake file that are not build arguments."""

_PLATFORMS = cast(tuple[str, ...], DEFAULTS["platforms"])


def apply_to_recipe(
    sets: SetOptions, loaded: Loaded
) -> tuple[dict[str, str], tuple[str, ...] | None, tuple[Override, ...]]:
    """Return the variables and platforms that options set for all cells, and the overrides that are left.

    The platforms are None if no option sets them.
    """
    variables = dict(sets.variables)
    platforms: tuple[str, ...] | None = None
    rest: list[Override] = []
    args = {f"args.{name}": name for name in settable(loaded) - NO_ARGUMENT}
    for override in sets.overrides:
        if _selects_all(override.pattern) and override.key in args:
            variables[args[override.key]] = override.value
        elif _selects_all(override.pattern) and override.key == "platform":
            before = (platforms or loaded.recipe.platforms or _PLATFORMS) if override.append else ()
            platforms = tuple(dict.fromkeys((*before, *_platforms(override))))
        else:
            rest.append(override)
    return variables, platforms, tuple(rest)


def _selects_all(pattern: str) -> bool:
    """Whether a pattern selects every cell: all targets, or all of one kind, since a cell's targets are one build."""
    return pattern == "*" or pattern in GROUPS or pattern in {f"{kind}-*" for kind in Kind}


def _platforms(override: Override) -> tuple[str, ...]:
    values = tuple(item.strip() for item in override.value.split(","))
    unknown = [item for item in values if not PLATFORM.match(item)]
    if unknown:
        raise UsageError(
            f"--set '{override}': unknown platform {', '.join(map(repr, unknown))}",
            hint="expected platforms such as linux/amd64, linux/arm64 or macos/arm64, separated by commas",
        )
    return values


def check_patterns(overrides: Sequence[Override], ids: Sequence[str]) -> None:
    """Raise UsageError if an override matches no target."""
    for override in overrides:
        if not any(selects(override.pattern, cell) for cell in ids):
            raise UsageError(f"--set '{override}' matches no target", hint=_no_match(override.pattern, ids))


def override_platforms(drafts: Sequence[CellDraft], overrides: Sequence[Override]) -> list[CellDraft]:
    """Return the cells with the platforms that overrides of single cells give them.

    Raises:
        UsageError: a cell would have several platforms, or another one than its id has.
    """
    result = list(drafts)
    for override in (item for item in overrides if item.key == "platform"):
        platforms = _platforms(override)
        if override.append or len(platforms) != 1 or len({draft.platform for draft in drafts}) > 1:
            raise UsageError(
                f"--set '{override}': a cell has one platform, and its id names it if platforms differ",
                hint="write '*.platform=…' for all cells, and select cells with --only",
            )
        result = [
            replace(draft, axes={**draft.axes, "platform": platforms[0]})
            if selects(override.pattern, draft.id)
            else draft
            for draft in result
        ]
    return result


def buildx_overrides(overrides: Sequence[Override], cells: Sequence[Cell]) -> tuple[Override, ...]:
    """Return the overrides for buildx, with patterns of targets: buildx matches no groups.

    Raises:
        UsageError: one names the wheel of a cell whose wheel another cell builds.
    """
    passed = tuple(
        replace(override, pattern=pattern)
        for override in overrides
        if override.key != "platform" and not override.key.startswith("args.")
        for pattern in ([f"{kind}-*" for kind in GROUPS.get(override.pattern, ())] or [override.pattern])
    )
    targets = [f"{kind}-{cell.id}" for kind in Kind for cell in cells if cell.has(kind)] if passed else []
    for override in passed:
        if not fnmatch.filter(targets, override.pattern):
            builders = {cell.built_by for cell in cells if selects(override.pattern, cell.id)}
            raise UsageError(
                f"--set '{override}' matches no target: the wheel is built by another cell",
                hint=f"write {' or '.join(f'{Kind.WHEEL}-{builder}' for builder in sorted(builders))}",
            )
    return passed


def selects(pattern: str, cell_id: str) -> bool:
    """Whether a pattern of the command line selects a cell: one of its targets, or a group."""
    return pattern in GROUPS or any(fnmatch.fnmatchcase(f"{kind}-{cell_id}", pattern) for kind in Kind)


def _no_match(pattern: str, ids: Sequence[str]) -> str:
    names = [f"{kind}-{cell}" for kind in Kind for cell in ids]
    near = get_close_matches(pattern, names, n=1)
    return f"did you mean {near[0]}?" if near else f"targets are called {names[0]}, …; '*' matches all"
