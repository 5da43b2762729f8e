"""The recipe's ``[cache]`` → the plan's."""

from __future__ import annotations

from bakery.core.durations import seconds_of
from bakery.core.names import CacheBackend, size_mb
from bakery.plan.options import Cache
from bakery.resolve.settings import Settings, cache_backends

_BUCKET = {
    "bucket": "bucket",
    "region": "region",
    "prefix": "prefix",
    "endpoint": "endpoint_url",
    "path-style": "use_path_style",
}
"""What a recipe calls an attribute of a bucket, and what BuildKit does."""


def layer_cache(settings: Settings) -> Cache:
    """Return the layer cache that the settings come to."""
    level, expected = settings.text("cache.compression-level"), settings.text("cache.expected-build")
    named = {theirs: settings.values.get(f"cache.s3.{ours}") for ours, theirs in _BUCKET.items()}
    return Cache(
        backend=CacheBackend(settings.text("cache.backend")),
        offered=cache_backends(settings.values),
        ref=settings.text("cache.ref"),
        mode=settings.text("cache.mode"),
        ignore_error=settings.flag("cache.ignore-error"),
        compression=settings.text("cache.compression"),
        compression_level=int(level) if level else None,
        timeout=settings.text("cache.gha.timeout"),
        limit_mb=size_mb(settings.text("cache.gha.limit")),
        expected_s=seconds_of(expected, "cache.expected-build") if expected else 0,
        bucket={key: "true" if value is True else str(value) for key, value in named.items() if value},
    )
