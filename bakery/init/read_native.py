"""CMake, Meson and Cargo files, and sources: languages, libraries and what else a build needs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bakery.core.errors import BakeryError
from bakery.init.built_files import HEADER, built_files
from bakery.init.conditions import CUDA_OPTION, Conditions
from bakery.init.findings import Fact, Place, Toml, matches, read_toml, texts
from bakery.init.read_setup_py import torch_release
from bakery.init.tree import TABLES, Tree

MOST_SOURCES = 6_000
"""Source files that are read."""

_MOST_HEADERS = 20_000
"""Different headers that are remembered."""

_DEEPEST = 10
"""Headers between a source and what it includes."""

_START = 8 * 1024
"""Bytes of a source file that are read: includes are at its start."""


@dataclass
class NativeBuild:
    """What the build files of one build system state.

    Attributes:
        file: its main file; empty if there is none.
        minimum: the lowest version of the build system.
        languages: language → its place.
        packages: CMake packages and modules of pkg-config that the build requires → their places.
        cuda_libraries: ``cublas`` for the CMake target ``CUDA::cublas`` → its place.
        static_cuda: a static library of CUDA, as a target of CMake.
        cuda_option: the option that compiles for CUDA, if it is off.
        downloads: what the build downloads.
        pkg_config: the first use of pkg-config.
        modules: names of extension modules.
        installed: packages that Meson installs in a folder of another name than that of their sources.
        abi3: the lowest Python of the stable ABI.
        torch_abi: the torch release whose stable ABI some code uses.
        rpath: the first CMake file that says something of INSTALL_RPATH.
    """

    file: str = ""
    minimum: Fact | None = None
    languages: dict[str, Place] = field(default_factory=dict)
    packages: dict[str, Place] = field(default_factory=dict)
    cuda_libraries: dict[str, Place] = field(default_factory=dict)
    static_cuda: Fact | None = None
    cuda_option: Fact | None = None
    downloads: Fact | None = None
    pkg_config: Place | None = None
    modules: list[Fact] = field(default_factory=list)
    installed: list[Fact] = field(default_factory=list)
    abi3: Fact | None = None
    torch_abi: Fact | None = None
    rpath: Place | None = None


_CMAKE_CALL = re.compile(
    r"\b(cmake_minimum_required|add_subdirectory|include|option|project|enable_language|find_package|pkg_check_modules|pkg_search_module"
    r"|FetchContent_Declare|CPMAddPackage|ExternalProject_Add|pybind11_add_module|nanobind_add_module|file"
    r"|python_add_library|target_link_libraries|(?:target|add)_compile_(?:definitions|options)|add_definitions)[ \t]*\(([^()]{0,2000})",
    re.IGNORECASE,
)

_FETCHES = ("fetchcontent_declare", "cpmaddpackage", "externalproject_add")


def read_cmake(tree: Tree, folder: str = "") -> NativeBuild:
    """Read the CMake files of the tree, also those of vendored folders that they add; ``folder`` has the main one."""
    main = f"{folder}/CMakeLists.txt" if folder else "CMakeLists.txt"
    build = NativeBuild(file=main if main in tree.files else "")
    vendored = NativeBuild()
    names = [name for name in tree.own if name.endswith(("CMakeLists.txt", ".cmake")) and name != main]
    names = [*([main] if build.file else []), *names]
    own, conditions = set(names), Conditions(tree)
    # The list grows while it is read.
    for name, text in texts(tree, names):
        if "INSTALL_RPATH" in text and name in own:
            build.rpath = build.rpath or Place(name)
        for match, line in matches(_CMAKE_CALL, conditions.reached(name, text)):
            command = match[1].lower()
            if command in ("add_subdirectory", "include"):
                names += [item for item in _added(name, match[2]) if item in tree.files and item not in names]
            else:
                _cmake_call(build if name in own else vendored, command, match[2], Place(name, line))
    if vendored.cuda_option:
        # Nobody sets the option of a vendored library unasked.
        vendored.languages.pop("cuda", None)
    build.cuda_option = build.cuda_option or vendored.cuda_option
    build.downloads = build.downloads or vendored.downloads
    build.languages |= {key: place for key, place in vendored.languages.items() if key not in build.languages}
    build.cuda_libraries |= {
        key: place for key, place in vendored.cuda_libraries.items() if key not in build.cuda_libraries
    }
    return build


def _added(name: str, text: str) -> Iterator[str]:
    """Yield the files that ``add_subdirectory`` or ``include`` of a CMake file may stand for."""
    word = re.sub(r"^\$\{\w+_DIR\}/", "", (text.split() or [""])[0].strip('"'))
    folder = name.rpartition("/")[0]
    for path in (f"{word}/CMakeLists.txt", word, f"{word}.cmake", f"cmake/{word}.cmake"):
        yield posixpath.normpath(posixpath.join(folder, path))


def _cmake_call(build: NativeBuild, command: str, text: str, place: Place) -> None:
    words = text.split()
    build.torch_abi = build.torch_abi or torch_release(text, place)
    if command == "cmake_minimum_required":
        version = re.search(r"VERSION\s+(\d+\.\d+(?:\.\d+)?)", text, re.IGNORECASE)
        if version and place.file == build.file and build.minimum is None:
            build.minimum = Fact(version[1], place)
    elif command == "option":
        if words and CUDA_OPTION.fullmatch(words[0]) and words[-1].upper() == "OFF":
            build.cuda_option = build.cuda_option or Fact(words[0], place)
    elif command in ("project", "enable_language"):
        known = [word for word in words[command == "project" :] if word in ("C", "CXX", "CUDA", "Fortran")]
        _add(build.languages, map(str.lower, known), place)
    elif command == "find_package":
        if words and ("REQUIRED" in words or words[0].lower() in ("torch", "pybind11", "nanobind")):
            build.packages.setdefault(words[0], place)
    elif command.startswith("pkg_"):
        build.pkg_config = build.pkg_config or place
        modules = text.partition("REQUIRED")[2].split()
        _add(build.packages, (re.split(r"[<>=]", word)[0] for word in modules), place)
    elif command == "target_link_libraries":
        # Linked by the toolkit's own default, cudart_static is in NVIDIA's wheels.
        static = re.search(r"\bCUDA::(?!cudart_)\w+_static\b|\bCUDA::culibos\b", text)
        build.static_cuda = build.static_cuda or (Fact(static[0], place) if static else None)
        _add(build.cuda_libraries, re.findall(r"CUDA::([a-z]+)", text), place)
    elif command.endswith("_add_module") or command == "python_add_library":
        build.modules += [Fact(word, place) for word in words[:1] if word.isidentifier()]
    elif (command in _FETCHES or (command == "file" and words[:1] == ["DOWNLOAD"])) and re.search(
        r"GIT_REPOSITORY|URL|gh:|DOWNLOAD", text
    ):
        name = next((word for word in words if word not in ("NAME", "DOWNLOAD")), "")
        build.downloads = build.downloads or Fact(name, place)


def _add(places: dict[str, Place], names: Iterable[str], place: Place) -> None:
    for name in names:
        places.setdefault(name, place)


_MESON_CALL = re.compile(
    r"\b(project|add_languages|dependency|extension_module|install_sources)[ \t]*\(([^()]{0,2000})"
)
_WITHOUT_PKG_CONFIG = ("numpy", "pybind11", "python", "python3", "threads", "openmp", "dl")


def read_meson(tree: Tree) -> NativeBuild:
    """Read the meson.build files of the tree, and the names of its wraps."""
    build = NativeBuild(file="meson.build" if "meson.build" in tree.files else "")
    conditions = Conditions(tree)
    for name, text in texts(tree, tree.named("meson.build") if build.file else ()):
        for match, line in matches(_MESON_CALL, conditions.reached(name, text)):
            _meson_call(build, match[1], match[2], Place(name, line))
    for name in sorted(tree.files) if build.file else ():
        wrap = re.fullmatch(r"subprojects/([^/]+)\.wrap", name)
        # A subproject that is there is not downloaded.
        if wrap and not any(folder.startswith(f"subprojects/{wrap[1]}") for folder in tree.folders):
            build.downloads = build.downloads or Fact(wrap[1], Place(name))
    return build


def _meson_call(build: NativeBuild, call: str, text: str, place: Place) -> None:
    texts = re.findall(r"'([^'\n]{0,200})'", text)
    if call == "dependency" and texts:
        if texts[0].lower() not in _WITHOUT_PKG_CONFIG:
            build.pkg_config = build.pkg_config or place
        if not re.search(r"required\s*:\s*(?!true)|fallback\s*:|native\s*:\s*true", text):
            build.packages.setdefault(texts[0], place)
    elif call == "extension_module" and texts:
        build.modules.append(Fact(texts[0], place))
        limited = re.search(r"limited_api\s*:\s*'(3\.\d{1,2})'", text)
        build.abi3 = build.abi3 or (Fact(limited[1], place) if limited else None)
    elif call == "install_sources" and (folder := re.search(r"subdir\s*:\s*'([\w/]+)'", text)):
        if any(name.rpartition("/")[2] == "__init__.py" for name in texts):
            build.installed.append(Fact(folder[1].strip("/").replace("/", "."), place))
    elif call in ("project", "add_languages"):
        known = [word for word in texts[call == "project" :] if word in TABLES["titles"] or word == "cpp"]
        _add(build.languages, ("cxx" if word == "cpp" else word for word in known), place)


@dataclass(frozen=True)
class Cargo:
    """What the Cargo.toml files state.

    Attributes:
        library: the name of the module.
        abi3: the lowest Python of the stable ABI; `BUILDER` if it is that which builds.
        is_locked: a Cargo.lock names its crates, or they are in the tree.
        openssl: the dependency on the crate of OpenSSL.
    """

    place: Place
    library: Fact | None
    abi3: Fact | None
    is_locked: bool
    openssl: Place | None


BUILDER = "3.2"
"""The first Python with a stable ABI: what ``abi3`` of pyo3 stands for, whose wheels have the Python that builds them."""


def read_cargo(tree: Tree, pyproject: Toml, notes: list[str]) -> Cargo | None:
    """Read the Cargo.toml files; the main one is that which maturin's settings name, else the first with a crate for Python."""
    named = pyproject.fact("tool", "maturin", "manifest-path")
    manifest = named.text.removeprefix("./") if named else ""
    read: list[Toml] = []
    for name, _ in texts(tree, sorted(tree.named("Cargo.toml"), key=lambda name: name != manifest), 1 << 20):
        try:
            read += filter(None, [read_toml(tree, name)])
        except BakeryError as error:
            notes.append(f"{name} cannot be read: {error.message}")
    if not read:
        return None
    data = next((item for item in read if item.file == manifest or _python_crate(item)), read[0])
    own = (
        fact
        for item in read
        for fact in (*item.facts("features", "default"), *item.facts(*_python_crate(item), "features"))
    )
    waiting = [*pyproject.facts("tool", "maturin", "features"), *own]
    features: dict[str, Fact] = {}
    while waiting:
        fact = waiting.pop(0)
        if fact.text not in features:
            features[fact.text] = fact
            waiting += [other for item in read for other in item.facts("features", fact.text)]
    lowest = (
        Fact(f"3.{match[1]}", fact.place)
        for fact in features.values()
        if (match := re.search(r"abi3-py3(\d{1,2})", fact.text))
    )
    plain = (Fact(BUILDER, fact.place) for fact in features.values() if fact.text in ("abi3", "pyo3/abi3"))
    package = data.fact("package", "name") if data.get("lib") is not None else None
    library = Fact(package.text.replace("-", "_"), package.place) if package else None
    crates = (("dependencies", name) for name in ("openssl", "openssl-sys"))
    return Cargo(
        Place(data.file),
        data.fact("lib", "name") or library,
        next(lowest, next(plain, None)),
        bool(tree.named("Cargo.lock")) or any(name.endswith("/.cargo-checksum.json") for name in tree.files),
        next((item.place(*path) for path in crates for item in read if item.get(*path) is not None), None),
    )


