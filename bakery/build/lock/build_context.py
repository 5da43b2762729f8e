"""Writes a lock as a build context with a folder for each place, and as BuildKit's source policy."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from bakery.build.lock.materials import Materials, Packages
from bakery.core.image_names import full
from bakery.plan.model import Plan
from bakery.plan.values import Json
from bakery.toolchains.pip_steps import locked_places

CONTEXT = "lock"
"""The stage of the Dockerfile that the context replaces."""


def pinned(folder: Path, plan: Plan, locked: Materials, *, strict: bool) -> None:
    """Write a context with the locked packages of every place.

    ``strict`` refuses packages without a hash, such as those that build a source archive.
    """
    documents: dict[str, Json] = {
        place: {**_document(item, ()), "strict": strict} for place, item in locked.packages.items()
    }
    documents["suites"] = {"suites": dict(locked.suites)}
    _write(folder, plan, "locked.json", documents)


def recorded(folder: Path, plan: Plan, materials: Materials) -> None:
    """Write a context with the recorded packages of every place; pip must resolve to the same.

    The source archive is left out: the recipe names its release, and the index its hash.
    """
    documents: dict[str, Json] = {
        place: _document(item, ()) for place, item in materials.packages.items() if place in locked_places(plan.stages)
    }
    documents.pop("source", None)
    _write(folder, plan, "recorded.json", documents)


def preferred(folder: Path, plan: Plan, locked: Materials, without: Collection[str], stamp: str) -> None:
    """Write a context in which packages are resolved again, and locked ones are preferred if they fit.

    ``without``: distributions that are not preferred; ``stamp``: different for each run, so that the index is asked
    again.
    """
    none = Packages((), {})
    documents: dict[str, Json] = {
        place: {**_document(locked.packages.get(place, none), without), "asked": stamp}
        for place in locked_places(plan.stages)
    }
    _write(folder, plan, "preferred.json", documents)


def _document(item: Packages, without: Collection[str]) -> dict[str, Json]:
    packages: list[Json] = []
    for name, file in item.files.items():
        if file.name not in without:
            documents: dict[str, Json] = {"name": file.name, "version": file.version, "sha256": file.sha256}
            # A repository has no file.
            documents |= {"file": "" if name == file.origin else name}
            packages.append({**documents, "origin": file.origin} if file.origin else documents)
    return {"requirements": list(item.requirements), "packages": packages}


def _write(folder: Path, plan: Plan, name: str, documents: Mapping[str, Json]) -> None:
    for place in locked_places(plan.stages):
        # Like the stage, which is a whole file system.
        inside = folder / CONTEXT / place
        inside.mkdir(parents=True, exist_ok=True)
        if place in documents:
            text, path = json.dumps(documents[place], indent=1, sort_keys=True), inside / name
            # Another run may be sending the same file.
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")


def policy(images: Iterable[tuple[str, str]]) -> str:
    """Return BuildKit's source policy that allows only these images (name, digest)."""
    rules: list[Json] = [{"action": "DENY", "selector": {"identifier": "docker-image://*"}}]
    for name, digest in sorted(set(images)):
        identifier = f"docker-image://{full(name)}@{digest}"
        rules.append({"action": "ALLOW", "selector": {"identifier": identifier}})
    return json.dumps({"version": 1, "rules": rules}, indent=1)
