"""Finds providers in their folders: a new provider is a new file with a ``PROVIDER``, or several ``PROVIDERS``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import TypeVar

from bakery.toolchains import bases as _bases
from bakery.toolchains import frameworks as _frameworks
from bakery.toolchains import toolkits as _toolkits
from bakery.toolchains.bases.base import Base
from bakery.toolchains.frameworks import Framework
from bakery.toolchains.toolkits.base import Toolkit

P = TypeVar("P", Base, Toolkit, Framework)

ANY_CUDA = "cuda"
"""The name in recipes for the toolkit that has the CUDA release."""


@cache
def bases() -> dict[str, Base]:
    """Return every base by name."""
    return _providers(_bases, Base)  # type: ignore[type-abstract]


@cache
def toolkits() -> dict[str, Toolkit]:
    """Return every toolkit by name."""
    return _providers(_toolkits, Toolkit)


@cache
def frameworks() -> dict[str, Framework]:
    """Return every framework by name."""
    return _providers(_frameworks, Framework)


def _providers(package: ModuleType, kind: type[P]) -> dict[str, P]:
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    groups = (getattr(module, "PROVIDERS", (getattr(module, "PROVIDER", None),)) for module in modules)
    providers = (provider for several in groups for provider in several)
    return {provider.name: provider for provider in providers if isinstance(provider, kind)}
