"""setup.py: read as a syntax tree, never run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from bakery.init.findings import Fact, Place
from bakery.init.static_values import StaticValues

FILE = "setup.py"
_EXTENSIONS = ("Extension", "CUDAExtension", "CppExtension", "Pybind11Extension", "CMakeExtension", "RustExtension")
_STRING = re.compile(
    r"(FORCE_CUDA(?:_EXTENSION)?|[A-Z][A-Z0-9_]{0,60}_FORCE_BUILD|TORCH_CUDA_ARCH_LIST|cmake|ninja|pkg-config|cargo)(?:\s|\Z)"
)
_ARCHS = re.compile(r"\w*(?:CUDA_ARCHS?|CUDA_ARCH_LIST|CUDA_ARCHITECTURES)\Z")
_LIST = re.compile(r"[0-9][0-9.a-f]*(?:[;, ][0-9][0-9.a-f]*)*\Z")
_TARGET = re.compile(r"TORCH_TARGET_VERSION=0x(\d\d)([0-9a-fA-F]{2})")
LARGEST = 128 * 1024
"""Characters of a file that is read: its syntax tree takes a thousand times as many bytes."""

_MOST_NODES = 200_000
_MOST_ITEMS = 50_000
"""Items of lists that are looked at, again for each name that stands for a list."""

_MOST_PARTS = 20
_MOST_OFF = 50


@dataclass
class SetupPy:
    """What a setup.py states in plain values.

    Attributes:
        keywords: argument of ``setup`` → its texts.
        imports: module → its first import, outside ``try``.
        optional: module → its first import inside ``try``.
        extensions: class of extension modules → its first call.
        names: the names of the extension modules.
        libraries: the libraries that extension modules are linked with.
        strings: texts that the decisions look for → their places.
        archs: variables that list the GPUs to compile for, in place of torch's, and their defaults.
        torch_abi: the torch release whose stable ABI the extensions use, such as ``2.10``.
        needs_gpu: where it asks torch for a GPU, which a build container does not have.
        wheel_tags: tags of wheels for several Pythons: ``cp39`` of the stable ABI, ``py3`` for all.
        package_folder: the folder that holds the packages.
        off: variable of the environment that is not set → what is left out without it, and where.
    """

    keywords: dict[str, list[Fact]] = field(default_factory=dict)
    imports: dict[str, Place] = field(default_factory=dict)
    optional: dict[str, Place] = field(default_factory=dict)
    extensions: dict[str, Place] = field(default_factory=dict)
    names: list[Fact] = field(default_factory=list)
    libraries: list[Fact] = field(default_factory=list)
    strings: dict[str, Place] = field(default_factory=dict)
    archs: dict[str, Fact] = field(default_factory=dict)
    torch_abi: Fact | None = None
    needs_gpu: Place | None = None
    wheel_tags: list[Fact] = field(default_factory=list)
    package_folder: Fact | None = None
    off: dict[str, Fact] = field(default_factory=dict)


def torch_release(text: str, place: Place) -> Fact | None:
    """Return the release of torch whose stable ABI a definition for the compiler asks for."""
    match = _TARGET.search(text)
    return Fact(f"{int(match[1])}.{int(match[2], 16)}", place) if match else None


def read_setup_py(text: str, environment: Mapping[str, str] | None = None) -> SetupPy | None:
    """Return what a setup.py states; None if it cannot be parsed, or is larger than `LARGEST`.

    Args:
        environment: what the recipe sets; what stands behind another variable of the project counts by its default.
    """
    if len(text) > LARGEST:
        return None
    try:
        with warnings.catch_warnings():
            # Invalid escapes and the like are the project's affair.
            warnings.simplefilter("ignore")
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    values = StaticValues(environment or {})
    # Twice, as a function may stand before what it looks at.
    constants = _constants(_nodes(module, values))
    reader, off = _Reader(constants), list[tuple[ast.AST, tuple[str, ...]]]()
    for node, is_guarded in _nodes(module, values, off):
        reader.read(node, is_guarded)
    names = {fact.text for fact in reader.setup.names}
    for part, asked in off[:_MOST_OFF]:
        hidden = _Reader(constants)
        for node, is_guarded in _nodes(part, values):
            hidden.read(node, is_guarded)
        # Without the variable, the build does without them.
        reader.setup.optional = hidden.setup.imports | hidden.setup.optional | reader.setup.optional
        # The branch that is taken may compile the same modules from other sources.
        is_more = {fact.text for fact in hidden.setup.names} - names or not reader.setup.extensions
        has_modules = hidden.setup.extensions and is_more
        if what := "stable ABI" if hidden.setup.wheel_tags else "extension modules" if has_modules else "":
            reader.setup.off.setdefault(asked[0], Fact(what, _place(part)))
    if reader.unpacks or not reader.has_setup:
        # As in setup(**dict(…)); what setup() is given itself counts first.
        reader.setup.keywords = reader.of_tables | reader.setup.keywords
    return reader.setup


def _constants(nodes: Iterable[tuple[ast.AST, bool]]) -> dict[str, ast.expr]:
    return {
        item.targets[0].id: item.value
        for item, _ in nodes
        if isinstance(item, ast.Assign) and len(item.targets) == 1 and isinstance(item.targets[0], ast.Name)
    }


class _Reader:
    def __init__(self, constants: Mapping[str, ast.expr]) -> None:
        self.setup = SetupPy()
        self.constants = constants
        self.left = _MOST_ITEMS
        self.of_tables: dict[str, list[Fact]] = {}
        self.has_setup = self.unpacks = False

    def read(self, node: ast.AST, is_guarded: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found = self.setup.optional if is_guarded else self.setup.imports
            for name in names:
                found.setdefault(name.split(".")[0], _place(node))
        elif isinstance(node, ast.Call):
            self._call(node, node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""))
            if isinstance(node.func, ast.Attribute) and node.func.attr == "is_available" and _ends(node.func, "cuda"):
                self.setup.needs_gpu = self.setup.needs_gpu or _place(node)
        elif isinstance(node, ast.Dict):
            # {"bdist_wheel": {"py_limited_api": "cp39"}}, wherever it is.
            for key, item in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "py_limited_api":
                    self.setup.wheel_tags += self._facts(item)
        elif isinstance(node, ast.Tuple | ast.Assign):
            self._tag(node)
        elif isinstance(node, ast.Name | ast.Attribute):
            # Also for `extension = CUDAExtension`, which is called by that name.
            if (node.id if isinstance(node, ast.Name) else node.attr) == "CUDAExtension":
                self.setup.extensions.setdefault("CUDAExtension", _place(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._string(node, node.value)

    def _string(self, node: ast.Constant, text: str) -> None:
        if match := _STRING.match(text):
            self.setup.strings.setdefault(match[1], _place(node))
        self.setup.torch_abi = self.setup.torch_abi or torch_release(text, _place(node))

    def _call(self, call: ast.Call, called: str) -> None:
        setup = self.setup
        if called in ("getenv", "get") and len(call.args) == 2:
            name, default = (self._facts(item)[:1] for item in call.args)
            if name and default and _ARCHS.match(name[0].text) and _LIST.match(default[0].text):
                setup.archs.setdefault(name[0].text, Fact(default[0].text, _place(call)))
        # A class of the project's own, such as ExtensionUsingNumpy, is called like setuptools' one.
        self.has_setup = self.has_setup or called == "setup"
        is_extension = called in _EXTENSIONS or ("Extension" in called and len(call.args) > 1)
        if is_extension:
            setup.extensions.setdefault(called, _place(call))
            setup.names += self._facts(call.args[0])[:1] if call.args else []
        for keyword in call.keywords:
            self.unpacks = self.unpacks or (called == "setup" and keyword.arg is None)
            if keyword.arg == "py_limited_api" and not is_extension:
                self.setup.wheel_tags += self._facts(keyword.value)
            if called in ("setup", "dict") and keyword.arg:
                given = setup.keywords if called == "setup" else self.of_tables
                given.setdefault(keyword.arg, []).extend(self._facts(keyword.value))
                if keyword.arg == "package_dir" and isinstance(keyword.value, ast.Dict):
                    self._package_folder(keyword.value)
            elif is_extension and keyword.arg == "name":
                setup.names += self._facts(keyword.value)[:1]
            elif is_extension and keyword.arg == "libraries":
                setup.libraries += self._facts(keyword.value)

    def _tag(self, node: ast.Tuple | ast.Assign) -> None:
        """Find ``return "cp39", "abi3", platform`` and ``self.py_limited_api = "cp39"``, as in commands of the project."""
        if isinstance(node, ast.Assign):
            names = {target.attr for target in node.targets if isinstance(target, ast.Attribute)}
            self.setup.wheel_tags += self._facts(node.value) if "py_limited_api" in names else []
        elif [fact.text for fact in self._facts(ast.List(node.elts[1:2]))] in (["abi3"], ["none"]):
            self.setup.wheel_tags += [
                Fact(fact.text.rpartition(".")[2], fact.place) for fact in self._facts(ast.List(node.elts[:1]))
            ]

    def _package_folder(self, value: ast.Dict) -> None:
        """Find ``{"": "src"}``, also with ``str("")``."""
        for pair in zip(value.keys, value.values, strict=True):
            key, folder = (
                self._facts(part.args[0] if isinstance(part, ast.Call) and part.args else part) if part else []
                for part in pair
            )
            if key and folder and not key[0].text:
                self.setup.package_folder = folder[0]

    def _facts(self, value: ast.expr) -> list[Fact]:
        """Return the constant texts of an expression: a text, a list, a sum, or a name for one of them."""
        parts = _parts(self.constants.get(value.id, value) if isinstance(value, ast.Name) else value)
        every = (item for part in parts for item in (part.elts if isinstance(part, ast.List | ast.Tuple) else [part]))
        items = list(islice(every, self.left))
        self.left -= len(items)
        return [
            Fact(item.value, _place(item))
            for item in items
            if isinstance(item, ast.Constant) and isinstance(item.value, str)
        ]


def _ends(attribute: ast.Attribute, name: str) -> bool:
    """Whether an attribute is one of ``….name``."""
    return isinstance(attribute.value, ast.Attribute) and attribute.value.attr == name


def _parts(value: ast.expr) -> list[ast.expr]:
    """Return the lists of a sum such as ``["a"] + (["b"] if … else [])``, without those of conditions."""
    parts: list[ast.expr] = []
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and len(parts) < _MOST_PARTS:
        parts.insert(0, value.right)
        value = value.left
    return [value, *parts]


def _place(node: ast.AST) -> Place:
    return Place(FILE, getattr(node, "lineno", 0))


def _nodes(
    root: ast.AST, values: StaticValues, off: list[tuple[ast.AST, tuple[str, ...]]] | None = None
) -> Iterator[tuple[ast.AST, bool]]:
    """Yield every node in the order of the file, and whether it stands inside ``try``; not those that a condition leaves out.

    Args:
        off: gets what is left out because variables of the environment are not set, with their names.
    """
    stack = [(root, False)]
    for _ in range(_MOST_NODES):
        if not stack:
            return
        node, is_guarded = stack.pop()
        yield node, is_guarded
        inside = is_guarded or isinstance(node, ast.Try)
        children = list(ast.iter_child_nodes(node))
        values.note(node)
        if isinstance(node, ast.If | ast.IfExp) and (holds := values.truth(node.test)) is not None:
            body, other = (
                part if isinstance(part, list) else [part]
                for part in ((node.body, node.orelse) if holds else (node.orelse, node.body))
            )
            children = [node.test, *body]
            for part in other:
                values.skip(part)
            if off is not None and values.asked:
                off += [(part, values.asked) for part in other]
        stack.extend((child, inside) for child in reversed(children))
