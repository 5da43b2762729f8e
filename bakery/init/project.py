"""All findings of a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bakery.core.git import git
from bakery.init.bases import DEFAULT, BaseChoice, base_choice
from bakery.init.findings import Fact, Place
from bakery.init.read_bake_file import BakeFile, read_bake_file
from bakery.init.read_cibuildwheel import Cibuildwheel, image_of, read_cibuildwheel
from bakery.init.read_native import Cargo, NativeBuild, Sources, read_cargo, read_cmake, read_meson, read_sources
from bakery.init.read_python import Metadata, is_project, read_metadata
from bakery.init.tree import Tree


@dataclass(frozen=True)
class Project:
    """What the files of a project state.

    Attributes:
        base: the base of the recipe.
        folder: the folder of the project, relative to that of the recipe.
        label: the name of the folder, if nothing names the project.
        modules: the module to import; empty if none is certain enough.
        release: the newest release among the tags of the checkout; empty if there is none.
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
        uses = (build.languages.get(name) for name in languages for build in (self.cmake, self.meson, self.sources))
        return next((place for place in uses if place), None)

    def rust(self) -> Place | None:
        """Return what shows that the build compiles Rust."""
        metadata = self.metadata
        by_setuptools = metadata.needs("setuptools-rust") or "RustExtension" in metadata.setup.extensions
        if not by_setuptools and metadata.backend.text != "maturin":
            return None
        return self.cargo.place if self.cargo else metadata.backend.place


def candidates(tree: Tree) -> tuple[str, ...]:
    """Return the folders, at most two levels deep, that pip would build; only ``""`` if that is the tree's own."""
    if is_project(tree):
        return ("",)
    folders = [name.rpartition("/")[0] for name in tree.named("pyproject.toml", "setup.py") if 0 < name.count("/") < 3]
    return tuple(folder for folder in sorted(set(folders)) if is_project(tree, folder))


def read_project(root: Tree, folder: str, base: BaseChoice | None = None, *, refused: str = "") -> Project:
    """Read the project in a folder of the tree; the bake file and .gitmodules are those of the tree's own folder.

    Args:
        base: the base of the recipe; None for the one that cibuildwheel's settings name, else the default.
        refused: why neither the image of cibuildwheel's settings nor the values of a bake file can be used.

    Raises:
        RecipeError: pyproject.toml is not TOML.
    """
    tree = root.below(folder) if folder else root
    metadata = read_metadata(tree)
    pyproject = metadata.pyproject
    notes = [*root.skipped, *metadata.notes, *_empty_submodules(root)]
    source_dir = pyproject.fact("tool", "scikit-build", "cmake", "source-dir")
    manifest = pyproject.fact("tool", "maturin", "manifest-path")
    cmake, meson = read_cmake(tree, source_dir.text.strip("./") if source_dir else ""), read_meson(tree)
    cargo = read_cargo(tree, manifest.text.removeprefix("./") if manifest else "", notes)
    sources = read_sources(tree)
    if sources.is_partial:
        notes.append("there are many source files; only the first ones were read")
    base = base or base_choice(("" if refused else image_of(pyproject)) or DEFAULT)
    return Project(
        base=base,
        folder=folder or ".",
        label=Path(tree.root).resolve().name,
        metadata=metadata,
        cmake=cmake,
        meson=meson,
        cargo=cargo,
        sources=sources,
        modules=_modules(tree, metadata, (*cmake.modules, *meson.modules), cargo),
        release=_release(root.root) if metadata.version_tool else "",
        cibuildwheel=read_cibuildwheel(pyproject, base, tree, refused),
        bake_file=read_bake_file(root, refused),
        notes=tuple(notes),
    )


def _empty_submodules(tree: Tree) -> list[str]:
    paths = re.findall(r"(?m)^[ \t]*path[ \t]*=[ \t]*([\w./-]{1,200})$", tree.text(".gitmodules") or "")
    empty = [path for path in paths[:200] if not any(name.startswith(f"{path}/") for name in tree.files)]
    return [f"the submodule {path} is empty; run: git submodule update --init --recursive" for path in empty[:5]]


