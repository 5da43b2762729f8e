"""Parses ``--set``: recipe variables, and bake's override grammar.

``NAME=VALUE`` sets a recipe variable. ``PATTERN.KEY[.SUB][+]=VALUE`` is bake's grammar: the first ``=``
ends the key, dots split the left side into at most three parts, and the pattern is a glob over target
names (buildx v0.29, bake/bake.go newOverrides). Bakery also takes the name of a kind or group as the
pattern, and ``platforms`` for ``platform``, as guides write it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from bakery.core.errors import UsageError
from bakery.core.names import VARIABLE, normal
from bakery.core.text import is_line
from bakery.plan.options import Override

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


@dataclass(frozen=True, slots=True)
class SetOptions:
    """The values of all ``--set`` options, in their order.

    Attributes:
        variables: name → value; the last one wins.
        overrides: the options in bake's grammar.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()

    def for_variables(self, names: Set[str]) -> SetOptions:
        """Return the options for one of several recipes, which has the variables ``names``."""
        return SetOptions(
            {name: value for name, value in self.variables.items() if name in names},
            tuple(item for item in self.overrides if _variable(item) in ("", *names)),
        )


def _variable(override: Override) -> str:
    """Return the variable that an override sets in all cells; empty for other overrides."""
    name = override.key.removeprefix("args.")
    return name if override.pattern == "*" and name != override.key and VARIABLE.match(name) else ""


def parse_set_options(texts: Iterable[str]) -> SetOptions:
    """Parse the values of ``--set``.

    Raises:
        UsageError: one or more values are not valid; the details list all of them.
    """
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
        raise ValueError(f"{key} takes no part after a second dot")
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
    """Check the value of a cache as buildx v0.29 does (util/buildflags/cache.go): CSV of references or of NAME=VALUE.

    Raises:
        ValueError: it is neither, or NAME=VALUE without a type.
    """
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
