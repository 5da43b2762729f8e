"""A hand-written docker-bake.hcl: its variables, platforms and matrix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bakery.core.names import PLATFORM
from bakery.init.findings import Place, Rest
from bakery.init.tree import TABLES, Tree

FILE = "docker-bake.hcl"
LARGEST = 32 * 1024
"""Bytes of a bake file that is read: the parser needs half a second for 20 KiB."""

_DEEPEST = 50


@dataclass
class BakeFile:
    """What is carried over from a bake file.

    Attributes:
        axes: ``python``, ``cuda``, ``torch``, ``jax`` or ``archs`` → values and place.
        rest: what is not carried over, with the reason.
    """

    axes: dict[str, tuple[tuple[str, ...], Place]] = field(default_factory=dict)
    platforms: tuple[tuple[str, ...], Place] | None = None
    rest: list[Rest] = field(default_factory=list)


def read_bake_file(tree: Tree, refused: str = "") -> BakeFile | None:
    """Return what can be carried over from docker-bake.hcl; None if there is none.

    Args:
        refused: why nothing can be.
    """
    content = tree.read(FILE, LARGEST + 1)
    if content is None:
        return None
    text = content.decode("utf-8", "replace")
    parsed = refused or _parse(text, is_whole=len(content) <= LARGEST)
    return BakeFile(rest=[Rest(FILE, parsed)]) if isinstance(parsed, str) else _Reader(text, parsed).read()


def _parse(text: str, *, is_whole: bool) -> Mapping[str, object] | str:
    """Return the data of a bake file, or why there is none."""
    if not is_whole:
        return f"larger than {LARGEST >> 10} KiB, so it was not read"
    depth = 0
    for bracket in re.findall(r"[()\[\]{}]", text):
        depth += 1 if bracket in "([{" else -1
        if depth > _DEEPEST:
            return "nested too deeply, so it was not read"
    try:
        # An extra: only projects with a bake file need it, and it is slow to import.
        import hcl2
    except ImportError:
        return "it was not read; python -m pip install 'wheel-bakery[bake-file]' installs its reader"
    try:
        document = hcl2.loads(text)
    except Exception:
        # The parser raises errors of three libraries.
        return "it is no HCL that can be read"
    return document if isinstance(document, dict) else "it is empty"


class _Reader:
    def __init__(self, text: str, document: Mapping[str, object]) -> None:
        self.text = text
        self.document = document
        self.result = BakeFile()
        self.variables = {name: block.get("default") for name, block in self._blocks("variable")}

    def read(self) -> BakeFile:
        for name, block in self._blocks("target"):
            self._target(name, block, self._place(f'target "{name}"'))
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

    def _target(self, name: str, block: Mapping[str, object], place: Place) -> None:
        matrix = block.get("matrix")
        for literal, value in matrix.items() if isinstance(matrix, dict) else ():
            key = _text(literal) or str(literal)
            axis = _axis(key)
            if axis is None:
                self._rest(f"target {name}, matrix {key}", "no axis of a recipe is known for it; add it to [matrix]")
            else:
                self._axis(axis, f"target {name}, matrix {key}", value, place)
        platforms = [text for text in self._values(block.get("platforms")) if PLATFORM.match(text)]
        if not self.result.platforms and any(item.startswith("linux/") for item in platforms):
            self.result.platforms = tuple(dict.fromkeys(platforms)), place
        if left := sorted(block.keys() - {"matrix", "platforms", "name", "__is_block__"}):
            self._rest(f"target {name}", f"{_shown(', '.join(left))[:100]}: Bakery generates its own steps")

    def _axis(self, axis: str, where: str, value: object, place: Place) -> None:
        lists = ([text] if axis == "archs" else text.split(",") for text in self._values(value))
        texts = [part.strip() for parts in lists for part in parts]
        matches = [match for text in texts if (match := re.fullmatch(TABLES["bake-values"][axis], text))]
        if not matches or len(matches) < len(texts):
            self._rest(
                where, "no list of architectures" if axis == "archs" else f"values that are no versions of {axis}"
            )
        values = (f"{match[1]}.{match[2]}{match[3]}" if axis == "python" else match[0] for match in matches)
        if matches:
            self.result.axes.setdefault(axis, (tuple(dict.fromkeys(values)), place))

    def _values(self, value: object) -> list[str]:
        """Return the texts of a value; names of variables are replaced by their defaults."""
        result: list[str] = []
        for item in value if isinstance(value, list) else [value]:
            text = _text(item)
            default = self.variables.get(item) if text is None and isinstance(item, str) else None
            texts = [text, *map(_text, default if isinstance(default, list) else [default])]
            result += [known for known in texts if known is not None]
        return result

    def _blocks(self, kind: str) -> Iterator[tuple[str, Mapping[str, object]]]:
        blocks = self.document.get(kind)
        for block in blocks if isinstance(blocks, list) else ():
            for key, content in block.items() if isinstance(block, dict) else ():
                name = _text(key)
                if name is not None and isinstance(content, dict):
                    yield name, content

    def _place(self, needle: str) -> Place:
        offset = self.text.find(needle)
        return Place(FILE, self.text.count("\n", 0, offset) + 1 if offset >= 0 else 0)

    def _rest(self, what: str, reason: str) -> None:
        if len(self.result.rest) < 20:
            self.result.rest.append(Rest(f"{_shown(what)[:80]} ({FILE})", reason))


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _text(value: object) -> str | None:
    """Return the text of a quoted literal, as the parser leaves it; None for expressions."""
    if isinstance(value, str) and len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        inner = value[1:-1]
        return inner if inner.isprintable() and "${" not in inner and '"' not in inner else None
    return str(value) if isinstance(value, float) else None


def _axis(name: str) -> str | None:
    axes = TABLES["bake-axes"].items()
    return next((axis for axis, pattern in axes if re.fullmatch(pattern, name, re.IGNORECASE)), None)
