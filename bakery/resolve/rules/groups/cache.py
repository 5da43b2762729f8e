"""Layer caches: shared scopes, credentials, limits and names."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.core.durations import duration
from bakery.core.names import CacheBackend
from bakery.resolve.rules.rule import rule
from bakery.resolve.rules.subject import RuleSubject
from bakery.toolchains.facts import cache_service

_LONGEST_TAG = 128
_TAGGED = (CacheBackend.REGISTRY, CacheBackend.INLINE)


def _is_gha(subject: RuleSubject) -> bool:
    return subject.cache.cache.backend is CacheBackend.GHA


@rule("cache-shared-scope", "No two targets write to the same cache")
def _scopes(subject: RuleSubject) -> Iterator[str]:
    for location, targets in subject.cache.shared:
        some = f"{', '.join(targets[:3])}{', …' * bool(targets[3:])}"
        yield f"{len(targets)} targets write to the same cache ({location}): {some}"


@rule("cache-gha-token", "The token and the address of GitHub's cache are set")
def _token(subject: RuleSubject) -> Iterator[str]:
    if _is_gha(subject) and subject.host.lacking:
        yield f"backend gha: the environment does not set {' and '.join(subject.host.lacking)}"


@rule("cache-gha-limit", "The layers of all cells fit into GitHub's cache")
def _limit(subject: RuleSubject) -> Iterator[str]:
    size, limit = subject.cache.estimated_mb, subject.cache.cache.limit_mb
    if (_is_gha(subject) or subject.cache.ci_cache == CacheBackend.GHA) and size > limit:
        yield f"the layers of all cells take about {size / 1000:.1f} GB, and GitHub's cache has {limit / 1000:g} GB"


@rule("cache-token-life", "A build ends before the write permission of GitHub's cache expires")
def _life(subject: RuleSubject) -> Iterator[str]:
    life = cache_service("gha").minutes * 60
    remaining = life if subject.host.token_s is None else min(life, subject.host.token_s)
    expected = subject.cache.cache.expected_s
    if _is_gha(subject) and expected > remaining:
        yield f"a cell should take {duration(expected)}, and the write permission expires after {duration(remaining)}"


@rule("cache-engine", "The engine supports the cache backend")
def _engine(subject: RuleSubject) -> Iterator[str]:
    backend, exports = subject.cache.cache.backend, subject.host.exports
    if exports is not None and backend is not CacheBackend.NONE and backend not in exports:
        yield f"{subject.host.engine} cannot write cache {backend}; it supports {', '.join(sorted(exports))}"


@rule("cache-place", "A cache in a registry has a repository")
def _place(subject: RuleSubject) -> Iterator[str]:
    if subject.cache.cache.backend in _TAGGED and not subject.cache.cache.ref:
        yield f"backend {subject.cache.cache.backend}: no repository is set"


@rule("cache-tag", "The scope of a cache in a registry fits into a tag")
def _tag(subject: RuleSubject) -> Iterator[str]:
    if subject.cache.cache.backend in _TAGGED and len(subject.cache.longest) > _LONGEST_TAG:
        size = len(subject.cache.longest)
        yield f"{subject.cache.longest[:40]}…: the scope has {size} characters, and a tag has at most {_LONGEST_TAG}"
