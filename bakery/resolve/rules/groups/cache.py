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


@rule(
    "cache-shared-scope",
    "No two targets write to the same cache",
    why="The target that ends last overwrites the other one, so the next run finds only its layers.",
    fix="remove the override: with CACHE=gha or [cache] in the recipe, each target and platform has its own scope",
    source="docker/buildx#3819; docker/bake-action#329; kroki#2070 for local folders",
)
def _scopes(subject: RuleSubject) -> Iterator[str]:
    for location, targets in subject.cache.shared:
        some = f"{', '.join(targets[:3])}{', …' * bool(targets[3:])}"
        yield f"{len(targets)} targets write to the same cache ({location}): {some}"


@rule(
    "cache-gha-token",
    "The token and the address of GitHub's cache are set",
    why="Without them, buildx silently ignores a gha cache, and every run builds everything again.",
    fix="in a workflow, run crazy-max/ghaction-github-runtime before the step, as the generated workflow does; "
    "elsewhere choose another backend: BAKERY_CACHE=none",
    source="docker/buildx#744; buildx 0.29.1, addGithubToken and CreateCaches",
)
def _token(subject: RuleSubject) -> Iterator[str]:
    if _is_gha(subject) and subject.host.lacking:
        yield f"backend gha: the environment does not set {' and '.join(subject.host.lacking)}"


@rule(
    "cache-gha-limit",
    "The layers of all cells fit into GitHub's cache",
    why="Above the limit, GitHub removes the least recently used entries, which the next run and other workflows need.",
    fix='set ci.cache = "none", use a registry, or set cache.gha.limit to the limit of your repository. Sizes are '
    "estimates (bakery/toolchains/facts/actions.toml)",
    source="https://docs.github.com/en/actions/reference/workflows-and-actions/dependency-caching",
)
def _limit(subject: RuleSubject) -> Iterator[str]:
    size, limit = subject.cache.estimated_mb, subject.cache.cache.limit_mb
    if (_is_gha(subject) or subject.cache.ci_cache == CacheBackend.GHA) and size > limit:
        yield f"the layers of all cells take about {size / 1000:.1f} GB, and GitHub's cache has {limit / 1000:g} GB"


@rule(
    "cache-token-life",
    "A build ends before the write permission of GitHub's cache expires",
    why="The cache is written at the end of a build, with URLs that GitHub signs for one hour. The layers of a longer "
    "build are lost.",
    fix="use a registry or no layer cache; the compiler cache between runs has no such limit (docs/ci.md)",
    source="open-noodle/gallery#806: 'Signature not valid in the specified time frame', one hour to the second; "
    "moby/buildkit#3239",
)
def _life(subject: RuleSubject) -> Iterator[str]:
    life = cache_service("gha").minutes * 60
    remaining = life if subject.host.token_s is None else min(life, subject.host.token_s)
    expected = subject.cache.cache.expected_s
    if _is_gha(subject) and expected > remaining:
        yield f"a cell should take {duration(expected)}, and the write permission expires after {duration(remaining)}"


@rule(
    "cache-engine",
    "The engine supports the cache backend",
    why="Otherwise, buildx refuses the build before its first step.",
    fix='set {"features": {"containerd-snapshotter": true}} in daemon.json, use driver docker-container, or choose '
    "another backend",
    source="https://docs.docker.com/build/cache/backends/; moby 28.5.2, builder-next/builder.go",
)
def _engine(subject: RuleSubject) -> Iterator[str]:
    backend, exports = subject.cache.cache.backend, subject.host.exports
    if exports is not None and backend is not CacheBackend.NONE and backend not in exports:
        yield f"{subject.host.engine} cannot write cache {backend}; it supports {', '.join(sorted(exports))}"


@rule(
    "cache-place",
    "A cache in a registry has a repository",
    why="Without one, the cache is neither read nor written.",
    fix='set cache.ref = "registry.example/team/cache", or BAKERY_CACHE_REF',
    source="https://github.com/distribution/reference: a reference begins with a name",
)
def _place(subject: RuleSubject) -> Iterator[str]:
    if subject.cache.cache.backend in _TAGGED and not subject.cache.cache.ref:
        yield f"backend {subject.cache.cache.backend}: no repository is set"


@rule(
    "cache-tag",
    "The scope of a cache in a registry fits into a tag",
    why="The scope (recipe, kind of target, cell and platform) is the tag of the cache.",
    fix="shorten the name of the recipe, or the values of axes",
    source="https://github.com/opencontainers/distribution-spec/blob/main/spec.md",
)
def _tag(subject: RuleSubject) -> Iterator[str]:
    if subject.cache.cache.backend in _TAGGED and len(subject.cache.longest) > _LONGEST_TAG:
        size = len(subject.cache.longest)
        yield f"{subject.cache.longest[:40]}…: the scope has {size} characters, and a tag has at most {_LONGEST_TAG}"
