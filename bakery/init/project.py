"""All findings of a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from bakery.init.bases import DEFAULT, BaseChoice, base_choice
from bakery.init.findings import Fact, Place
from bakery.init.modules import find_modules
from bakery.init.read_bake_file import BakeFile, read_bake_file
from bakery.init.read_cibuildwheel import Cibuildwheel, image_of, read_cibuildwheel
from bakery.init.read_cmake import read_cmake
from bakery.init.read_native import Cargo, NativeBuild, read_cargo, read_meson
from bakery.init.read_python import Metadata, is_project, read_metadata
from bakery.init.read_sources import Sources, read_sources
from bakery.init.release_tags import newest_release
from bakery.init.tree import Tree, scan


@dataclass(frozen=True)
class Project:
    """What the files of a project state.

    Attributes:
        folder: the folder of the project, relative to that of the recipe.
        label: the name of the folder, if nothing names the project.
        release: the newest release among the tags of the checkout; empty if there is none.
        base: the base of the recipe.
        notes: what the user should know, one sentence each.
    """

    base: BaseChoice
    folder: str
    label: str
    metadata: Metadata
    cmake: NativeBuild
    meson: NativeBuild
    cargo: Cargo | None
    sources: Sources
    modules: tuple[Fact, ...]
    release: str
    cibuildwheel: Cibuildwheel | None
    bake_file: BakeFile | None
    notes: tuple[str, ...]

    def language(self, *languages: str) -> Place | None:
        """Return the first place that shows one of the languages."""
        for name in languages:
            for found in (self.cmake.languages, self.meson.languages, self.sources.languages):
                if name in found:
                    return found[name]
        return None


def candidates(tree: Tree) -> tuple[str, ...]:
    """Return the folders, at most two levels deep, that pip would build; only ``""`` if that is the tree's own."""
    if is_project(tree):
        return ("",)
    names = sorted(
        folder
        for name in tree.own
        if (folder := name.rpartition("/")[0])
        and folder.count("/") < 2
        and name.endswith(("/pyproject.toml", "/setup.py"))
    )
    return tuple(folder for folder in dict.fromkeys(names) if is_project(tree, folder))


def below(tree: Tree, folder: str) -> Tree:
    """Return the part of a tree that is below a folder."""
    prefix = f"{folder}/"

    def inside(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name[len(prefix) :] for name in names if name.startswith(prefix))

    return replace(
        tree,
        root=tree.root / folder,
        files=frozenset(inside(tuple(tree.files))),
        own=inside(tree.own),
        folders=frozenset(inside(tuple(tree.folders))),
        targets={
            name[len(prefix) :]: target[len(prefix) :]
            for name, target in tree.targets.items()
            if name.startswith(prefix) and target.startswith(prefix)
        },
    )


def read_project(root: Tree, folder: str, base: BaseChoice | None = None, *, refused: str = "") -> Project:
    """Read the project in a folder of the tree; the bake file and .gitmodules are those of the tree's own folder.

    Args:
        base: the base of the recipe; None for the one that cibuildwheel's settings name, else the default.
        refused: why neither the image of cibuildwheel's settings nor the values of a bake file can be used.

    Raises:
        RecipeError: pyproject.toml is not TOML.
    """
    tree = below(root, folder) if folder else root
    metadata = read_metadata(tree)
    notes = [*tree.skipped, *metadata.notes, *_empty_submodules(root)]
    source_dir = metadata.pyproject.fact("tool", "scikit-build", "cmake", "source-dir")
    manifest = metadata.pyproject.fact("tool", "maturin", "manifest-path")
    cmake = read_cmake(tree, (source_dir.text.strip("./") if source_dir else ""))
    meson = read_meson(tree)
    cargo = read_cargo(tree, manifest.text.removeprefix("./") if manifest else None, notes)
    sources = read_sources(tree)
    if sources.is_partial:
        notes.append("there are many source files; only the first ones were read")
    named = image_of(metadata.pyproject)
    base = base or (base_choice(named) if named and not refused else DEFAULT)
    return Project(
        base=base,
        folder=folder or ".",
        label=Path(tree.root).resolve().name,
        metadata=metadata,
        cmake=cmake,
        meson=meson,
        cargo=cargo,
        sources=sources,
        modules=find_modules(tree, metadata, (*cmake.modules, *meson.modules), cargo),
        release=newest_release(root.root) if metadata.version_tool else "",
        cibuildwheel=read_cibuildwheel(metadata.pyproject, base, tree.files, refused),
        bake_file=read_bake_file(root, refused),
        notes=tuple(notes),
    )


def _empty_submodules(tree: Tree) -> list[str]:
    paths = re.findall(r"(?m)^[ \t]*path[ \t]*=[ \t]*([\w./-]{1,200})$", tree.text(".gitmodules") or "")
    empty = [path for path in paths[:200] if not any(name.startswith(f"{path}/") for name in tree.files)]
    return [f"the submodule {path} is empty; run: git submodule update --init --recursive" for path in empty[:5]]


def scan_folder(folder: Path) -> Tree:
    """List the files of the folder that gets the recipe.

    Raises:
        OutputError: the folder cannot be read.
    """
    return scan(folder.absolute())
