"""Parses ``--set``: recipe variables, and bake's override grammar.

``NAME=VALUE`` sets a recipe variable. ``PATTERN.KEY[.SUB][+]=VALUE`` is bake's grammar: the first ``=``
ends the key, dots split the left side into at most three parts, and the pattern is a glob over target
names (buildx v0.29, bake/bake.go newOverrides). Bakery also accepts the name of a kind or group as the
pattern, and ``platforms`` for ``platform``, which guides use.

Overrides of all cells change the recipe itself: its variables, axes and platforms. Overrides of single cells change
these cells before anything is derived from them. The other overrides are passed to buildx.
"""

from __future__ import annotations

import csv
import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from bakery.core.errors import UsageError
from bakery.core.names import PLATFORM, VARIABLE, normal
from bakery.core.target_kinds import GROUPS, Kind
from bakery.core.text import is_line
from bakery.plan.cells import Cell
from bakery.plan.delivery import Override
from bakery.recipe.load import Loaded
from bakery.resolve.matrix import CellDraft
from bakery.resolve.settings import settable

_CACHES = ("cache-from", "cache-to")
_LISTS = ("tags", *_CACHES)
_MAPS = ("args", "labels", "contexts", "extra-hosts")
_SCALARS = ("no-cache", "pull", "shm-size")
_REFUSED = {
    "network": "buildx reads it as an empty string; set builder.network in the recipe",
    "no-cache-filter": "buildx clears the list instead; use --no-cache",
    "ulimits": "buildx clears the list instead",
    "output": "Bakery collects the results; use --output DIR",
    "context": "the plan decides it; set source in the recipe",
    "dockerfile": "the plan decides it",
    "target": "the plan decides it",
    "call": "use docker buildx bake --call on the generated file",
    "entitlements": "the plan decides them",
    "attest": "not supported yet",
    "annotations": "not supported yet",
    "secrets": "not supported yet; pass a CA bundle with --ca-bundle",
    "ssh": "not supported yet",
}
_FIELD = r'(?:"(?:[^"]|"")*"|[^",]*)'
_FIELDS = re.compile(rf"{_FIELD}(?:,{_FIELD})*\Z")
_SIZE = re.compile(r"[0-9]+[bkmgBKMG]?\Z")


_OF_BUILDKIT = re.compile(r"BUILDKIT_\w+|(?i:(?:https?|ftp|no|all)_proxy)")
"""Build arguments that BuildKit reads itself."""


@dataclass(frozen=True, slots=True)
class SetOptions:
    """The values of all ``--set`` options: recipe variables (the last value wins) and overrides in bake's grammar."""

    variables: Mapping[str, str] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()

    @property
    def set_variables(self) -> set[str]:
        """The names that are set in all cells."""
        return {*self.variables, *filter(None, map(_variable, self.overrides))}

    def for_variables(self, names: Set[str]) -> SetOptions:
        """Return the options for a recipe with the variables ``names``, one of several recipes."""
        return SetOptions(
            {name: value for name, value in self.variables.items() if name in names},
            tuple(item for item in self.overrides if _variable(item) in ("", *names)),
        )


def _variable(override: Override) -> str:
    """Return the variable that an override sets in all cells; empty for other overrides."""
    name = _argument(override)
    return name if override.pattern == "*" and VARIABLE.match(name) and not _OF_BUILDKIT.fullmatch(name) else ""


def _argument(override: Override) -> str:
    """Return the build argument that an override sets; empty for other overrides."""
    return override.key.removeprefix("args.") if override.key.startswith("args.") else ""


def parse_set_options(texts: Iterable[str]) -> SetOptions:
    """Parse the values of ``--set``; UsageError, with all problems, if any is not valid."""
    variables: dict[str, str] = {}
    overrides: list[Override] = []
    problems: list[str] = []
    for text in map(normal, texts):
        name, equals, value = text.partition("=")
        try:
            if not equals:
                raise ValueError("expected NAME=VALUE or 'PATTERN.KEY=VALUE'")
            if not is_line(text):
                raise ValueError("expected one line of Unicode text without control characters")
            if "." in name:
                overrides.append(_override(name, value))
            elif VARIABLE.match(name):
                variables[name] = value
            else:
                raise ValueError(f"{name!r} is not a variable name; expected capitals, such as CUDA_VERSION")
        except ValueError as error:
            problems.append(f"--set {text[:80]!r}: {error}")
    if problems:
        raise UsageError(
            "cannot understand --set",
            details=problems,
            hint="write --set CUDA_VERSION=12.8.0, or quote bake's grammar: --set '*.args.CUDA_VERSION=12.8.0'",
        )
    return SetOptions(variables, tuple(overrides))


