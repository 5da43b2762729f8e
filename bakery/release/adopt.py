"""Compares the last release of a project on a package index with a plan, by names, or with new wheels, by content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename
from packaging.version import Version

from bakery.core.errors import UnavailableError
from bakery.engine.package_index import Link
from bakery.plan.model import Plan
from bakery.release.verify import assigned, unversioned
from bakery.runs.audited import report_on
from wheel_audit.compare import Change, compare
from wheel_audit.wheel_names import parse_wheel_name


@dataclass(frozen=True, slots=True)
class Published:
    """A release on an index: its wheels, and its other files."""

    version: str
    wheels: tuple[Link, ...]
    others: tuple[str, ...]


def release_on(links: Iterable[Link], project: str, wanted: str) -> Published:
    """Return a release: the ``wanted`` version, or the newest that has a wheel. Raises UnavailableError if there is none."""
    versions: dict[Link, Version | None] = {link: _version(link.name) for link in links}
    wheels = {link: version for link, version in versions.items() if version and link.name.endswith(".whl")}
    releases = sorted(
        {Version(item.public) for item in wheels.values()}, key=lambda item: (not item.is_prerelease, item)
    )
    if not releases or (wanted and Version(wanted) not in releases):
        raise UnavailableError(
            f"the package index has no wheel of {project}{f' {wanted}' if wanted else ''}",
            hint="name the index: --index URL",
            details=[f"it has wheels of {', '.join(map(str, releases[-8:]))}"] if releases else (),
        )
    version = Version(wanted) if wanted else releases[-1]
    chosen = [link for link, item in versions.items() if item and Version(item.public) == version]
    return Published(
        str(version),
        tuple(link for link in chosen if link in wheels),
        tuple(link.name for link in chosen if link not in wheels),
    )


def _version(name: str) -> Version | None:
    if "/" in name:
        return None
    try:
        return parse_wheel_name(name)[1] if name.endswith(".whl") else parse_sdist_filename(name)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


def by_name(plan: Plan, release: Published) -> Iterator[str]:
    """Yield each difference between a plan and the names of a release."""
    wheels = [Path(link.name) for link in release.wheels]
    found, served, _, left = assigned(plan, wheels)
    covered = {*found, *(cell.id for cells in served.values() for cell in cells)}
    for cell in (*plan.cells, *plan.cibuildwheel_cells):
        if cell.built_by not in covered:
            yield f"planned, not published: {cell.id} for {cell.platform}"
    yield from (f"published, not planned: {path.name}" for path in left)
    yield from (f"published, not made by `wheel`: {name}" for name in release.others)


def by_content(
    release: Published, files: Sequence[Path], scratch: Path, download: Callable[[Link, Path], None]
) -> Iterator[tuple[str, tuple[Change, ...]]]:
    """Yield each new wheel with what changed since that of the release in its place; a wheel on one side only is a change.

    A wheel of the release is downloaded to ``scratch`` when its turn comes, and removed.
    """
    left = list(release.wheels)
    for file in files:
        if _version(file.name) is None:
            yield file.name, (Change("file", "", "not the name of a wheel: it was not compared"),)
            continue
        # The same local version goes first: several wheels of a release may have the same tags.
        fitting = [link for link in left if unversioned(Path(link.name))[1:] == unversioned(file)[1:]]
        link = next(
            (item for item in fitting if unversioned(Path(item.name)) == unversioned(file)), next(iter(fitting), None)
        )
        if link is None:
            yield file.name, (Change("tags", "", "a wheel that the release does not have"),)
            continue
        left.remove(link)
        old = scratch / link.name
        try:
            download(link, old)
            reports = report_on(old), report_on(file)
            unread = (Change("file", "", f"{item.path.name} cannot be read") for item in reports if not item.files)
            yield file.name, (*unread, *compare(*reports))
        finally:
            old.unlink(missing_ok=True)
    yield from ((link.name, (Change("tags", "a wheel of the release", ""),)) for link in left)
