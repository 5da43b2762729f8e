"""``bakery.lock`` ↔ the materials of each cell. The same cells give the same text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
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
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
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
    """Return file → its line in a lock."""
    lines = toml_file.read(path, shown).lines
    return {name: line_of(lines, ("files", name)) for name in files}


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
    """Return the file: sorted TOML with one item a line, so that each change changes one line."""
    return "\n".join(_lines(lock)) + "\n"


def _lines(lock: Lock) -> Iterator[str]:
    yield f"# What the wheels of recipe {lock.recipe} are made of. Made by `wheel-bakery lock`: commit it, and do not edit it."
    yield f"version = {lock.version}"
    yield f"recipe = {_quoted(lock.recipe)}"
    if lock.images:
        yield from ("", "[images]")
        for ref, by in lock.images.items():
            yield f"{_key(ref)} = {{ {', '.join(f'{_key(key)} = {_quoted(value)}' for key, value in by.items())} }}"
    for title, table in (("sources", lock.sources), ("suites", lock.suites)):
        if table:
            yield from ("", f"[{title}]", *(f"{_key(key)} = {_quoted(value)}" for key, value in table.items()))
    if lock.files:
        yield from ("", "[files]")
        for name, file in lock.files.items():
            fields = {"name": file.name, "version": file.version, "sha256": file.sha256, "origin": file.origin}
            yield f"{_key(name)} = {{ {', '.join(f'{key} = {_quoted(value)}' for key, value in fields.items() if value)} }}"
    for item in lock.packages:
        yield from ("", "[[packages]]", f"place = {_quoted(item.place)}")
        for key, values in (("cells", item.cells), ("requirements", item.requirements), ("files", item.files)):
            yield from _list(key, values)
    for image in lock.system:
        yield from ("", "[[system]]", f"image = {_quoted(image.image)}", *_list("cells", image.cells))
        for key, named in (("tools", image.tools), ("packages", image.packages)):
            yield from (f"[system.{key}]", *(f"{_key(name)} = {_quoted(value)}" for name, value in named.items()))


def _list(key: str, values: Iterable[str]) -> Iterator[str]:
    items = [f"    {_quoted(value)}," for value in values]
    yield from (f"{key} = [", *items, "]") if items else (f"{key} = []",)


def _key(text: str) -> str:
    return text if _BARE.match(text) else _quoted(text)


def _quoted(text: str) -> str:
    # JSON has the escapes of TOML, except for this character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
