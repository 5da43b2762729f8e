"""Pins a build to its lock: images by digest, packages by hash, branches and tags by commit.

The packages are in a build context with a folder for each place; BuildKit's source policy has the images.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bakery.core.errors import LockError, OutputError
from bakery.core.file_locks import locked_folder
from bakery.core.files import write
from bakery.core.image_names import familiar, full
from bakery.core.inside import remove_tree
from bakery.engine import image_digests
from bakery.engine.oci_layouts import Layout, Layouts
from bakery.plan.cells import Cell, Image, Target
from bakery.plan.model import Plan
from bakery.plan.values import Json
from bakery.runs.bake_session import BakeSession, Pins
from bakery.runs.lock import lock_file
from bakery.runs.lock.is_current import locked_images
from bakery.runs.lock.model import Materials, Packages
from bakery.toolchains.pip_steps import locked_places

CONTEXT = "lock"
"""The stage of the Dockerfile that the context replaces."""


def write_pinned(folder: Path, plan: Plan, locked: Materials, *, strict: bool) -> None:
    """Write a context with the locked packages of every place.

    ``strict`` refuses packages without a hash, such as those that build a source archive.
    """
    documents: dict[str, Json] = {
        place: {**_document(item, ()), "strict": strict} for place, item in locked.packages.items()
    }
    documents["suites"] = {"suites": dict(locked.suites)}
    _write_documents(folder, plan, "locked.json", documents)


def write_recorded(folder: Path, plan: Plan, materials: Materials) -> None:
    """Write a context with the recorded packages of every place; pip must resolve to the same.

    The source archive is left out: the recipe names its release, and the index its hash.
    """
    documents: dict[str, Json] = {
        place: _document(item, ()) for place, item in materials.packages.items() if place in locked_places(plan.stages)
    }
    documents.pop("source", None)
    _write_documents(folder, plan, "recorded.json", documents)


def write_preferred(folder: Path, plan: Plan, locked: Materials, without: Collection[str], stamp: str) -> None:
    """Write a context in which packages are resolved again, and locked ones are preferred if they fit.

    ``without``: distributions that are not preferred; ``stamp``: different for each run, so that the index is asked
    again.
    """
    documents: dict[str, Json] = {
        place: {**_document(locked.packages.get(place, Packages()), without), "asked": stamp}
        for place in locked_places(plan.stages)
    }
    _write_documents(folder, plan, "preferred.json", documents)


def _document(item: Packages, without: Collection[str]) -> dict[str, Json]:
    packages: list[Json] = []
    for name, file in item.files.items():
        if file.name not in without:
            documents: dict[str, Json] = {"name": file.name, "version": file.version, "sha256": file.sha256}
            # A repository has no file.
            documents |= {"file": "" if name == file.origin else name}
            packages.append({**documents, "origin": file.origin} if file.origin else documents)
    return {"requirements": list(item.requirements), "packages": packages}


def _write_documents(folder: Path, plan: Plan, name: str, documents: Mapping[str, Json]) -> None:
    for place in locked_places(plan.stages):
        # Like the stage, which is a whole file system.
        inside = folder / CONTEXT / place
        inside.mkdir(parents=True, exist_ok=True)
        if place in documents:
            text, path = json.dumps(documents[place], indent=1, sort_keys=True), inside / name
            # Another run may be sending the same file.
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")


def source_policy(images: Iterable[tuple[str, str]]) -> str:
    """Return BuildKit's source policy that allows only these images (name, digest)."""
    rules: list[Json] = [{"action": "DENY", "selector": {"identifier": "docker-image://*"}}]
    for name, digest in sorted(set(images)):
        identifier = f"docker-image://{full(name)}@{digest}"
        rules.append({"action": "ALLOW", "selector": {"identifier": identifier}})
    return json.dumps({"version": 1, "rules": rules}, indent=1)


_MAX_LOCK_CONTEXTS = 3


def check_images(session: BakeSession, locked: Mapping[str, Materials], cells: Iterable[Cell]) -> None:
    """Check that the locked base images are available. Raises LockError if one is not."""
    images = dict.fromkeys(image for cell in cells for image in cell.images)
    problems = []
    for image in images:
        digest = locked_images(locked)[image.ref, image.platform]
        here = replacement(session, image, digest)
        if here is not None:
            what = f"here it is {here}" if here else "it is not available here"
            problems.append(f"base image {image.ref} ({image.platform}): {digest} is locked, and {what}")
    if problems:
        raise LockError(
            f"{session.plan.lock} names base images that are not available",
            details=problems,
            hint="load or pull the locked one, or take the one that is here: `wheel-bakery lock --upgrade IMAGE`",
        )


