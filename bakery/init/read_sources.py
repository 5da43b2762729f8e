"""Source files: their languages, and what they include."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bakery.init.findings import Place, line_at
from bakery.init.tree import Tree

MOST_FILES = 6_000
"""Source files that are read."""

_START = 16 * 1024
"""Bytes of a source file that are read: includes are at its start."""

_SUFFIXES = {
    **dict.fromkeys((".c",), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".c++"), "cxx"),
    **dict.fromkeys((".h", ".hh", ".hpp", ".hxx", ".inl"), "header"),
    **dict.fromkeys((".cu",), "cuda"),
    **dict.fromkeys((".cuh",), "cuda-header"),
    **dict.fromkeys((".f", ".for", ".f77", ".f90", ".f95", ".f03", ".f08"), "fortran"),
    **dict.fromkeys((".pyx",), "cython"),
    **dict.fromkeys((".pxd", ".pxi"), "cython-header"),
    **dict.fromkeys((".rs",), "rust"),
}
_INCLUDE = re.compile(rb"#[ \t]*include[ \t]*[<\"]([\w./+-]{1,120})[>\"]")
_EXTERN = re.compile(rb"cdef[ \t]+extern[ \t]+from[ \t]+[<\"]{1,2}([\w./+-]{1,120})")


@dataclass
class Sources:
    """What the project's own source files state.

    Attributes:
        languages: language → its first file.
        headers: included header → its first include.
        absent: the included headers that are not in the tree.
        uncompiled: the first Cython source, if the tree has no C or C++ file of any.
        is_partial: there are more files than were read.
    """

    languages: dict[str, Place] = field(default_factory=dict)
    headers: dict[str, Place] = field(default_factory=dict)
    absent: dict[str, Place] = field(default_factory=dict)
    uncompiled: Place | None = None
    is_partial: bool = False

    def includes(self, *starts: str) -> Place | None:
        """Return the first include of a header whose path starts so."""
        return next((place for name, place in self.headers.items() if name.startswith(starts)), None)


def read_sources(tree: Tree) -> Sources:
    """Read the includes of the project's own source files."""
    sources = Sources()
    count = 0
    is_compiled = False
    for name in tree.own:
        dot = name.rfind(".")
        language = _SUFFIXES.get(name[dot:].lower()) if dot >= 0 else None
        if language is None:
            continue
        sources.languages.setdefault(language, Place(name))
        if language in ("fortran", "rust"):
            continue
        if language == "cython":
            is_compiled |= any(f"{name[:dot]}{end}" in tree.files for end in (".c", ".cpp", ".cxx"))
            sources.uncompiled = sources.uncompiled or Place(name)
        count += 1
        if count > MOST_FILES:
            sources.is_partial = True
            break
        content = tree.read(name, _START) or b""
        pattern = _EXTERN if language.startswith("cython") else _INCLUDE
        for match in pattern.finditer(content):
            header = match[1].decode()
            start = match.start()
            # Only at the start of a line; to search for ^ is several times slower.
            if header not in sources.headers and not content[content.rfind(b"\n", 0, start) + 1 : start].strip():
                sources.headers[header] = Place(name, line_at(content, start))
    if is_compiled:
        sources.uncompiled = None
    present = {name.rpartition("/")[2] for name in tree.files}
    sources.absent = {name: at for name, at in sources.headers.items() if name.rpartition("/")[2] not in present}
    return sources
