"""Where BuildKit's layer cache is kept between runs."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, StrictBool, field_validator, model_validator

from bakery.core import names
from bakery.recipe.models.base import Model
from bakery.recipe.models.text import DurationText, Line, SizeText, WorkflowLine

_ADDRESS = re.compile(r"https?://[^\s'\"\\]+\Z")


class GhaCache(Model):
    """GitHub's cache."""

    timeout: DurationText | None = Field(default=None, examples=["20m"])
    """What one import or export may take, waiting for a busy server included; BuildKit's own is 10 minutes."""
    limit: SizeText | None = Field(default=None, examples=["10 GB"])
    """What GitHub keeps for the repository; what was used least is removed beyond it."""


class S3Cache(Model):
    """A bucket of Amazon S3, or of a server that speaks its protocol. Who may use it, the environment says (``AWS_…``)."""

    bucket: Line = Field(examples=["team-builds"])
    """The bucket's name."""
    region: Line = Field(examples=["eu-central-1"])
    """Where it is."""
    prefix: Line | None = Field(default=None, examples=["cache/"])
    """Begins the name of every object."""
    endpoint: Line | None = Field(default=None, examples=["https://s3.example"])
    """The address of another server than Amazon's."""
    path_style: StrictBool | None = None
    """The bucket is named in the path of addresses and not in the host's name."""

    @field_validator("endpoint")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and not _ADDRESS.match(value):
            raise ValueError("expected an address, such as 'https://s3.example'")
        return value


class Cache(Model):
    """The layer cache. Each target and platform has a scope of its own, so that none overwrites another.

    What the branch that is built left there is asked first, then what the default branch left. A place that the recipe
    names is used with ``--allow cache=PLACE`` only: whoever writes a cache decides what steps made.
    """

    backend: names.CacheBackend | None = None
    """The value of variable CACHE when nobody sets it; ``none`` keeps a laptop free of cache traffic. ``inline`` keeps
    the cache in the image itself, so it is for recipes whose result is an image."""
    ref: Line | None = Field(default=None, examples=["registry.example/team/cache"])
    """``registry``: the repository that holds the caches; the scope becomes the tag. ``inline``: the repository that
    images are pushed to."""
    directory: WorkflowLine | None = None
    """``local``: the folder that holds the caches, one subfolder a scope."""
    branch: Line | None = Field(default=None, examples=["feature/faster"])
    """The branch that is built, where it is not the default one: it has scopes of its own, and reads both. GitHub keeps
    the branches of its own cache apart without that. CI sets it: ``BAKERY_CACHE_BRANCH``."""
    read_only: StrictBool | None = None
    """The cache is read and never written. A CI sets it for pull requests: ``BAKERY_CACHE_READ_ONLY=true``."""
    mode: Literal["min", "max"] | None = None
    """``max`` keeps the layers of every stage, ``min`` those of the result alone."""
    ignore_error: StrictBool | None = None
    """A cache that cannot be written fails no build; what went wrong is said either way."""
    compression: Literal["gzip", "zstd", "estargz", "uncompressed"] | None = None
    """``registry`` and ``local``: how layers are packed; BuildKit's own is gzip."""
    compression_level: Annotated[int, Field(ge=0, le=22, strict=True)] | None = None
    """How hard: 0 to 9 for gzip and estargz, 0 to 22 for zstd."""
    expected_build: DurationText | None = Field(default=None, examples=["50m"])
    """What the longest cell takes from its beginning to its last layer, as far as you know: a cache whose right to
    write ends before is refused."""
    gha: GhaCache | None = None
    """What is special to ``gha``."""
    s3: S3Cache | None = None
    """The bucket of ``s3``."""

    @model_validator(mode="after")
    def _consistent(self) -> Cache:
        if self.backend == names.CacheBackend.S3 and self.s3 is None:
            raise ValueError("backend 's3' needs a bucket: [cache.s3] with bucket and region")
        if self.compression_level is not None:
            if self.compression is None or self.compression == "uncompressed":
                raise ValueError("compression-level needs a compression: 'gzip', 'zstd' or 'estargz'")
            if self.compression != "zstd" and self.compression_level > 9:
                raise ValueError(f"{self.compression} has the levels 0 to 9; 'zstd' has more")
        return self