def _python_crate(data: Toml) -> tuple[str, ...]:
    """Return the path of the dependency on a crate for Python; empty if there is none."""
    tables = (("dependencies",), ("workspace", "dependencies"))
    names = ("pyo3", "rust-cpython", "cpython", "pyo3-ffi")
    return next(((*table, name) for table in tables for name in names if data.get(*table, name) is not None), ())


_DIRECTIVE = re.compile(
    rb"#[ \t]*(?:include[ \t]*[<\"]([\w./+-]{1,120})[>\"]|(if)(?:ndef[ \t]+(\w{1,200})\s*#[ \t]*define[ \t]+\3\b)?|endif)"
)
_TYPE_DISPATCH = re.compile(r"\bAT_DISPATCH\w*\(\s*[\w.>-]{1,80}(?:\.|->)type\(\)")
"""What torch 2.6 and newer refuse. Source: ATen/Dispatch.h of torch 2.4.1 to 2.12.1."""

_EXTERN = re.compile(rb"cdef[ \t]+extern[ \t]+from[ \t]+[<\"]{1,2}([\w./+-]{1,120})")


@dataclass
class Sources:
    """What the project's own source files state.

    Attributes:
        languages: language → its first file.
        headers: included header → its first include.
        certain: the same, without includes that a condition guards.
        absent: those of the certain headers that are not in the tree.
        uncompiled: the first Cython source, if the tree has no C or C++ file of any.
        is_partial: there are more files than were read.
        type_dispatch: the first `AT_DISPATCH…(x.type()`.
        files: the same of the files that the build compiles; None if these are they.
    """

    languages: dict[str, Place] = field(default_factory=dict)
    headers: dict[str, Place] = field(default_factory=dict)
    certain: dict[str, Place] = field(default_factory=dict)
    absent: dict[str, Place] = field(default_factory=dict)
    uncompiled: Place | None = None
    is_partial: bool = False
    type_dispatch: Place | None = None
    files: Sources | None = None

    @property
    def built(self) -> Sources:
        """The same of the files that the build compiles."""
        return self.files or self

    def includes(self, *starts: str) -> Place | None:
        """Return the first include of a header whose path starts so."""
        return next((place for name, place in self.headers.items() if name.startswith(starts)), None)

    def is_reached(self, header: str) -> bool:
        """Whether a source that is no header includes a header in every build, perhaps by others."""
        for _ in range(_DEEPEST):
            place = next((at for name, at in self.certain.items() if name.rpartition("/")[2] == header), None)
            if place is None or not HEADER.search(place.file):
                return place is not None
            header = place.file.rpartition("/")[2]
        return False


