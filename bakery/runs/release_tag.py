"""Compares the version of wheels with the git tag of the commit that they are built from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from packaging.version import Version

from bakery.core.git import differing, top_of
from bakery.core.git_command import git
from bakery.core.release_tags import is_release, tag_prefix, tag_version
from bakery.plan.model import Plan
from wheel_audit.text import listed
from wheel_audit.wheel_names import parse_wheel_name, split_label


def tag_faults(plans: Sequence[Plan], wheels: Iterable[Path], tag: str) -> list[str]:
    """Return what is wrong with wheels whose release a tag names: one line for each version that is not the tag's."""
    faults: list[str] = []
    for (project, version), paths in _by_version(wheels).items():
        named = tag_version(tag, {name for plan in plans for name in _names(plan, project)})
        if named and is_release(version, named, any(naming.local for plan in plans for naming in plan.audit.namings)):
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
        own = any(naming.local for naming in plan.audit.namings)
        if named and not any(is_release(version, item, own) for item in named.values()) and _is_clean(source):
            warnings.append(
                f"{paths[0].name} has version {version}, but the commit has the tag {', '.join(named)}: "
                "`verify --tag` refuses to release it; set the project's version, or move the tag"
            )
    return tuple(warnings)


def _is_clean(folder: Path) -> bool:
    """Whether no tracked file of the checkout differs from the commit."""
    top = top_of(folder)
    changed = differing(top, "HEAD") if top else None
    tracked = git(top, "ls-files", "-z") if top and changed else ""
    return changed is not None and tracked is not None and changed.isdisjoint(tracked.split("\0"))


def _by_version(wheels: Iterable[Path]) -> Mapping[tuple[str, Version], list[Path]]:
    """Return project and version → the wheels that have them."""
    found: dict[tuple[str, Version], list[Path]] = {}
    for path in wheels:
        project, version, _, _ = parse_wheel_name(split_label(path.name)[0])
        found.setdefault((str(project), version), []).append(path)
    return found


def _names(plan: Plan, project: str) -> tuple[str, ...]:
    """Return what the tags of a project may begin with: its name, that of the recipe, its folder, and what ``ci.tags`` has."""
    folder = plan.source_context.folder.strip("./")
    prefixes = map(tag_prefix, plan.ci.tags) if plan.ci else ()
    return (project, plan.recipe, folder, PurePosixPath(folder).name, *prefixes)
