"""setup.py: read as a syntax tree, never run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from bakery.init.findings import Fact, Place

_EXTENSIONS = frozenset(
    ("Extension", "CUDAExtension", "CppExtension", "Pybind11Extension", "CMakeExtension", "RustExtension")
)
_MOST_NODES = 200_000
_API = re.compile(r"cp3(\d{1,2})")


@dataclass
class SetupPy:
    """What a setup.py states in plain values.

    Attributes:
        package_folder: the folder that holds the packages.
        imports: module → its first import; modules that are only imported inside ``try`` are missing.
        extensions: class of extension modules → its first call.
        names: the names of the extension modules.
        libraries: the libraries that extension modules are linked with.
        requires: ``setup_requires``.
        classifiers: the classifiers.
        strings: texts that the decisions look for → their places.
        abi3: the lowest Python of the stable ABI.
    """

    file: str
    name: Fact | None = None
    python_requires: Fact | None = None
    abi3: Fact | None = None
    package_folder: Fact | None = None
    packages: list[Fact] = field(default_factory=list)
    imports: dict[str, Place] = field(default_factory=dict)
    extensions: dict[str, Place] = field(default_factory=dict)
    names: list[Fact] = field(default_factory=list)
    libraries: list[Fact] = field(default_factory=list)
    requires: list[Fact] = field(default_factory=list)
    classifiers: list[Fact] = field(default_factory=list)
    strings: dict[str, Place] = field(default_factory=dict)


_FORCE_BUILD = re.compile(r"[A-Z][A-Z0-9_]{0,60}_FORCE_BUILD")
_STRINGS = frozenset(("FORCE_CUDA", "cmake", "ninja", "pkg-config", "cargo"))


def read_setup_py(text: str, file: str) -> SetupPy | None:
    """Return what a setup.py states; None if it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            # Invalid escapes and the like are the project's affair.
            warnings.simplefilter("ignore")
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _Reader(file, module).setup


class _Reader:
    def __init__(self, file: str, module: ast.Module) -> None:
        self.setup = SetupPy(file)
        self.constants: dict[str, ast.expr] = {}
        for item in module.body:
            if isinstance(item, ast.Assign) and len(item.targets) == 1 and isinstance(item.targets[0], ast.Name):
                self.constants[item.targets[0].id] = item.value
        for node, is_guarded in _nodes(module):
            self._node(node, is_guarded)

    def _node(self, node: ast.AST, is_guarded: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom) and not is_guarded:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            for name in names:
                self.setup.imports.setdefault(name.split(".")[0], self._place(node))
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("setup", "dict"):
                self._setup(node)
            elif called in _EXTENSIONS:
                self._extension(called, node)
        elif isinstance(node, ast.Dict):
            self._dictionary(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = node.value.split(maxsplit=1)[:1]
            if words and (words[0] in _STRINGS or _FORCE_BUILD.fullmatch(words[0])):
                self.setup.strings.setdefault(words[0], self._place(node))

    def _setup(self, call: ast.Call) -> None:
        setup = self.setup
        for keyword in call.keywords:
            facts = self._facts(keyword.value)
            if keyword.arg == "name" and facts:
                setup.name = setup.name or facts[0]
            elif keyword.arg == "python_requires" and facts:
                setup.python_requires = setup.python_requires or facts[0]
            elif keyword.arg == "setup_requires":
                setup.requires += facts
            elif keyword.arg == "classifiers":
                setup.classifiers += facts
            elif keyword.arg in ("packages", "py_modules"):
                setup.packages += facts
            elif keyword.arg == "package_dir" and isinstance(keyword.value, ast.Dict):
                self._package_folder(keyword.value)

    def _package_folder(self, value: ast.Dict) -> None:
        """Find ``{"": "src"}``, also with ``str("")``."""
        for key, item in zip(value.keys, value.values, strict=True):
            texts = [self._facts(_argument(part)) for part in (key, item) if part is not None]
            if len(texts) == 2 and all(texts) and not texts[0][0].text:
                self.setup.package_folder = texts[1][0]

    def _dictionary(self, node: ast.Dict) -> None:
        """Find ``{"bdist_wheel": {"py_limited_api": "cp39"}}``, wherever it is."""
        for key, item in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "py_limited_api":
                found = next((abi3 for fact in self._facts(item) if (abi3 := abi3_of(fact))), None)
                self.setup.abi3 = self.setup.abi3 or found

    def _extension(self, kind: str, call: ast.Call) -> None:
        self.setup.extensions.setdefault(kind, self._place(call))
        self.setup.names += self._facts(call.args[0])[:1] if call.args else []
        for keyword in call.keywords:
            if keyword.arg == "name":
                self.setup.names += self._facts(keyword.value)[:1]
            elif keyword.arg == "libraries":
                self.setup.libraries += self._facts(keyword.value)

    def _facts(self, value: ast.expr) -> list[Fact]:
        """Return the constant texts of an expression: a text, a list of texts, or a name for one of them."""
        if isinstance(value, ast.Name):
            value = self.constants.get(value.id, value)
        items = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
        return [
            Fact(item.value, self._place(item))
            for item in items
            if isinstance(item, ast.Constant) and isinstance(item.value, str)
        ]

    def _place(self, node: ast.AST) -> Place:
        return Place(self.setup.file, getattr(node, "lineno", 0))


def abi3_of(fact: Fact) -> Fact | None:
    """Return the Python of a tag such as ``cp39`` as ``3.9``; None for another text."""
    match = _API.fullmatch(fact.text)
    return Fact(f"3.{match[1]}", fact.place) if match else None


def _argument(node: ast.expr) -> ast.expr:
    """Return the argument of ``str(…)``, or the node itself."""
    return node.args[0] if isinstance(node, ast.Call) and node.args else node


def _nodes(root: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Yield every node in the order of the file, and whether it stands inside ``try``."""
    stack = [(root, False)]
    for _ in range(_MOST_NODES):
        if not stack:
            return
        node, is_guarded = stack.pop()
        yield node, is_guarded
        inside = is_guarded or isinstance(node, ast.Try)
        stack.extend((child, inside) for child in reversed(list(ast.iter_child_nodes(node))))
