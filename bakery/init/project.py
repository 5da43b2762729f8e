"""All findings of a folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bakery.core.git import top_of
from bakery.core.git_command import git
from bakery.core.release_tags import tag_version
from bakery.init.bases import DEFAULT, BaseChoice, base_choice
from bakery.init.findings import Fact, Place, distinct, matches, requirement_name
from bakery.init.modules import find_modules
from bakery.init.read_bake_file import BakeFile, read_bake_file
from bakery.init.read_cibuildwheel import Cibuildwheel, image_of, read_cibuildwheel
from bakery.init.read_native import Cargo, NativeBuild, Sources, read_cargo, read_cmake, read_meson, read_sources
from bakery.init.read_python import Metadata, is_project, read_metadata
from bakery.init.read_tests import Tests, read_tests
from bakery.init.read_workflows import Workflow, read_workflows
from bakery.init.tree import Tree
from bakery.resolve.rules import project as rules
from bakery.resolve.rules.build_files import read_build_files
from bakery.resolve.rules.source import read_beyond

_MOST_TAGS = 1000
_MOST_MODULES = 10_000


@dataclass(frozen=True)
class Project:
    """What the files of a project state.

    Attributes:
        base: the base of the recipe.
        folder: the folder of the project, relative to that of the recipe.
        above: why its build needs files above its folder; empty if it needs none.
        label: the name of the folder, if nothing names the project.
        known: what rules need to know of it.
        is_native: something in it is compiled, by what describes the build.
        built_libraries: shared objects in the tree.
        modules: the module to import; empty if none is certain enough.
        companions: distributions for torch that the module imports and that the project does not require.
        release: the newest release among the tags of the checkout; empty if there is none.
        is_checkout: a tool reads the version from git, and the folder is in a checkout.
        notes: what the user should know, one sentence each.
    """

    base: BaseChoice
    folder: str
    above: str
    label: str
    metadata: Metadata
    known: rules.Project
    cmake: NativeBuild
    meson: NativeBuild
    cargo: Cargo | None
    is_native: bool
    sources: Sources
    built_libraries: tuple[str, ...]
    modules: tuple[Fact, ...]
    companions: tuple[Fact, ...]
    release: str
    is_checkout: bool
    cibuildwheel: Cibuildwheel | None
    tests: Tests | None
    bake_file: BakeFile | None
    workflow: Workflow | None
    notes: tuple[str, ...]

    @property
    def axes(self) -> Mapping[str, tuple[tuple[str, ...], Place]]:
        """The values that a bake file has for ``python``, ``torch``, ``cuda``, ..., else those of a workflow's matrix."""
        found = (carried.axes for carried in (self.bake_file, self.workflow) if carried)
        return next((axes for axes in found if axes), {})

    @property
    def platforms(self) -> tuple[tuple[str, ...], Place] | None:
        """The platforms of a bake file, else of a workflow's matrix."""
        found = (carried.platforms for carried in (self.bake_file, self.workflow) if carried)
        return next((platforms for platforms in found if platforms), None)

    @property
    def is_compiled_later(self) -> bool:
        """No build compiles the project's sources: a package that compiles them when it runs has them as data."""
        by_files = self.cmake.file or self.meson.file or self.cargo or self.sources.built.languages.get("cython")
        setup, is_cuda = self.metadata.setup, "cuda" in self.sources.languages
        # A command of the project's own may compile C and C++; CUDA would need more.
        is_plain = self.metadata.backend.text == "setuptools" and "name" in setup.keywords and not self.is_native
        is_data = is_cuda or (is_plain and "cmdclass" not in setup.keywords)
        return bool(self.sources.languages and is_data and not setup.extensions and not by_files)

    @property
    def built(self) -> Sources:
        """What the source files state that the build compiles."""
        return Sources() if self.is_compiled_later else self.sources.built

    def language(self, *languages: str) -> Place | None:
        """Return the first place that shows one of the languages; for CUDA, one that the build compiles."""
        files = {name: self.built if name == "cuda" or self.is_compiled_later else self.sources for name in languages}
        if self.cmake.file or self.meson.file:
            # These compile no Fortran that they do not name: the files may be for users, or behind an option.
            files["fortran"] = Sources()
        uses = (build.languages.get(name) for name in languages for build in (self.cmake, self.meson, files[name]))
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
    """Read the project in a folder of the tree; the bake file, workflows and .gitmodules are those of the tree's own folder.

    Args:
        base: the base of the recipe; None for the one that cibuildwheel's settings name, else the default.
        refused: why neither the image of cibuildwheel's settings nor the values of a bake file or workflow can be used.

    Raises:
        RecipeError: pyproject.toml is not TOML.
    """
    tree = root.below(folder) if folder else root
    metadata = read_metadata(tree)
    pyproject = metadata.pyproject
    notes = [*root.skipped, *metadata.notes, *_empty_submodules(root)]
    source_dir = pyproject.fact("tool", "scikit-build", "cmake", "source-dir")
    meson = read_meson(tree)
    by_meson = bool(meson.file) and metadata.backend.text == "meson-python"
    by_meson = by_meson and not re.search(r"import\(\s*'cmake'", tree.text(meson.file) or "")
    cmake = NativeBuild() if by_meson else read_cmake(tree, source_dir.text.strip("./") if source_dir else "")
    cargo = read_cargo(tree, pyproject, notes)
    is_native = _is_native(metadata, cmake, meson, cargo)
    # A command of the project's own may compile files that no build file names.
    sources = read_sources(tree, is_native=is_native or "cmdclass" in metadata.setup.keywords, by_meson=by_meson)
    if sources.is_partial:
        notes.append("there are many source files; only the first ones were read")
    base = base or base_choice(("" if refused else image_of(pyproject)) or DEFAULT)
    workflow = read_workflows(root, refused)
    modules = find_modules(tree, metadata, (*cmake.modules, *meson.modules), cargo, meson.installed)
    return Project(
        base=base,
        folder=folder or ".",
        above=_above(root, folder) if folder else "",
        label=Path(tree.root).resolve().name,
        metadata=metadata,
        known=_known(tree),
        cmake=cmake,
        meson=meson,
        cargo=cargo,
        is_native=is_native,
        sources=sources,
        built_libraries=tuple(name for name in tree.own if re.search(r"\.so(?:\.\d+)*$", name)),
        modules=modules,
        is_checkout=metadata.version_tool is not None and top_of(root.root) is not None,
        companions=_companions(tree, metadata, modules[0].text if modules else ""),
        release=_release(root.root, metadata.name.text if metadata.name else "") if metadata.version_tool else "",
        cibuildwheel=read_cibuildwheel(pyproject, base, tree, refused, workflow),
        tests=read_tests(tree, metadata, modules[0].text if modules else ""),
        bake_file=read_bake_file(root, refused),
        workflow=workflow,
        notes=tuple(notes),
    )