def pin_recorded_images(
    session: BakeSession,
    locked: Mapping[str, Materials],
    cells: Iterable[Cell],
    images: Mapping[str, str],
    say: Callable[[str], None],
) -> dict[str, Materials]:
    """Return recorded materials with the digests of available base images.

    ``images``: name → recorded digest; ``say`` shows each image that has another digest here.
    """
    digests: dict[tuple[str, str], str] = {}
    for image in dict.fromkeys(image for cell in cells for image in cell.images):
        digest = images.get(familiar(session.image_name(image)), "")
        here = replacement(session, image, digest)
        if here is not None and digest:
            say(
                f"base image {image.ref} ({image.platform}): {digest} was used, and here it is {here or 'not available'}"
            )
        if used := digest if here is None else here:
            digests[image.ref, image.platform] = used
    return {cell: replace(materials, images=digests) for cell, materials in locked.items()}


def replacement(session: BakeSession, image: Image, digest: str) -> str | None:
    """Return None if an image is available by its digest; else the digest of its name here."""
    name, platform = session.image_name(image).partition("@")[0], image.platform
    present = image_digests.present(session.environment, name, platform)
    if digest and (digest == present or image_digests.offered(session.environment, f"{name}@{digest}") == digest):
        return None
    return present or image_digests.offered(session.environment, name)


def lock_contexts(plan: Plan, target: Target, folder: Path) -> tuple[str, ...]:
    """Return the values of ``--set`` that give a target the folder of its cell as the locked packages."""
    return tuple(f"{target.name}.contexts.{name}={folder / target.cell.id}" for name in plan.names_of(CONTEXT))


def pins_of(session: BakeSession, targets: Sequence[Target], locked: Mapping[str, Materials], *, strict: bool) -> Pins:
    """Return the inputs that a build of targets must use; without a lock, only replaced base images."""
    if not locked:
        return Pins({target.name: image_overrides(session, target, {}) for target in targets})
    if folder := session.record_folder:
        for cell, materials in locked.items():
            write_recorded(folder / cell, session.plan, materials)
    else:
        folder = _contexts(session, locked, strict=strict)
    overrides = {
        target.name: (
            *image_overrides(session, target, locked_images(locked)),
            *lock_contexts(session.plan, target, folder),
        )
        for target in targets
    }
    named = {
        (session.image_name(image).partition("@")[0], digest)
        for target in targets
        for image in target.images
        if (digest := locked_images(locked).get((image.ref, image.platform)))
    }
    policy = source_policy(named)
    # Parallel runs with one lock may bake different targets.
    name = f"policy-{hashlib.sha256(policy.encode()).hexdigest()[:16]}.json"
    write(folder, {name: policy})
    environment = {"EXPERIMENTAL_BUILDKIT_SOURCE_POLICY": str(folder / name)}
    return Pins(overrides, environment, reads=(folder,), locked=True)


def image_overrides(session: BakeSession, target: Target, pinned: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    """Return the overrides for a target's base images: replaced names, and pinned digests."""
    overrides = []
    for image in target.images:
        name, digest = session.image_name(image), pinned.get((image.ref, image.platform), "")
        name += f"@{digest}" if digest and "@" not in name else ""
        if name != image.ref:
            overrides.append(f"{target.name}.contexts.{context_of(image, target)}=docker-image://{name}")
    return tuple(overrides)


def context_of(image: Image, target: Target) -> str:
    """Return the named context of a target's base image.

    If the target uses several platforms of it, one of them (BuildKit's frontend/dockerui/context.go:
    ``NAME::PLATFORM``).
    """
    several = len({other.platform for other in target.images if other.ref == image.ref}) > 1
    return f"{image.ref}::{image.platform}" if several else image.ref


def _contexts(session: BakeSession, locked: Mapping[str, Materials], *, strict: bool) -> Path:
    """Write the contexts of all cells; return their folder, the same for the same lock. Raises OutputError."""
    text = lock_file.text(lock_file.lock_of(session.plan.recipe, locked))
    digest = hashlib.sha256(f"{strict} {locked_places(session.plan.stages)} {text}".encode()).hexdigest()[:16]
    folder = session.state_folder / "lock" / digest
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_folder(folder.parent):
            for cell, materials in locked.items():
                write_pinned(folder / cell, session.plan, materials, strict=strict)
            os.utime(folder)
            others = sorted(
                (path for path in folder.parent.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime
            )
            for path in others[:-_MAX_LOCK_CONTEXTS]:
                remove_tree(path)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
    return folder


@dataclass(frozen=True, slots=True)
class NodeImages:
    """The base images that only this machine's engine has; they are sent to nodes."""

    session: BakeSession
    layouts: Layouts

    def of(self, cell: Cell) -> dict[Image, Layout]:
        """Return those of a cell."""
        layouts = {image: self.layouts.of(self.session.image_name(image), image.platform) for image in cell.images}
        return {image: layout for image, layout in layouts.items() if layout}

    def added(self, pins: Pins, targets: Iterable[Target]) -> Pins:
        """Return pins with these images, for targets that a node builds."""
        overrides = dict(pins.overrides)
        for target in targets:
            sets = (
                f"{target.name}.contexts.{context_of(image, target)}={layout.context}"
                for image, layout in self.of(target.cell).items()
                if image in target.images
            )
            overrides[target.name] = (*overrides.get(target.name, ()), *sets)
        return replace(pins, overrides=overrides, reads=(*pins.reads, self.layouts.folder))