def read_sources(tree: Tree, *, is_native: bool = True, by_meson: bool = False) -> Sources:
    """Read the includes of the project's own source files.

    Args:
        is_native: the project has a native build.
        by_meson: only what files of Meson name is compiled.
    """
    sources, built = Sources(), Sources()
    known = TABLES["languages"]
    files = [(name, known.get(name[name.rfind(".") :].lower(), "")) for name in tree.own if "." in name]
    files = [(name, language) for name, language in files if language]
    sources.is_partial = len(files) > MOST_SOURCES
    compiled = built_files(tree, (name for name, _ in files[:MOST_SOURCES]), is_native=is_native, by_meson=by_meson)
    for name, language in files[:MOST_SOURCES]:
        content = b"" if language in ("fortran", "rust") else tree.read(name, _START) or b""
        for part in (sources, built) if name in compiled else (sources,):
            part.languages.setdefault(language, Place(name))
            _includes(part, name, content, language)
    is_for_torch = any(header.startswith(("torch/", "ATen/", "c10/")) for header in sources.headers)
    kinds = ("cuda", "cxx") if is_for_torch else ()
    for_torch = [name for name, language in files[:MOST_SOURCES] if name in compiled and language in kinds]
    found = (Place(name, line) for name, text in texts(tree, for_torch) for _, line in matches(_TYPE_DISPATCH, text))
    built.type_dispatch = next(found, None)
    sources.files = built
    cython = [name for name, language in files if language == "cython"]
    if not any(f"{name[:-4]}{end}" in tree.files for name in cython for end in (".c", ".cpp", ".cxx")):
        sources.uncompiled = sources.languages.get("cython")
    present = {name.rpartition("/")[2] for name in tree.files}
    # A copy of a library is in a folder of its name, such as `boost/`, wherever that is.
    present |= {f"{part}/" for name in tree.files if HEADER.search(name) for part in name.split("/")[:-1]}
    for part in (sources, built):
        part.absent = {
            name: at
            for name, at in part.certain.items()
            if name.rpartition("/")[2] not in present and f"{name.partition('/')[0]}/" not in present
        }
    return sources


def _includes(part: Sources, name: str, content: bytes, language: str) -> None:
    conditions = 0
    for match in (_EXTERN if language.startswith("cython") else _DIRECTIVE).finditer(content):
        start = match.start()
        # Only at the start of a line; to search for ^ is several times slower.
        if content[content.rfind(b"\n", 0, start) + 1 : start].strip():
            continue
        if match[1] is None:
            # What keeps a header from a second include is no condition.
            conditions += 0 if match[3] else 1 if match[2] else -1
            continue
        header = match[1].decode()
        place = Place(name, content.count(b"\n", 0, start) + 1)
        for headers in (part.headers, part.certain) if conditions <= 0 else (part.headers,):
            if len(headers) < _MOST_HEADERS:
                headers.setdefault(header, place)
