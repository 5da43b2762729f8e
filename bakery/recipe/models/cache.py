"""The layer cache, which keeps BuildKit's layers between runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, model_validator

from bakery.core import names
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import DurationText, Line, Matching, SizeText, WorkflowLine

_Endpoint = Annotated[Line, Matching(r"""https?://[^\s'"\\]+""", "an address, such as 'https://s3.example'")]


class GhaCache(Model):
    """Settings of backend ``gha``, the GitHub Actions cache."""

    timeout: DurationText | None = Field(default=None, examples=["20m"])
    """Time limit of one import or export, including retries when the server is busy. BuildKit's default is 10
    minutes."""
    limit: SizeText = Field(default="10 GB", examples=["10 GB"])
    """The cache size that GitHub allows for the repository. Above it, GitHub removes the entries that were used
    least."""


class S3Cache(Model):
    """Settings of backend ``s3``: Amazon S3 or a compatible server. The environment (``AWS_…``) has the credentials."""

    bucket: Line = Field(examples=["team-builds"])
    """The name of the bucket."""
    region: Line = Field(examples=["eu-central-1"])
    """The region of the bucket."""
    prefix: Line | None = Field(default=None, examples=["cache/"])
    """A prefix for the names of all objects."""
    endpoint: _Endpoint | None = Field(default=None, examples=["https://s3.example"])
    """The URL of the server, if it is not Amazon's."""
    path_style: StrictBool = False
    """Put the name of the bucket into the path of URLs instead of the host name."""


class Cache(Model):
    """The layer cache. Each target and platform has its own scope, so no target overwrites the cache of another.

    The cache of the current branch is read first, then that of the default branch. A location that the recipe names is
    used only with ``--allow cache=PLACE``: whoever can write to a layer cache decides what your steps produce.
    """

    backend: names.CacheBackend = names.CacheBackend.NONE
    """Where layers are kept; the default of the bake variable ``CACHE``. ``none`` uses no layer cache. ``inline`` keeps
    the cache in the image, so it is for recipes that build an image."""
    ref: Line = Field(default="", examples=["registry.example/team/cache"])
    """For ``registry``, the repository that holds the caches; each scope is a tag. For ``inline``, the repository that
    images are pushed to."""
    directory: WorkflowLine = ".bakery/cache"
    """For ``local``, the folder that holds the caches, with one subfolder for each scope."""
    branch: Line = Field(default="", examples=["feature/faster"])
    """The current branch, if it is not the default branch. It writes to its own scopes and reads both. Not needed for
    ``gha``, where GitHub separates branches. In CI, set ``BAKERY_CACHE_BRANCH`` instead."""
    read_only: StrictBool = False
    """Read the cache but never write to it. In CI, set ``BAKERY_CACHE_READ_ONLY=true`` for pull requests."""
    mode: Literal["min", "max"] = "max"
    """``max`` keeps the layers of all stages, ``min`` only those of the result."""
    ignore_error: StrictBool = True
    """Do not fail the build if the cache cannot be written. The problem is reported in both cases."""
    compression: Literal["gzip", "zstd", "estargz", "uncompressed"] | None = None
    """For ``registry`` and ``local``, the compression of layers. BuildKit's default is gzip."""
    compression_level: Annotated[int, Field(ge=0, le=22, strict=True)] | None = None
    """The compression level: 0 to 9 for gzip and estargz, 0 to 22 for zstd."""
    expected_build: DurationText | None = Field(default=None, examples=["50m"])
    """Your estimate of the time that the longest cell takes, from its start to its last layer. If the write permission
    of the cache expires earlier (backend ``gha``), the build is refused."""
    gha: GhaCache = GhaCache()
    """Settings of backend ``gha``."""
    s3: S3Cache | None = None
    """Settings of backend ``s3``."""

    @model_validator(mode="after")
    def _consistent(self) -> Cache:
        if self.backend == names.CacheBackend.S3 and self.s3 is None:
            raise invalid("backend 's3' needs a bucket: [cache.s3] with bucket and region")
        if self.compression_level is not None:
            if self.compression is None or self.compression == "uncompressed":
                raise invalid("compression-level needs a compression: 'gzip', 'zstd' or 'estargz'")
            if self.compression != "zstd" and self.compression_level > 9:
                raise invalid(f"{self.compression} has the levels 0 to 9; 'zstd' has more")
        return self
