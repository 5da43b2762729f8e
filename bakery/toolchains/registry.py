"""Finds providers by scanning their folders: a new provider is one new file with a ``PROVIDER``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from bakery.toolchains import bases as _bases
from bakery.toolchains import frameworks as _frameworks
from bakery.toolchains import toolkits as _toolkits
from bakery.toolchains.bases.base import Base
from bakery.toolchains.frameworks.base import Framework
from bakery.toolchains.toolkits.base import Toolkit

ANY_CUDA = "cuda"
"""What a recipe writes for whichever toolkit has the CUDA release asked for."""


@cache
def bases() -> dict[str, Base]:
    """Return every base by name."""
    found = [item for item in _scan(_bases.__name__, tuple(_bases.__path__)) if isinstance(item, Base)]
    return {item.name: item for item in found}


@cache
def toolkits() -> dict[str, Toolkit]:
    """Return every toolkit by name."""
    found = [item for item in _scan(_toolkits.__name__, tuple(_toolkits.__path__)) if isinstance(item, Toolkit)]
    return {item.name: item for item in found}


@cache
def frameworks() -> dict[str, Framework]:
    """Return every framework by name."""
    found = [item for item in _scan(_frameworks.__name__, tuple(_frameworks.__path__)) if isinstance(item, Framework)]
    return {item.name: item for item in found}


def _scan(package: str, path: tuple[str, ...]) -> list[object]:
    modules = sorted(info.name for info in pkgutil.iter_modules(path))
    found = [getattr(importlib.import_module(f"{package}.{name}"), "PROVIDER", None) for name in modules]
    return [item for item in found if item is not None]