def _known(tree: Tree) -> rules.Project:
    files = read_build_files(lambda name: tree.text(name) or "")
    return rules.Project(
        build_files=files,
        missing_sources=tuple(rules.missing_sources(files, tree.files.__contains__)),
        has_cuda_files=any(name.endswith(".cu") for name in tree.files),
    )


_IMPORT = re.compile(r"(?m)^(?:from|import)[ \t]+([\w.]+)(?:[ \t]+import[ \t]+(?:\(([^()]*)|([\w, \t]*)))?")
_COMPANION = re.compile(r"torch_\w+|torchvision|torchaudio")


def _companions(tree: Tree, metadata: Metadata, module: str) -> tuple[Fact, ...]:
    """Return the modules such as `torch_scatter` that the import of a module needs, and that are no requirement."""
    listed = (*metadata.dependencies, *metadata.setup.keywords.get("packages", ()))
    required = {requirement_name(fact.text) for fact in listed} | {requirement_name(module)}
    files = {
        name.rpartition("/")[2][:-3]: name
        for name in tree.own[:_MOST_MODULES]
        if module and re.fullmatch(rf"(?:src/)?{re.escape(module)}/\w+\.py", name)
    }
    found: list[Fact] = []
    waiting = ["__init__"]
    while waiting:
        if name := files.pop(waiting.pop(), ""):
            for match, line in matches(_IMPORT, re.sub(r"#.*", "", tree.text(name) or "")):
                own = match[1].removeprefix(f"{module}.")
                if own != match[1] or own.startswith("."):
                    # Of a package, `from .add import add` and `from . import add` import the file add.py.
                    waiting += [own.strip("."), *re.findall(r"\w+", match[2] or match[3] or "")]
                elif _COMPANION.fullmatch(own.partition(".")[0]):
                    found.append(Fact(own.partition(".")[0], Place(name, line)))
    is_there = {folder.rpartition("/")[2] for folder in tree.folders}
    return distinct(item for item in found if requirement_name(item.text) not in required and item.text not in is_there)


def _above(root: Tree, folder: str) -> str:
    names = (name for name in sorted(root.files) if name.startswith(f"{folder}/"))
    found = (f"{place} needs {path}" for place, path in read_beyond(root.root, folder, names) if path[:3] != "../")
    return next(found, "")


def _is_native(metadata: Metadata, cmake: NativeBuild, meson: NativeBuild, cargo: Cargo | None) -> bool:
    setup, modules = metadata.setup, metadata.pyproject.get("tool", "setuptools", "ext-modules")
    return bool(cmake.file or meson.file or cargo or setup.extensions or "ext_modules" in setup.keywords or modules)


def _empty_submodules(tree: Tree) -> list[str]:
    paths = re.findall(r"(?m)^[ \t]*path[ \t]*=[ \t]*([\w./-]{1,200})$", tree.text(".gitmodules") or "")
    empty = [path for path in paths[:200] if not any(name.startswith(f"{path}/") for name in tree.files)]
    return [f"the submodule {path} is empty; run: git submodule update --init --recursive" for path in empty[:5]]


def _release(folder: Path, name: str) -> str:
    """Return the release that the newest tag of the project names, of those that lead to the commit; empty if there is none."""
    words = (
        "for-each-ref",
        "--merged=HEAD",
        "--sort=-creatordate",
        f"--count={_MOST_TAGS}",
        "--format=%(refname:short)",
    )
    tags = (git(folder, *words, "refs/tags") or "").split()
    return next((str(version) for tag in tags if (version := tag_version(tag, [name]))), "")
