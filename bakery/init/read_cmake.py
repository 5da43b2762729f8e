"""CMakeLists.txt and other CMake files."""

from __future__ import annotations

import re

from bakery.init.findings import Fact, Lines, Place
from bakery.init.read_native import COMMENT, MOST_FILES, NativeBuild
from bakery.init.tree import Tree

_CALL = re.compile(
    r"\b(cmake_minimum_required|project|enable_language|find_package|pkg_check_modules|pkg_search_module"
    r"|FetchContent_Declare|CPMAddPackage|ExternalProject_Add|pybind11_add_module|nanobind_add_module|file"
    r"|python_add_library|target_link_libraries)[ \t]*\(([^()]{0,2000})",
    re.IGNORECASE,
)
_MINIMUM = re.compile(r"VERSION\s+(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE)
_CUDA_TARGET = re.compile(r"CUDA::([a-z]+)")
_ADDRESS = re.compile(r"GIT_REPOSITORY|URL|gh:|DOWNLOAD")
_LANGUAGES = frozenset(("c", "cxx", "cuda", "fortran"))


def read_cmake(tree: Tree, folder: str = "") -> NativeBuild:
    """Read the CMake files of the tree; ``folder`` has the main one."""
    main = f"{folder}/CMakeLists.txt" if folder else "CMakeLists.txt"
    names = [name for name in tree.own if name.endswith(("CMakeLists.txt", ".cmake"))]
    reader = _CMake(NativeBuild(file=main if main in tree.files else ""))
    if reader.build.file:
        names = [main, *(name for name in names if name != main)]
    for name in names[:MOST_FILES]:
        text = COMMENT.sub("", tree.text(name) or "")
        lines = Lines(text)
        for match in _CALL.finditer(text):
            reader.call(match[1].lower(), match[2], Place(name, lines.at(match.start())))
    return reader.build


class _CMake:
    """Reads one call of a CMake command after the other."""

    def __init__(self, build: NativeBuild) -> None:
        self.build = build

    def call(self, command: str, text: str, place: Place) -> None:
        words = text.split()
        if command == "cmake_minimum_required":
            self._minimum(text, place)
        elif command in ("project", "enable_language"):
            self._languages(words[1:] if command == "project" else words, place)
        elif command == "find_package":
            self._package(words, place)
        elif command in ("pkg_check_modules", "pkg_search_module"):
            self._pkg_config(words, place)
        elif command == "target_link_libraries":
            for match in _CUDA_TARGET.finditer(text):
                self.build.cuda_libraries.setdefault(match[1], place)
        elif command.endswith("_add_module") or command == "python_add_library":
            self.build.modules += [Fact(word, place) for word in words[:1] if word.isidentifier()]
        else:
            self._download(command, words, text, place)

    def _minimum(self, text: str, place: Place) -> None:
        version = _MINIMUM.search(text)
        if version and place.file == self.build.file and self.build.minimum is None:
            self.build.minimum = Fact(version[1], place)

    def _languages(self, words: list[str], place: Place) -> None:
        for word in words:
            if word.lower() in _LANGUAGES:
                self.build.languages.setdefault(word.lower(), place)

    def _package(self, words: list[str], place: Place) -> None:
        if words and ("REQUIRED" in words or words[0].lower() in ("torch", "pybind11", "nanobind")):
            self.build.packages.setdefault(words[0], place)

    def _pkg_config(self, words: list[str], place: Place) -> None:
        self.build.pkg_config = self.build.pkg_config or place
        if "REQUIRED" in words:
            for word in words[words.index("REQUIRED") + 1 :]:
                self.build.packages.setdefault(re.split(r"[<>=]", word)[0], place)

    def _download(self, command: str, words: list[str], text: str, place: Place) -> None:
        if command == "file" and words[:1] != ["DOWNLOAD"]:
            return
        if self.build.downloads is None and _ADDRESS.search(text):
            self.build.downloads = Fact(words[0], place)
