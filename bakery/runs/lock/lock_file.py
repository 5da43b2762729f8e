"""``bakery.lock`` ↔ the materials of each cell. The same cells give the same text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from bakery.core.errors import BakeError, LockError, RecipeError
from bakery.recipe import toml_file
from bakery.recipe.problems import Problem, recipe_error
from bakery.recipe.pydantic_errors import find_problems
from bakery.recipe.toml_positions import line_of
from bakery.runs.lock.model import VERSION, Lock, LockedFile, LockedPackages, LockedSystem, Materials, Packages, System

_Pairs: TypeAlias = tuple[tuple[str, str], ...]

_MAX_ENTRIES = 200_000
_HINT = "`wheel-bakery lock` writes a new one"


def read(path: Path, shown: str) -> Lock | None:
    """Return the lock in a file; None for no file. Messages name it ``shown``. Raises LockError if it is no lock."""
    if not path.exists():
        return None
    try:
        document = toml_file.read(path, shown, entries=_MAX_ENTRIES)
        problems = find_problems(Lock, document.data)
        if problems:
            raise recipe_error(
                shown, (Problem(item.path, item.what, "", line_of(document.lines, item.path)) for item in problems)
            )
    except RecipeError as error:
        raise LockError(error.message, details=error.details, hint=_HINT) from None
    lock = Lock.model_validate(document.data, by_alias=True, by_name=False)
    unknown = sorted({name for item in lock.packages for name in item.files if name not in lock.files})
    if unknown:
        raise LockError(f"{shown} has no entries for files that it names", details=unknown, hint=_HINT)
    return lock


def lines_of(path: Path, shown: str, files: Iterable[str]) -> dict[str, int]:
    """Return file → the line of its address in a lock."""
    lines = toml_file.read(path, shown).lines
    return {name: line_of(lines, ("files", name, "origin")) for name in files}


def cells(lock: Lock) -> dict[str, Materials]:
    """Return cell → its locked materials. Images, sources and suites are those of all cells."""
    shared = [*(item.cells for item in lock.packages), *(item.cells for item in lock.system)]
    ids = dict.fromkeys(cell for cell_ids in shared for cell in cell_ids)
    images = {(ref, str(platform)): digest for ref, by in lock.images.items() for platform, digest in by.items()}
    materials: dict[str, Materials] = {}
    for cell in ids:
        packages = {
            item.place: Packages(item.requirements, {name: lock.files[name] for name in item.files})
            for item in lock.packages
            if cell in item.cells
        }
        system = {item.image: System(item.packages, item.tools) for item in lock.system if cell in item.cells}
        materials[cell] = Materials(images, lock.sources, packages, system, lock.suites)
    return materials


def lock_of(recipe: str, materials: Mapping[str, Materials]) -> Lock:
    """Return the lock of a recipe. Raises BakeError if two files of one name differ."""
    images: dict[str, dict[str, str]] = {}
    files: dict[str, LockedFile] = {}
    packages: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    system: dict[tuple[str, _Pairs, _Pairs], list[str]] = {}
    for cell, item in materials.items():
        for (ref, platform), digest in item.images.items():
            images.setdefault(ref, {})[platform] = digest
        for place, installed in item.packages.items():
            for name, file in installed.files.items():
                if files.setdefault(name, file) != file:
                    raise BakeError(
                        f"the package index gave two files named {name}: sha256 {files[name].sha256} and {file.sha256}"
                    )
            packages.setdefault((place, installed.requirements, tuple(installed.files)), []).append(cell)
        for image, contents in item.system.items():
            system.setdefault((image, tuple(contents.packages.items()), tuple(contents.tools.items())), []).append(cell)
    return Lock.model_validate(
        {
            "version": VERSION,
            "recipe": recipe,
            "images": {ref: dict(sorted(by.items())) for ref, by in sorted(images.items())},
            "sources": _merged(item.sources for item in materials.values()),
            "suites": _merged(item.suites for item in materials.values()),
            "files": dict(sorted(files.items())),
            "packages": sorted(
                (
                    LockedPackages(place=place, cells=tuple(ids), requirements=words, files=names)
                    for (place, words, names), ids in packages.items()
                ),
                key=lambda item: (item.place, item.cells),
            ),
            "system": sorted(
                (
                    LockedSystem(image=image, cells=tuple(ids), packages=dict(versions), tools=dict(tools))
                    for (image, versions, tools), ids in system.items()
                ),
                key=lambda item: (item.image, item.cells),
            ),
        },
        by_name=True,
    )


def _merged(tables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return dict(sorted((key, value) for table in tables for key, value in table.items()))


def text(lock: Lock) -> str:
    """Return the file: sorted TOML with one value a line, so that a change of one thing changes its own lines."""
    import tomli_w

    head = f"# What the wheels of recipe {lock.recipe} are made of. Made by `wheel-bakery lock`: commit it, and do not edit it.\n"
    return head + tomli_w.dumps(lock.model_dump(mode="json", by_alias=True, exclude_defaults=True))
