"""A hand-written docker-bake.hcl: its variables, platforms and matrix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bakery.core.names import PLATFORM
from bakery.init.findings import Place, Rest, line_at
from bakery.init.tree import Tree

FILE = "docker-bake.hcl"
LARGEST = 32 * 1024
"""Bytes of a bake file that is read: the parser needs half a second for 20 KiB."""

_DEEPEST = 50
_AXES = {
    "python": re.compile(r"py(?:thon)?(?:_?versions?|ver|s)?\Z", re.IGNORECASE),
    "cuda": re.compile(r"cu(?:da)?(?:_?versions?|ver)?\Z", re.IGNORECASE),
    "torch": re.compile(r"(?:py)?torch(?:_?versions?|ver)?\Z", re.IGNORECASE),
    "jax": re.compile(r"jax(?:_?versions?|ver)?\Z", re.IGNORECASE),
    "archs": re.compile(r"(?:cuda_?archs?|cudaarchs|cmake_cuda_architectures|torch_cuda_arch_list)\Z", re.IGNORECASE),
}
_VALUES = {
    "python": re.compile(r"(?:cp|python)?(3)\.?(\d{1,2})(?:\.\d+)?(t?)\Z"),
    "cuda": re.compile(r"\d{2}\.\d{1,2}(?:\.\d{1,2})?\Z"),
    "torch": re.compile(r"\d{1,2}\.\d{1,2}\.\d{1,2}\Z"),
    "jax": re.compile(r"0\.\d{1,2}\.\d{1,2}\Z"),
    "archs": re.compile(r"[0-9][0-9A-Za-z.;+ -]{0,80}\Z"),
}


@dataclass
class BakeFile:
    """What is carried over from a bake file.

    Attributes:
        axes: ``python``, ``cuda``, ``torch``, ``jax`` or ``archs`` → values and place.
        rest: what is not carried over, with the reason.
    """

    axes: dict[str, tuple[tuple[str, ...], Place]] = field(default_factory=dict)
    platforms: tuple[str, ...] = ()
    platforms_place: Place = field(default_factory=lambda: Place(FILE))
    rest: list[Rest] = field(default_factory=list)


def read_bake_file(tree: Tree, refused: str = "") -> BakeFile | None:
    """Return what can be carried over from docker-bake.hcl; None if there is none.

    Args:
        refused: why nothing can be.
    """
    content = tree.read(FILE, LARGEST + 1)
    if content is None:
        return None
    if refused:
        return BakeFile(rest=[Rest(FILE, refused)])
    text = content.decode("utf-8", "replace")
    document, problem = _parse(text, is_whole=len(content) <= LARGEST)
    if document is None:
        return BakeFile(rest=[Rest(FILE, problem)])
    return _Reader(text, document).read()


def _parse(text: str, *, is_whole: bool) -> tuple[Mapping[str, object] | None, str]:
    """Return the data of a bake file, or None and why there is none."""
    if not is_whole:
        return None, f"larger than {LARGEST >> 10} KiB, so it was not read"
    if _depth(text) > _DEEPEST:
        return None, "nested too deeply, so it was not read"
    try:
        # An extra: only projects with a bake file need it, and it is slow to import.
        import hcl2
    except ImportError:
        return None, "it was not read; python -m pip install 'wheel-bakery[bake-file]' installs its reader"
    try:
        document = hcl2.loads(text)
    except Exception:
        # The parser raises errors of three libraries.
        return None, "it is no HCL that can be read"
    return (document, "") if isinstance(document, dict) else (None, "it is empty")


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest


class _Reader:
    def __init__(self, text: str, document: Mapping[str, object]) -> None:
        self.text = text
        self.document = document
        self.result = BakeFile()
        self.variables = {name: block.get("default") for name, block in self._blocks("variable")}

    def read(self) -> BakeFile:
        for name, block in self._blocks("target"):
            self._target(name, block)
        for name, value in self.variables.items():
            axis = _axis(name)
            if axis is None:
                self._rest(f"variable {name}", "no step of the recipe uses it")
            elif axis not in self.result.axes:
                self._axis(axis, f"variable {name}", value, self._place(f'variable "{name}"'))
        for kind in ("group", "function"):
            for name, _ in self._blocks(kind):
                self._rest(f"{kind} {name}", "Bakery generates its own")
        return self.result

    def _target(self, name: str, block: Mapping[str, object]) -> None:
        place = self._place(f'target "{name}"')
        matrix = block.get("matrix")
        for literal, value in matrix.items() if isinstance(matrix, dict) else ():
            key = _text(literal) or str(literal)
            axis = _axis(key)
            if axis is None:
                self._rest(f"target {name}, matrix {key}", "no axis of a recipe is known for it; add it to [matrix]")
            else:
                self._axis(axis, f"target {name}, matrix {key}", value, place)
        platforms = [text for item in self._values(block.get("platforms")) if PLATFORM.match(text := item)]
        if platforms and not self.result.platforms and any(item.startswith("linux/") for item in platforms):
            self.result.platforms, self.result.platforms_place = tuple(dict.fromkeys(platforms)), place
        left = sorted(_shown(key) for key in block if key not in ("matrix", "platforms", "name", "__is_block__"))
        if left:
            self._rest(f"target {name}", f"{', '.join(left)[:100]}: Bakery generates its own steps")

    def _axis(self, axis: str, where: str, value: object, place: Place) -> None:
        texts = [part for item in self._values(value) for part in (item.split(",") if axis != "archs" else [item])]
        values = [_normal(axis, match) for text in texts if (match := _VALUES[axis].match(text.strip()))]
        if not values or len(values) < len(texts):
            self._rest(
                where, f"values that are no versions of {axis}" if axis != "archs" else "no list of architectures"
            )
        if values:
            self.result.axes.setdefault(axis, (tuple(dict.fromkeys(values)), place))

    def _values(self, value: object) -> list[str]:
        """Return the texts of a value; names of variables are replaced by their defaults."""
        found: list[str] = []
        for item in value if isinstance(value, list) else [value]:
            text = _text(item)
            if text is None and isinstance(item, str) and item in self.variables:
                default = self.variables[item]
                found += [
                    known for part in (default if isinstance(default, list) else [default]) if (known := _text(part))
                ]
            elif text is not None:
                found.append(text)
        return found

    def _blocks(self, kind: str) -> Iterator[tuple[str, Mapping[str, object]]]:
        blocks = self.document.get(kind)
        for block in blocks if isinstance(blocks, list) else ():
            for key, content in block.items() if isinstance(block, dict) else ():
                name = _text(key)
                if name is not None and isinstance(content, dict):
                    yield name, content

    def _place(self, needle: str) -> Place:
        offset = self.text.find(needle)
        return Place(FILE, line_at(self.text, offset) if offset >= 0 else 0)

    def _rest(self, what: str, reason: str) -> None:
        if len(self.result.rest) < 20:
            self.result.rest.append(Rest(f"{_shown(what)[:80]} ({FILE})", reason))


def _shown(text: object) -> str:
    return "".join(char if char.isprintable() else "?" for char in str(text))


def _text(value: object) -> str | None:
    """Return the text of a quoted literal, as the parser leaves it; None for expressions."""
    if isinstance(value, str) and len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        inner = value[1:-1]
        return inner if inner.isprintable() and "${" not in inner and '"' not in inner else None
    return str(value) if isinstance(value, float) else None


def _axis(name: str) -> str | None:
    return next((axis for axis, pattern in _AXES.items() if pattern.match(name)), None)


def _normal(axis: str, match: re.Match[str]) -> str:
    return f"{match[1]}.{match[2]}{match[3]}" if axis == "python" else match[0]