def _override(path: str, value: str) -> Override:
    append = path.endswith("+")
    pattern, key, *sub = path.removesuffix("+").split(".", 2)
    key = "platform" if key == "platforms" else key
    if not pattern:
        raise ValueError("expected a pattern before the dot, such as '*'")
    if key in _REFUSED:
        raise ValueError(f"{key} cannot be overridden: {_REFUSED[key]}")
    if key in _MAPS:
        if not sub or not sub[0]:
            raise ValueError(f"expected {key}.NAME=VALUE")
        if append:
            raise ValueError(f"{key} takes = and not +=")
        if key == "args" and not re.match(r"[A-Za-z_][A-Za-z0-9_]*\Z", sub[0]):
            raise ValueError(f"{sub[0]!r} is not the name of a build argument")
        return Override(pattern, f"{key}.{sub[0]}", False, value)
    if sub:
        raise ValueError(f"{key} has no part after a second dot")
    if key in _CACHES:
        _check_cache(value)
    if key == "platform" or key in _LISTS:
        return Override(pattern, key, append, value)
    if key in _SCALARS:
        if append:
            raise ValueError(f"{key} takes = and not +=")
        _check_scalar(key, value)
        return Override(pattern, key, False, value)
    keys = sorted((*_LISTS, *_MAPS, *_SCALARS, "platform"))
    raise ValueError(f"unknown key {key!r}; expected one of {', '.join(keys)}")


def _check_scalar(key: str, value: str) -> None:
    if key == "shm-size" and not _SIZE.match(value):
        raise ValueError(f"{key} is a number of bytes, such as 64m")
    if key != "shm-size" and value not in ("true", "false"):
        raise ValueError(f"{key} is true or false")


def _check_cache(value: str) -> None:
    """Check the value of a cache as buildx v0.29 does (util/buildflags/cache.go): CSV of references or NAME=VALUE."""
    if not _FIELDS.match(value):
        raise ValueError("misplaced quote; quote a whole field: '\"dest=a,b\"'")
    if "=" not in value:
        return
    fields = [field.partition("=") for field in next(csv.reader([value]))]
    bare = [name for name, equals, _ in fields if not equals]
    if bare:
        raise ValueError(f"expected NAME=VALUE, got {bare[0]!r}")
    if not any(name.lower() == "type" and kind for name, _, kind in fields):
        raise ValueError("expected a type, such as type=registry,ref=…")


NO_ARGUMENT = frozenset({"DEST", "CACHE", "CACHE_REF", "CACHE_DIR", "CACHE_BRANCH", "CACHE_READ_ONLY"})
"""Variables of the bake file that are not build arguments."""


def apply_to_recipe(
    sets: SetOptions, loaded: Loaded
) -> tuple[dict[str, str], tuple[str, ...] | None, tuple[Override, ...]]:
    """Return the variables and platforms (None if unset) that options set for all cells, and the other overrides."""
    variables = dict(sets.variables)
    platforms: tuple[str, ...] | None = None
    rest: list[Override] = []
    args = {f"args.{name}": name for name in settable(loaded) - NO_ARGUMENT}
    for override in sets.overrides:
        if _selects_all(override.pattern) and override.key in args:
            variables[args[override.key]] = override.value
        elif _selects_all(override.pattern) and override.key == "platform":
            before = (platforms or loaded.recipe.platforms) if override.append else ()
            platforms = tuple(dict.fromkeys((*before, *_platforms(override))))
        else:
            rest.append(override)
    return variables, platforms, tuple(rest)


def adds_platforms(override: Override) -> bool:
    """Whether an option adds platforms to those of the recipe."""
    return override.key == "platform" and override.append


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


def check_arguments(overrides: Sequence[Override], names: Set[str]) -> None:
    """Raise UsageError if an override sets a build argument that nothing reads; ``names`` are those of the recipe."""
    for override in overrides:
        name = _argument(override)
        if name and name not in names and not _OF_BUILDKIT.fullmatch(name):
            near = get_close_matches(name, names, n=1)
            raise UsageError(
                f"--set '{override}' has no effect: the recipe has no build argument {name}",
                hint=f"did you mean {near[0]}?" if near else f'declare it: [variables] {name} = "{override.value}"',
            )


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
