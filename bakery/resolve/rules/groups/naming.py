"""Names of wheels, and the indexes they are for."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.resolve.rules.case import Case
from bakery.resolve.rules.rule import rule


@rule(
    "public-local-version",
    "A wheel for a public index has no local version",
    why="PyPI refuses the upload of a local version (400), after everything was built.",
    fix='remove it: naming = { clean = true, index = "public" }; for a private index, add '
    'also-named = [{ local = "…", index = "private" }]',
    source="pypi/warehouse, forklift; the version specifiers' specification, local version identifiers",
)
def _public_local(case: Case) -> Iterator[str]:
    yield from (
        f"a wheel with the local version +{local} goes to a public index" for local in case.public_names if local
    )
