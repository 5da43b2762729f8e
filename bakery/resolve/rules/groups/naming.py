"""Names of wheels, and the indexes they are for."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.resolve.rules.case import Case
from bakery.resolve.rules.rule import rule


@rule(
    "public-local-version",
    "A wheel for a public index has no local version",
    why="PyPI answers the upload with 400 (the use of local versions is not allowed), after everything was built.",
    fix='name it without: naming = { clean = true, index = "public" }; and give the wheel with the local version '
    'to a private index: also-named = [{ local = "…", index = "private" }]',
    source="pypi/warehouse, forklift; the version specifiers' specification, local version identifiers",
)
def _public_local(case: Case) -> Iterator[str]:
    yield from (
        f"a wheel with the local version +{local} goes to a public index" for local in case.public_names if local
    )
