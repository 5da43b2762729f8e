"""meson.build and Cargo.toml, and what all build files state: languages, libraries and what else a build needs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bakery.core.errors import BakeryError
from bakery.init.findings import Fact, Lines, Place
from bakery.init.toml_data import TomlData, read_toml
from bakery.init.tree import Tree

MOST_FILES = 200
"""Build files of one kind that are read."""


@dataclass
class NativeBuild:
    """What the build files of one build system state.

    Attributes:
        file: its main file; empty if there is none.
        minimum: the lowest version of the build system.
        languages: language in lower case → its place.
        packages: CMake packages and modules of pkg-config that the build requires → their places.
        cuda_libraries: ``cublas`` for the CMake target ``CUDA::cublas`` → its place.
        downloads: a command that downloads sources.
        pkg_config: the first use of pkg-config.
        modules: names of extension modules.
        abi3: the lowest Python of the stable ABI.
    """

    file: str = ""
    minimum: Fact | None = None
    languages: dict[str, Place] = field(default_factory=dict)
    packages: dict[str, Place] = field(default_factory=dict)
    cuda_libraries: dict[str, Place] = field(default_factory=dict)
    downloads: Fact | None = None
    pkg_config: Place | None = None
    modules: list[Fact] = field(default_factory=list)
    abi3: Fact | None = None


COMMENT = re.compile(r"(?m)#[^\n]*$")
_MESON_CALL = re.compile(r"\b(project|add_languages|dependency|extension_module)[ \t]*\(([^()]{0,2000})")
_MESON_TEXT = re.compile(r"'([^'\n]{0,200})'")
_MESON_VERSION = re.compile(r"meson_version\s*:\s*'>=\s*(\d+\.\d+(?:\.\d+)?)")
_MESON_LIMITED = re.compile(r"limited_api\s*:\s*'(3\.\d{1,2})'")
_MESON_OPTIONAL = re.compile(r"required\s*:\s*(?!true)|fallback\s*:|native\s*:\s*true")


_WITHOUT_PKG_CONFIG = frozenset(("numpy", "pybind11", "python", "python3", "threads", "openmp", "dl"))


def read_meson(tree: Tree) -> NativeBuild:
    """Read the meson.build files of the tree."""
    build = NativeBuild(file="meson.build" if "meson.build" in tree.files else "")
    names = sorted(
        (name for name in tree.own if name.rsplit("/", 1)[-1] == "meson.build"), key=lambda name: name.count("/")
    )
    for name in names[:MOST_FILES] if build.file else ():
        text = COMMENT.sub("", tree.text(name) or "")
        lines = Lines(text)
        for match in _MESON_CALL.finditer(text):
            _meson_call(build, match[1], match[2], Place(name, lines.at(match.start())))
    wraps = [name for name in tree.files if name.startswith("subprojects/") and name.endswith(".wrap")]
    for name in sorted(wraps):
        # A subproject that is there is not downloaded.
        if name.count("/") == 1 and name.removesuffix(".wrap") not in tree.folders and build.file:
            stem = name.removeprefix("subprojects/").removesuffix(".wrap")
            if not any(folder.startswith(f"subprojects/{stem}") for folder in tree.folders):
                build.downloads = build.downloads or Fact(stem, Place(name))
    return build


def _meson_call(build: NativeBuild, call: str, text: str, place: Place) -> None:
    texts = _MESON_TEXT.findall(text)
    if call == "project":
        version = _MESON_VERSION.search(text)
        build.minimum = build.minimum or (Fact(version[1], place) if version else None)
    if call in ("project", "add_languages"):
        for word in texts[1:] if call == "project" else texts:
            if word in ("c", "cpp", "cuda", "fortran", "cython", "rust"):
                build.languages.setdefault("cxx" if word == "cpp" else word, place)
    elif call == "dependency" and texts:
        if texts[0].lower() not in _WITHOUT_PKG_CONFIG:
            build.pkg_config = build.pkg_config or place
        if not _MESON_OPTIONAL.search(text):
            build.packages.setdefault(texts[0], place)
    elif call == "extension_module" and texts:
        build.modules.append(Fact(texts[0], place))
        limited = _MESON_LIMITED.search(text)
        build.abi3 = build.abi3 or (Fact(limited[1], place) if limited else None)


@dataclass(frozen=True)
class Cargo:
    """What a Cargo.toml states.

    Attributes:
        library: the name of the module that it builds.
        rust: the lowest Rust.
        abi3: the lowest Python of the stable ABI.
        vendored: its crates are in the tree.
        locked: a Cargo.lock names its crates.
        crates: the crates it depends on that link with a library of the system.
    """

    place: Place
    library: Fact | None
    rust: Fact | None
    abi3: Fact | None
    vendored: bool
    locked: bool
    crates: dict[str, Place]


_ABI3 = re.compile(r"abi3-py3(\d{1,2})")
_CRATES = ("openssl", "openssl-sys")
_PYTHON_CRATES = ("pyo3", "rust-cpython", "cpython", "pyo3-ffi")


def read_cargo(tree: Tree, manifest: str | None, notes: list[str]) -> Cargo | None:
    """Read a Cargo.toml: the one that is named, else that of the folder, else the first with a crate for Python."""
    names = [name for name in tree.own if name.rsplit("/", 1)[-1] == "Cargo.toml"]
    ordered = sorted(names, key=lambda name: (name != manifest, name.count("/"), name))
    read: list[TomlData] = []
    for name in ordered[:MOST_FILES]:
        try:
            data = read_toml(tree, name)
        except BakeryError as error:
            notes.append(f"{name} cannot be read: {error.message}")
            continue
        if data is not None:
            read.append(data)
    if not read:
        return None
    data = next((item for item in read if item.file == manifest or _crate(item) is not None), read[0])
    locked = tree.text("Cargo.lock") or ""
    paths = (("package", "rust-version"), ("workspace", "package", "rust-version"))
    rust = next((fact for item in (data, *read) for path in paths if (fact := item.fact(*path))), None)
    if re.search(r"(?m)^version = 4$", locked[:2000]) and rust is None:
        rust = Fact("1.78", Place("Cargo.lock"))
    vendored = any(name.endswith("/.cargo-checksum.json") for name in tree.files)
    return Cargo(
        Place(data.file),
        data.fact("lib", "name"),
        rust,
        next((abi3 for item in read if (abi3 := _crate_abi3(item))), None),
        vendored,
        any(name.rsplit("/", 1)[-1] == "Cargo.lock" for name in tree.own),
        {
            name: item.place("dependencies", name)
            for item in read
            for name in _CRATES
            if name in item.table("dependencies")
        },
    )


def _crate(data: TomlData) -> tuple[str, ...] | None:
    """Return the path of the dependency on a crate for Python; None if there is none."""
    tables = (("dependencies",), ("workspace", "dependencies"))
    return next(
        ((*table, name) for table in tables for name in _PYTHON_CRATES if data.get(*table, name) is not None), None
    )


def _crate_abi3(data: TomlData) -> Fact | None:
    path = _crate(data)
    features = [*(data.facts(*path, "features") if path else ()), *_features(data)]
    return next((Fact(f"3.{match[1]}", item.place) for item in features if (match := _ABI3.search(item.text))), None)


def _features(data: TomlData) -> list[Fact]:
    """Return what the default features turn on."""
    return list(data.facts("features", "default"))
