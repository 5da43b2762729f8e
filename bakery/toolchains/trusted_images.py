"""The base images that get credentials without a grant: those of Bakery's own table, and Debian's."""

from __future__ import annotations

from functools import cache

from bakery.core.image_names import full
from bakery.toolchains import facts

_DEBIAN = "docker.io/library/debian"


@cache
def _known() -> tuple[frozenset[str], frozenset[str]]:
    """Return the repositories whose owners Bakery trusts, and the digests of its table: a mirror may have those, too."""
    rows = [row for rows in facts.pinned_images().values() for row in rows]
    return frozenset((_DEBIAN, *(row.image for row in rows))), frozenset(row.digest for row in rows if row.digest)


@cache
def is_trusted(ref: str) -> bool:
    """Whether an image, by its name in a Dockerfile, needs no grant."""
    repositories, digests = _known()
    return ref.partition("@")[2] in digests or full(ref).rpartition(":")[0] in repositories
