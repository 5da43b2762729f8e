"""Where BuildKit's layer cache is kept between runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bakery import names
from bakery.models.base import Model
from bakery.models.text import Line


class Cache(Model):
    """The layer cache. Each target and platform gets a scope of its own, so that none overwrites another."""

    backend: names.CacheBackend | None = None
    """The value of variable CACHE when nobody sets it; ``none`` keeps a laptop free of cache traffic."""
    ref: Line | None = Field(default=None, examples=["registry.example/team/cache"])
    """``registry``: the repository that holds the caches; the scope becomes the tag."""
    directory: Line | None = None
    """``local``: the folder that holds the caches, one subfolder a scope."""
    mode: Literal["min", "max"] | None = None
    """``max`` keeps the layers of every stage, ``min`` those of the result alone."""
