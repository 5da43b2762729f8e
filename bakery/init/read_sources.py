"""Source files: their languages, and what they include."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bakery.init.findings import Place, line_at
from bakery.init.tree import Tree

MOST_FILES = 6_000
"""Source files that are read."""

_START = 32 * 1024
"""Bytes of a source file that are read: includes are at its start."""

_SUFFIXES = {
    **dict.fromkeys((".c",), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".c++"), "cxx"),
    **dict.fromkeys((".h", ".hh", ".hpp", ".hxx", ".inl"), "header"),
    **dict.fromkeys((".cu",), "cuda"),
    **dict.fromkeys((".cuh",), "cuda-header"),
    **dict.fromkeys((".f", ".for", ".f77", ".f90", ".f95", ".f03", ".f08"), "fortran"),
    **dict.fromkeys((".pyx",), "cython"),
    **dict.fromkeys((".rs",), "rust"),
}
_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*[<\"]([\w./+-]{1,120})[>\"]", re.MULTILINE)
_CIMPORT = re.compile(rb"^[ \t]*(?:cimport|from)[ \t]+(numpy|torch)\b", re.MULTILINE)


@dataclass
class Sources:
    """What the project's own source files state.

    Attributes:
        languages: language → its first file.
        headers: included header → its first include.
        is_partial: there are more files than were read.
    """

    languages: dict[str, Place] = field(default_factory=dict)
    headers: dict[str, Place] = field(default_factory=dict)
    is_partial: bool = False

    def includes(self, *starts: str) -> Place | None:
        """Return the first include of a header whose path starts so."""
        return next((place for name, place in self.headers.items() if name.startswith(starts)), None)


def read_sources(tree: Tree) -> Sources:
    """Read the includes of the project's own source files."""
    sources = Sources()
    count = 0
    for name in tree.own:
        dot = name.rfind(".")
        language = _SUFFIXES.get(name[dot:].lower()) if dot >= 0 else None
        if language is None:
            continue
        sources.languages.setdefault(language, Place(name))
        if language in ("fortran", "rust"):
            continue
        count += 1
        if count > MOST_FILES:
            sources.is_partial = True
            break
        content = tree.read(name, _START) or b""
        pattern = _CIMPORT if language == "cython" else _INCLUDE
        for match in pattern.finditer(content):
            header = match[1].decode()
            if header not in sources.headers:
                sources.headers[header] = Place(name, line_at(content, match.start()))
    return sources
