"""Layer caches: shared scopes, credentials, limits and names."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.core.durations import duration
from bakery.core.names import CacheBackend
from bakery.resolve.rules.case import Case
from bakery.resolve.rules.rule import rule
from bakery.toolchains.facts import cache_service

_LONGEST_TAG = 128
_TAGGED = (CacheBackend.REGISTRY, CacheBackend.INLINE)


def _is_gha(case: Case) -> bool:
    return case.cache.cache.backend is CacheBackend.GHA


@rule(
    "cache-shared-scope",
    "No two targets write to one cache",
    why="The one that ends last overwrites what the other wrote: each run finds the layers of one of them, and not always "
    "of the same.",
    fix="leave the place to bakery, which names one for each target and platform: CACHE=gha, or [cache] in the recipe",
    source="docker/buildx#3819; docker/bake-action#329; kroki#2070 for local folders",
)
def _scopes(case: Case) -> Iterator[str]:
    for location, targets in case.cache.shared:
        yield f"{len(targets)} targets write to one cache ({location}): {', '.join(targets[:3])}{', …' * bool(targets[3:])}"


@rule(
    "cache-gha-token",
    "A cache of GitHub has its token and address in reach",
    why="buildx leaves out a gha cache without them, and says nothing: every run builds all of it again.",
    fix="in a workflow, run crazy-max/ghaction-github-runtime before the step (the one that `wheel-bakery generate` writes "
    "does); elsewhere choose another backend: BAKERY_CACHE=none",
    source="docker/buildx#744; buildx 0.29.1, addGithubToken and CreateCaches",
)
def _token(case: Case) -> Iterator[str]:
    if _is_gha(case) and case.host.lacking:
        yield f"backend gha, and the environment has no {' and no '.join(case.host.lacking)}"


@rule(
    "cache-gha-limit",
    "What is written into GitHub's cache fits into it",
    why="GitHub removes what was used least, which is what the next run needs: caches come and go, and other workflows of "
    "the repository lose theirs.",
    fix='set ci.cache = "none", keep the layers in a registry, or say what your repository may have: cache.gha.limit. The '
    "sizes are estimates (bakery/toolchains/facts/actions.toml)",
    source="https://docs.github.com/en/actions/reference/workflows-and-actions/dependency-caching",
)
def _limit(case: Case) -> Iterator[str]:
    size, limit = case.cache.estimated_mb, case.cache.cache.limit_mb
    if (_is_gha(case) or case.cache.ci_cache == CacheBackend.GHA) and size > limit:
        yield f"the layers of all cells take some {size / 1000:.1f} GB, and GitHub's cache keeps {limit / 1000:g} GB"


@rule(
    "cache-token-life",
    "A build ends before its right to write into GitHub's cache does",
    why="The cache is written last. The addresses that GitHub signs for it are good for an hour: what takes longer is "
    "built, and its layers are lost.",
    fix="keep the layers in a registry, or in none; a compiler cache that a later step carries is not bound by it "
    "(docs/ci.md)",
    source="open-noodle/gallery#806: 'Signature not valid in the specified time frame', one hour to the second; "
    "moby/buildkit#3239",
)
def _life(case: Case) -> Iterator[str]:
    life = cache_service("gha").minutes * 60
    remaining = life if case.host.token_s is None else min(life, case.host.token_s)
    expected = case.cache.cache.expected_s
    if _is_gha(case) and expected > remaining:
        yield f"a cell is expected to take {duration(expected)}, and the right to write ends after {duration(remaining)}"


@rule(
    "cache-engine",
    "The engine can write the kind of cache that is asked for",
    why="buildx refuses the build before its first step.",
    fix='set {"features": {"containerd-snapshotter": true}} in daemon.json, take a builder of driver docker-container, or '
    "choose another backend",
    source="https://docs.docker.com/build/cache/backends/; moby 28.5.2, builder-next/builder.go",
)
def _engine(case: Case) -> Iterator[str]:
    backend, exports = case.cache.cache.backend, case.host.exports
    if exports is not None and backend is not CacheBackend.NONE and backend not in exports:
        yield f"{case.host.engine} writes no cache of kind {backend}, but {', '.join(sorted(exports))}"


@rule(
    "cache-place",
    "A cache in a registry has the name of its repository",
    why="The scope alone names no image, and the cache is neither read nor written.",
    fix='set cache.ref = "registry.example/team/cache", or BAKERY_CACHE_REF',
    source="https://github.com/distribution/reference: a reference begins with a name",
)
def _place(case: Case) -> Iterator[str]:
    if case.cache.cache.backend in _TAGGED and not case.cache.cache.ref:
        yield f"backend {case.cache.cache.backend} without the name of a repository"


@rule(
    "cache-tag",
    "The scope of a cache in a registry is no longer than a tag",
    why="The scope is the tag: recipe, kind of target, cell and platform.",
    fix="shorten the recipe's name, or the values of axes",
    source="https://github.com/opencontainers/distribution-spec/blob/main/spec.md",
)
def _tag(case: Case) -> Iterator[str]:
    if case.cache.cache.backend in _TAGGED and len(case.cache.longest) > _LONGEST_TAG:
        size = len(case.cache.longest)
        yield f"{case.cache.longest[:40]}…: a scope of {size} characters, and a tag has at most {_LONGEST_TAG}"