def _release(folder: Path) -> str:
    """Return the release that the last tag names; empty if there is none."""
    tag = (git(folder, "describe", "--tags", "--abbrev=0") or "").strip()[:100]
    match = re.fullmatch(r"(?:.*[^0-9.])?(\d{1,6}(?:\.\d{1,6}){1,3})", tag)
    return match[1] if match else ""


_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\Z")


def _modules(tree: Tree, metadata: Metadata, native: tuple[Fact, ...], cargo: Cargo | None) -> tuple[Fact, ...]:
    """Return the module to import, with the file that shows it; empty if none is certain enough.

    Args:
        native: names of extension modules in the files of a build system.
    """
    name = re.sub(r"[-.]+", "_", metadata.name.text).lower() if metadata.name else ""
    dotted = metadata.name.text.lower().replace("-", "_").replace(".", "/") if metadata.name else ""
    library = cargo.library if cargo and metadata.backend.text == "maturin" else None
    rust = metadata.pyproject.fact("tool", "maturin", "module-name") or library
    built = _tops((*metadata.setup.names, *((rust,) if rust else ()), *native))
    only = re.compile(r"(?:src/|python/|lib/)?([A-Za-z_][A-Za-z0-9_]*)/__init__\.py")
    packages = [Fact(match[1], Place(path)) for path in tree.own if (match := only.fullmatch(path))]
    module = (
        _in_tree(tree, metadata, (name, dotted))
        or _single(_listed(metadata))
        or built.get(name)
        # `python-foo` and `pyfoo` often install `foo`.
        or _in_tree(tree, metadata, (re.sub(r"^(?:python_|py_?)|_python$", "", name),))
        or _single({fact.text: fact for fact in packages})
        or _single(built)
    )
    return (module,) if module and _MODULE.match(module.text) else ()


def _tops(facts: Iterable[Fact]) -> dict[str, Fact]:
    """Return the packages at the top that dotted names are in, each with its first fact."""
    tops: dict[str, Fact] = {}
    for fact in facts:
        top = fact.text.split(".")[0]
        if _MODULE.match(fact.text):
            tops.setdefault(top, Fact(top, fact.place))
    return tops


def _single(candidates: dict[str, Fact]) -> Fact | None:
    return next(iter(candidates.values())) if len(candidates) == 1 else None


def _listed(metadata: Metadata) -> dict[str, Fact]:
    """Return the packages at the top that the project lists."""
    pyproject, path = metadata.pyproject, ("tool", "setuptools")
    listed = (
        *pyproject.facts(*path, "packages"),
        *pyproject.facts(*path, "py-modules"),
        *(Fact(key, pyproject.place(*path, "package-dir")) for key in pyproject.table(*path, "package-dir")),
        *metadata.setup.keywords.get("packages", ()),
        *metadata.setup.keywords.get("py_modules", ()),
    )
    return {name: fact for name, fact in _tops(listed).items() if not name.startswith(("_", "test"))}


def _in_tree(tree: Tree, metadata: Metadata, wanted: tuple[str, ...]) -> Fact | None:
    """Return the first package or module in the tree with one of some names."""
    pyproject = metadata.pyproject
    named = (
        *pyproject.facts("tool", "maturin", "python-source"),
        *pyproject.facts("tool", "setuptools", "packages", "find", "where"),
        *pyproject.facts("tool", "setuptools", "package-dir", ""),
        *((metadata.setup.package_folder,) if metadata.setup.package_folder else ()),
    )
    packages = pyproject.facts("tool", "scikit-build", "wheel", "packages")
    texts = [fact.text.strip("./") for fact in named] + [fact.text.rpartition("/")[0].strip("./") for fact in packages]
    folders = dict.fromkeys((*(f"{text}/" for text in texts if text), "", "src/", "python/", "lib/"))
    files = {name.lower(): name for name in tree.own if name.endswith((".py", ".pyx", ".pyi")) and name.count("/") < 5}
    for module in filter(None, dict.fromkeys(wanted)):
        for folder in folders:
            for end in ("/__init__.py", ".py", ".pyx", "/__init__.pyi"):
                file = files.get(f"{folder.lower()}{module}{end}", "setup.py")
                if file not in ("setup.py", "conftest.py"):
                    return Fact(file[len(folder) :].removesuffix(end).replace("/", "."), Place(file))
    return None
