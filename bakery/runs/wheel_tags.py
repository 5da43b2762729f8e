"""What is odd about the wheels of a run: they differ in their platform tags, or are not the release of the git tag."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from bakery.core.errors import OutputError
from bakery.core.git import differing, top_of
from bakery.core.git_command import git
from bakery.core.release_tags import is_release, tag_prefix, tag_version
from bakery.plan.model import Plan
from bakery.runs.run_report import TargetReport
from wheel_audit.systems import glibc_of
from wheel_audit.tags import Release, oldest_tags, parse_platform, release_text
from wheel_audit.text import listed, printable
from wheel_audit.wheel_names import parse_wheel_name, split_label


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
        for tag in oldest_tags(parse_platform(tag.platform) for tag in parse_wheel_filename(path.name)[3]):
            if tag.libc:
                floors = families.setdefault((tag.system, tag.arch), {})
                floors.setdefault(tag.libc, []).append((cell, path))
    return tuple(text for family, floors in families.items() for text in _differences(family, floors))


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
    from bakery.runs.audited import report_on  # slow to import, and seldom needed

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


def tag_faults(plans: Sequence[Plan], wheels: Iterable[Path], tag: str) -> list[str]:
    """Return what is wrong with wheels whose release a tag names: one line for each version that is not the tag's."""
    faults: list[str] = []
    for (project, version), paths in _by_version(wheels).items():
        named = tag_version(tag, {name for plan in plans for name in _names(plan, project)})
        if named and is_release(
            version, named, any(naming.local for plan in plans for audit in plan.audits for naming in audit.namings)
        ):
            continue
        says = f"says {named}" if named else f"names no version of {project}"
        faults.append(f"tag {tag} {says}, but the version is {version}: {listed((path.name for path in paths), 1)}")
    return faults


def tag_warnings(root: Path, plan: Plan, wheels: Sequence[Path]) -> tuple[str, ...]:
    """Return a warning for each version among wheels that none of the tags of the commit names.

    There is none without such a tag, and none if tracked files were changed: other versions are then expected.

    Args:
        root: the project; the wheels were just built from its source.
    """
    source = root / plan.source_context.folder
    tags = (git(source, "tag", "--points-at", "HEAD") or "").split() if plan.source_context.folder and wheels else []
    warnings: list[str] = []
    for (project, version), paths in _by_version(wheels).items() if tags else ():
        named = {tag: named for tag in tags if (named := tag_version(tag, _names(plan, project)))}
        own = any(naming.local for audit in plan.audits for naming in audit.namings)
        if named and not any(is_release(version, item, own) for item in named.values()) and _is_clean(source):
            warnings.append(
                f"{paths[0].name} has version {version}, but the commit has the tag {', '.join(named)}: "
                "`verify --tag` refuses to release it; set the project's version, or move the tag"
            )
    return tuple(warnings)


def _is_clean(folder: Path) -> bool:
    """Whether no tracked file of the checkout differs from the commit."""
    top = top_of(folder)
    return top is not None and differing(top, "HEAD", for_version=True) == set()


def _by_version(wheels: Iterable[Path]) -> Mapping[tuple[str, Version], list[Path]]:
    """Return project and version → the wheels that have them."""
    found: dict[tuple[str, Version], list[Path]] = {}
    for path in wheels:
        project, version, _, _ = parse_wheel_name(split_label(path.name)[0])
        found.setdefault((str(project), version), []).append(path)
    return found


def _names(plan: Plan, project: str) -> tuple[str, ...]:
    """Return what the tags of a project may begin with: its name, that of the recipe, its folder, and what ``ci.tags`` has."""
    folder = posixpath.join(plan.source_context.folder, plan.facts.subdirectory).strip("./")
    prefixes = map(tag_prefix, plan.ci.tags) if plan.ci else ()
    return (project, plan.recipe, folder, PurePosixPath(folder).name, *prefixes)
