"""What is odd about the wheels of a run together: they differ in their platform tags, or are not the release of the git tag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.utils import parse_wheel_filename

from bakery.core.errors import OutputError
from bakery.plan.model import Plan
from bakery.runs.audited import report_on
from bakery.runs.release_tag import tag_warnings
from bakery.runs.run_report import TargetReport
from wheel_audit.systems import glibc_of
from wheel_audit.tags import PlatformTag, Release, parse_platform, release_text
from wheel_audit.text import printable


def run_warnings(root: Path, plan: Plan, rows: Sequence[TargetReport]) -> tuple[str, ...]:
    """Return the warnings about the wheels of a run, which was made in the project ``root``."""
    # The names of one build have the same platform tags.
    differences = tag_differences([(row.cell, item.path) for row in rows for item in row.wheels[:1]])
    return (*differences, *tag_warnings(root, plan, [item.path for row in rows for item in row.wheels]))


def tag_differences(wheels: Sequence[tuple[str, Path]]) -> tuple[str, ...]:
    """Return a warning for each newer floor among the wheels (cell, path) of a recipe, for the same C library and machine.

    Only wheels with a newer floor than another one are read, one for each floor.
    """
    families: dict[tuple[str, str], dict[Release, list[tuple[str, Path]]]] = {}
    for cell, path in wheels:
        if tag := _floor(path):
            floors = families.setdefault((tag.system, tag.arch), {})
            floors.setdefault(tag.libc or (), []).append((cell, path))
    return tuple(text for family, floors in families.items() for text in _differences(family, floors))


def _floor(path: Path) -> PlatformTag | None:
    """Return the oldest tag of a wheel; None for one without a C library."""
    tags = (parse_platform(tag.platform) for tag in parse_wheel_filename(path.name)[3])
    return min((tag for tag in tags if tag.libc), key=lambda tag: tag.libc or (), default=None)


def _differences(family: tuple[str, str], floors: dict[Release, list[tuple[str, Path]]]) -> Iterator[str]:
    lowest, *newer = sorted(floors)
    for floor in newer:
        tag, low = (f"{family[0]}_{'_'.join(map(str, item))}" for item in (floor, lowest))
        cells = ", ".join(cell for cell, _ in floors[floor])
        others = ", ".join(cell for cell, _ in floors[lowest])
        why = _cause(floors[floor][0][1], lowest)
        yield (
            f"the platform tags of the wheels differ: {tag} on {cells}, {low} on {others}"
            + (f": {why}" if why else "")
            + '; build all on one base, such as builder.base = "manylinux_2_28", or promise a tag with wheel.repair.plat'
        )


def _cause(path: Path, lowest: Release) -> str:
    """Return the symbol version that a system with the C library ``lowest`` lacks most, and the file that needs it."""
    try:
        objects = report_on(path).objects
    except OutputError:
        return ""
    needs: list[tuple[Release, str]] = []
    for item in objects:
        releases = (("GLIBC", item.glibc, item.glibc), ("GLIBCXX", item.glibcxx, glibc_of(item.glibcxx)))
        for name, release, libc in releases:
            if release and libc and libc > lowest:
                needs.append((libc, f"{name}_{release_text(release)} needed by {printable(item.path)}"))
    return max(needs, default=((), ""))[1]
