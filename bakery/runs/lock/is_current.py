"""Whether a lock fits what a plan requires, and names only addresses that the recipe allows."""

from __future__ import annotations

import hashlib
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from bakery.core.addresses import without_credentials
from bakery.core.errors import LockError
from bakery.plan.cells import Cell
from bakery.plan.dockerfile import Add, Stage
from bakery.plan.model import Plan
from bakery.plan.values import literal
from bakery.runs.lock import lock_file
from bakery.runs.lock.differences import Requirements, project_requirements, requirements_of, stale
from bakery.runs.lock.model import Materials
from wheel_audit.text import first_lines


def foreign(locked: Mapping[str, Materials], required: Mapping[str, Mapping[str, Requirements]]) -> dict[str, str]:
    """Return file → why its address is not allowed; ``required``: cell → place → its requirements."""
    return {
        key: problem
        for cell, places in required.items()
        for place, packages in locked[cell].packages.items()
        for key, file in packages.files.items()
        if file.origin and (problem := _wrong(file.name, file.origin, places.get(place)))
    }


def _wrong(name: str, origin: str, required: Requirements | None) -> str:
    """Return why a distribution may not come from an address; empty if it may."""
    shown = without_credentials(origin)
    if required is None or name not in [str(canonicalize_name(item)) for item in required.direct]:
        return f"{name} comes from {shown}, and the recipe does not allow {name} to come from an address"
    # Markers may choose one of several addresses.
    named = list(_addresses(name, required.words))
    if not named or _location(origin) in map(_location, named):
        return ""
    return f"{name} comes from {shown}, and {' or '.join(map(without_credentials, named))} is required"


def _addresses(name: str, words: Iterable[str]) -> Iterator[str]:
    """Yield the addresses of a distribution in requirements."""
    for word in sorted(words):
        try:
            requirement = Requirement(word)
        except InvalidRequirement:
            continue  # An option of pip.
        if requirement.url and canonicalize_name(requirement.name) == name:
            yield requirement.url


def _location(address: str) -> tuple[str, ...]:
    """Return the parts of an address without commit and hash."""
    parts = urllib.parse.urlsplit(address)
    path = parts.path.rpartition("@")[0] or parts.path if parts.scheme.startswith("git+") else parts.path
    folder = dict(urllib.parse.parse_qsl(parts.fragment)).get("subdirectory", "")
    return parts.scheme, parts.netloc.rpartition("@")[2], path, parts.query, folder


UPDATE_HINT = (
    "run `wheel-bakery lock`: it keeps what still fits; `wheel-bakery lock --upgrade NAME` takes a newer one of NAME"
)
SHOWN = 40


def load_lock(
    root: Path, plan: Plan, cells: Sequence[Cell], say: Callable[[str], None], *, strict: bool
) -> dict[str, Materials]:
    """Return cell → its locked materials; empty if there is no lock, or an outdated one, which ``say`` reports.

    Raises LockError if the lock is damaged, or names addresses that are not allowed; and, if ``strict``, if it is
    missing or outdated.
    """
    lock = lock_file.read(root / plan.lock, plan.lock)
    if lock is None:
        if strict:
            raise LockError(f"--locked: there is no {plan.lock}", hint="create it with `wheel-bakery lock`")
        say(f"{plan.recipe}: no lock file (create {plan.lock} with `wheel-bakery lock`)")
        return {}
    locked = lock_file.cells(lock)
    check_origins(root, plan, cells, locked)
    files = project_requirements(root, plan)
    lines = stale(locked, {cell.id: requirements_of(plan, cell, files) for cell in cells})
    lines += sorted(
        {
            f"base image {image.ref} ({image.platform}) is not in it"
            for cell in cells
            for image in cell.images
            if (image.ref, image.platform) not in locked_images(locked)
        }
    )
    if not lines:
        return {cell.id: locked[cell.id] for cell in cells}
    if strict:
        raise LockError(f"{plan.lock} is out of date", details=first_lines(lines, SHOWN), hint=UPDATE_HINT)
    say(f"warning: {plan.recipe}: {plan.lock} is out of date, so this build is not locked:")
    for line in first_lines(lines, SHOWN):
        say(f"  {line}")
    return {}


def check_origins(
    root: Path, plan: Plan, cells: Sequence[Cell], locked: Mapping[str, Materials], *, lock: bool = True
) -> None:
    """Check that locked files come from the index, or from addresses that the recipe allows.

    ``lock``: ``locked`` comes from the plan's lock, else from a provenance. Raises LockError.
    """
    direct = {
        cell
        for cell, materials in locked.items()
        if any(file.origin for packages in materials.packages.values() for file in packages.files.values())
    }
    files = project_requirements(root, plan) if direct else {}
    problems = foreign(locked, {cell.id: requirements_of(plan, cell, files) for cell in cells if cell.id in direct})
    if problems:
        lines = lock_file.lines_of(root / plan.lock, plan.lock, problems) if lock else {}
        raise LockError(
            f"{plan.lock if lock else 'the provenance'} names addresses that are not allowed",
            details=[(f"{plan.lock}:{lines[name]}: " if lock else "") + text for name, text in problems.items()],
            hint="find out who changed it; `wheel-bakery lock --upgrade NAME` takes the package from the index again. "
            "To allow an address: builder.allow-direct",
        )


def with_lock(keys: Mapping[str, str], locked: Mapping[str, Materials]) -> dict[str, str]:
    """Return cell → a digest of its key and its locked materials."""
    texts = {cell: lock_file.text(lock_file.lock_of(cell, {cell: locked[cell]})) for cell in keys if cell in locked}
    digests = {cell: hashlib.sha256(f"{keys[cell]} {text}".encode()).hexdigest() for cell, text in texts.items()}
    return {**keys, **digests}


def with_sources(plan: Plan, locked: Mapping[str, Materials]) -> Plan:
    """Return the plan with locked commits instead of branches and tags."""
    commits = {address: commit for materials in locked.values() for address, commit in materials.sources.items()}

    def pinned(stage: Stage) -> Stage:
        return replace(
            stage, steps=tuple(_pinned(step, commits) if isinstance(step, Add) else step for step in stage.steps)
        )

    return replace(plan, stages=tuple(map(pinned, plan.stages))) if commits else plan


def _pinned(step: Add, commits: Mapping[str, str]) -> Add:
    text = "".join(part for part in step.source if isinstance(part, str))
    commit = commits.get(text)
    return replace(step, source=literal(f"{text.partition('#')[0]}#{commit}")) if commit else step


def locked_images(locked: Mapping[str, Materials]) -> Mapping[tuple[str, str], str]:
    """Return (name in the files, platform) → digest of the locked base images."""
    return next(iter(locked.values())).images if locked else {}
