"""Does METADATA require what the wheel was promised to require?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.metadata import parse_requirement
from bakery.audit.wheel import Wheel

IDS = {
    "promised-requirement": "METADATA lacks a promised requirement, or its own refuses the promised releases",
}
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every promised requirement that METADATA does not hold."""
    if not wheel.metadata.folder or not wheel.archive.is_read:
        return
    for text in expected.requires:
        wanted = Requirement(text)
        found = named(wheel.metadata.requires_dist, wanted.name)
        file = f"{wheel.metadata.folder}/METADATA"
        if not found:
            yield error(
                "promised-requirement",
                f"does not require {text}",
                file=file,
                hint="name it in the project's dependencies, or let the recipe add it",
            )
        elif not any(_admits(item, wanted) for item in found):
            listed = ", ".join(map(str, found))
            yield error("promised-requirement", f"requires {listed}, which refuses {text}", file=file)


def named(requires: Iterable[str], name: str) -> list[Requirement]:
    """Return the requirements for a project; what cannot be read is passed over, as are extras' own."""
    found: list[Requirement] = []
    for text in requires:
        said = _NAME.match(text)
        if said is None or canonicalize_name(said[0]) != canonicalize_name(name):
            continue
        requirement = parse_requirement(text)
        if requirement and not (requirement.marker is not None and "extra" in str(requirement.marker)):
            found.append(requirement)
    return found


def _admits(requirement: Requirement, wanted: Requirement) -> bool:
    """Whether ``requirement`` takes a release that ``wanted`` names: any that stands in one of its bounds."""
    releases = [
        version
        for bound in wanted.specifier
        for version in (bound.version.removesuffix(".*"), bound.version.removesuffix(".*") + ".99")
        if wanted.specifier.contains(version, prereleases=True)
    ]
    takes = requirement.specifier.contains
    return not releases or bool(requirement.url) or any(takes(version, prereleases=True) for version in releases)
