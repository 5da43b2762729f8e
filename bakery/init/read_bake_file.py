"""Hand-written bake files: their variables, platforms, arguments and matrix; compose files are named only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from bakery.core.cell_ids import is_baked
from bakery.core.names import PLATFORM
from bakery.init.findings import Place, Rest, is_nested_deeply
from bakery.init.tree import TABLES, Tree
from wheel_audit.readers import json_of

FILES = ("docker-bake.json", "docker-bake.hcl", "docker-bake.override.json", "docker-bake.override.hcl")
"""The files that `docker buildx bake` reads in a folder; later ones come first."""

_OTHERS = re.compile(
    r"(?:.*[._-])?(?:docker-?)?bake(?:[._-].*)?\.(?:hcl|json)|(?:docker-)?compose(?:\..+)?\.ya?ml", re.I
)
"""Names of files that buildx may be told to read, and of those with targets for it."""

LARGEST = 32 * 1024
"""Bytes of a bake file that is read: the parser needs half a second for 20 KiB."""

_MOST_BLOCKS = 200
_MOST_VALUES = 1000
_MOST = 40


@dataclass
class BakeFile:
    """What is carried over from bake files.

    Attributes:
        axes: ``python``, ``cuda``, ``torch``, ``jax`` or ``archs`` → values and place.
        rest: what is not carried over, with the reason.
    """

    axes: dict[str, tuple[tuple[str, ...], Place]] = field(default_factory=dict)
    platforms: tuple[tuple[str, ...], Place] | None = None
    rest: list[Rest] = field(default_factory=list)


def read_bake_file(tree: Tree, refused: str = "") -> BakeFile | None:
    """Return what can be carried over from the bake files of the tree; None if there are none.

    Those of the tree's own folder are read, or those of the only other folder that has some.

    Args:
        refused: why nothing can be.
    """
    folders = list(dict.fromkeys(name.rpartition("/")[0] for name in _named(tree) if name.rpartition("/")[2] in FILES))
    folder = "" if "" in folders or len(folders) != 1 else folders[0]
    names = [name for file in FILES if (name := f"{folder}/{file}".lstrip("/")) in tree.files]
    result = BakeFile()
    documents: list[tuple[str, str, Mapping[str, object]]] = []
    for name in names:
        text, parsed = _read(tree, name)
        if refused or isinstance(parsed, str):
            result.rest.append(Rest(name, refused or str(parsed)))
        else:
            documents.append((name, text, parsed))
    variables = {key: value for name, text, parsed in documents for key, value in _defaults(parsed).items()}
    # An override replaces what the file before it says.
    for name, text, parsed in reversed(documents):
        _Reader(name, text, parsed, variables, result).read()
    unread = [name for name in _named(tree) if name not in names]
    for name in unread[:_MOST]:
        what = "compose files are not read" if name.endswith("ml") else "only the bake files of one folder are read"
        result.rest.append(Rest(name, f"not read: {what}; write its versions into the recipe yourself"))
    if len(result.rest) > _MOST:
        result.rest[_MOST:] = [Rest(f"{len(result.rest) - _MOST} more parts of the bake files", "too many to list")]
    return result if names or unread else None


def _named(tree: Tree) -> list[str]:
    """Return the bake and compose files at most two folders deep, without vendored ones and those of Bakery."""
    vendored = {*TABLES["folders"]["vendored"].split(), "bake", ".github"}
    names = (name for name in tree.files if _OTHERS.fullmatch(name.rpartition("/")[2]) and name.count("/") < 3)
    return sorted(name for name in names if vendored.isdisjoint(name.lower().split("/")[:-1]))


def _read(tree: Tree, name: str) -> tuple[str, Mapping[str, object] | str]:
    """Return the text of a bake file, and its data or why there is none."""
    content = tree.read(name, LARGEST + 1) or b""
    text = content.decode("utf-8-sig", "replace")
    if len(content) > LARGEST:
        return text, f"larger than {LARGEST >> 10} KiB, so it was not read"
    if is_nested_deeply(text):
        return text, "nested too deeply, so it was not read"
    return text, _json(text) if name.endswith(".json") else _hcl(text)


def _hcl(text: str) -> Mapping[str, object] | str:
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


def _json(text: str) -> Mapping[str, object] | str:
    try:
        document = json_of(text)
    except ValueError:
        return "it is no JSON that can be read"
    if not isinstance(document, dict):
        return "it is empty"
    # As the reader of HCL has it: blocks are lists, and texts have quotes.
    kinds = ("variable", "target", "group", "function")
    return {key: [_quoted(value)] if key in kinds else _quoted(value) for key, value in document.items()}


def _quoted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _quoted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_quoted(item) for item in value]
    return f'"{value}"' if isinstance(value, str) else value


def _blocks(document: Mapping[str, object], kind: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    blocks = document.get(kind)
    for block in blocks if isinstance(blocks, list) else ():
        for key, content in block.items() if isinstance(block, dict) else ():
            # A label may be an identifier, too.
            name = _text(key) or str(key)
            if isinstance(content, dict) and name.isprintable() and '"' not in name:
                yield name, content


def _defaults(document: Mapping[str, object]) -> dict[str, object]:
    """Return variable or attribute of a bake file → its value."""
    blocks = ("variable", "target", "group", "function")
    attributes = {key: value for key, value in document.items() if key not in blocks}
    return attributes | {name: block.get("default") for name, block in _blocks(document, "variable")}


class _Reader:
    def __init__(
        self, file: str, text: str, document: Mapping[str, object], variables: Mapping[str, object], result: BakeFile
    ) -> None:
        self.file = file
        self.text = text
        self.document = document
        self.variables = variables
        self.result = result

    def read(self) -> None:
        """Add what the file has; what is known already comes from a file that comes first."""
        for name, block in islice(_blocks(self.document, "target"), _MOST_BLOCKS):
            self._target(name, block, self._place("target", name))
        for name, value in islice(_defaults(self.document).items(), _MOST_BLOCKS):
            axis = _axis(name)
            place = self._place("variable", name)
            if axis is None:
                self._rest(f"variable {name}", "no step of the recipe uses it")
            elif axis not in self.result.axes:
                self._axis(axis, f"variable {name}", value, place)
        for kind in ("group", "function"):
            for name, _ in islice(_blocks(self.document, kind), _MOST_BLOCKS):
                self._rest(f"{kind} {name}", "Bakery generates its own")

    def _target(self, name: str, block: Mapping[str, object], place: Place) -> None:
        matrix = block.get("matrix")
        keys = {_text(key) or str(key): value for key, value in matrix.items()} if isinstance(matrix, dict) else {}
        for key, value in keys.items():
            axis = _axis(key)
            if axis is None:
                self._rest(f"target {name}, matrix {key}", "no axis of a recipe is known for it; add it to [matrix]")
            else:
                self._axis(axis, f"target {name}, matrix {key}", value, place)
        self._args(name, block, place, keys)
        self._platforms(name, block, place)
        if left := sorted(block.keys() - {"matrix", "platforms", "args", "name", "__is_block__"}):
            self._rest(f"target {name}", f"{_shown(', '.join(left))[:100]}: Bakery generates its own steps")

    def _args(self, name: str, block: Mapping[str, object], place: Place, matrix: Mapping[str, object]) -> None:
        """Take the versions among the arguments; those of the matrix and of variables are known already."""
        args = block.get("args")
        for literal, value in args.items() if isinstance(args, dict) else ():
            key = _text(literal) or str(literal)
            axis, known = _axis(key), _reference(value)
            if known in matrix or (known in self.variables and _axis(known) == axis is not None):
                continue
            if axis and self._values(value):
                self._axis(axis, f"target {name}, args {key}", value, place)
            else:
                self._rest(
                    f"target {name}, args {key}",
                    "no step of the recipe uses it; add what needs it to builder.environment",
                )

    def _platforms(self, name: str, block: Mapping[str, object], place: Place) -> None:
        texts = [part.strip() for text in self._values(block.get("platforms")) for part in text.split(",")]
        platforms = [text for text in texts if PLATFORM.match(text) and is_baked(text)]
        if platforms and not self.result.platforms:
            self.result.platforms = tuple(dict.fromkeys(platforms)), place
        if others := [text for text in texts if text not in platforms]:
            self._rest(
                f"target {name}, platforms {', '.join(others)}", "the recipe builds for Linux on amd64 and arm64"
            )
        elif block.get("platforms") and not texts:
            self._rest(f"target {name}, platforms", "no list of platforms")

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
            default = self.variables.get(_reference(item)) if text is None else None
            texts = [text, *map(_text, default if isinstance(default, list) else [default])]
            result += [known for known in texts if known is not None]
            if len(result) > _MOST_VALUES:
                break
        return result[:_MOST_VALUES]

    def _place(self, kind: str, name: str) -> Place:
        quoted = re.escape(name)
        patterns = (rf'\b{kind}[ \t]+"?{quoted}"?[ \t]*\{{', rf'"{quoted}"', rf"(?m)^{quoted}\b")
        match = next(filter(None, (re.search(pattern, self.text) for pattern in patterns)), None)
        return Place(self.file, self.text.count("\n", 0, match.start()) + 1 if match else 0)

    def _rest(self, what: str, reason: str) -> None:
        self.result.rest.append(Rest(f"{_shown(what)[:80]} ({self.file})", reason))


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _text(value: object) -> str | None:
    """Return the text of a quoted literal, as the parser leaves it; None for expressions."""
    if isinstance(value, str) and len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        inner = value[1:-1]
        return inner if inner.isprintable() and "${" not in inner and '"' not in inner else None
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _reference(value: object) -> str:
    """Return the variable that an expression is: ``NAME`` or ``"${NAME}"``; empty for others."""
    match = re.fullmatch(r'(?:"?\$\{)?[ ]*(\w+)[ ]*(?:\}"?)?', value) if isinstance(value, str) else None
    return match[1] if match else ""


def _axis(name: str) -> str | None:
    axes = TABLES["bake-axes"].items()
    return next((axis for axis, pattern in axes if re.fullmatch(pattern, name, re.IGNORECASE)), None)
