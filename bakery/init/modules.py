"""The module that shows by its import that a wheel works."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from bakery.init.findings import Fact, Place
from bakery.init.read_native import Cargo
from bakery.init.read_python import Metadata
from bakery.init.tree import Tree

_MOST_FOLDERS = 100
_ENDS = ("/__init__.py", ".py", ".pyx", "/__init__.pyi")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\Z")


def find_modules(
    tree: Tree, metadata: Metadata, native: tuple[Fact, ...], cargo: Cargo | None, installed: Sequence[Fact] = ()
) -> tuple[Fact, ...]:
    """Return the module to import, with the file that shows it; empty if none is certain enough.

    Args:
        native: names of extension modules in the files of a build system.
        installed: packages that it installs in a folder of another name than that of their sources.
    """
    name = re.sub(r"[-.]+", "_", metadata.name.text).lower() if metadata.name else ""
    dotted = metadata.name.text.lower().replace("-", "_").replace(".", "/") if metadata.name else ""
    library = cargo.library if cargo and metadata.backend.text == "maturin" else None
    rust = metadata.pyproject.fact("tool", "maturin", "module-name") or library
    extensions = (*metadata.setup.names, *((rust,) if rust else ()), *native)
    built = _tops(extensions)
    only = re.compile(r"(?:src/|python/|lib/)?(?!(?:src|python|lib)/)([A-Za-z_][A-Za-z0-9_]*)/__init__\.py")
    packages = [Fact(match[1], Place(path)) for path in tree.own if (match := only.fullmatch(path))]
    folders = _folders(metadata)
    renamed = _tops(installed)
    module = (
        _in_tree(tree, metadata, (name, dotted))
        or renamed.get(name)
        or _single(_listed(tree, metadata))
        or built.get(name)
        # `python-foo` and `pyfoo` often install `foo`.
        or _in_tree(tree, metadata, (re.sub(r"^(?:python_|py_?)|_python$", "", name),))
        or _installed(tree, name)
        or _single({fact.text: fact for fact in packages})
        or _single(built)
        or _single({fact.text: fact for fact in _below(tree, folders, "")})
        or (Fact(dotted.replace("/", "."), Place("")) if dotted else None)
    )
    is_extension = module is not None and any(fact.text == module.text for fact in (*extensions, *renamed.values()))
    if module and not is_extension and _is_namespace(tree, folders, module.text):
        # Its import passes without any of its packages.
        inside = f"{module.text}."
        below = (*_below(tree, folders, inside), *extensions)
        module = next((fact for fact in below if fact.text.startswith(inside)), None)
    elif module and not module.place.file:
        module = None
    return (module,) if module and _MODULE.match(module.text) else ()


def _is_namespace(tree: Tree, folders: Iterable[str], module: str) -> bool:
    """Whether a module is a folder in the tree, and none of the folders has it with an ``__init__`` or as a file."""
    path = module.replace(".", "/")
    is_folder = any(f"{folder}{path}" in tree.folders for folder in folders)
    return is_folder and not any(f"{folder}{path}{end}" in tree.files for folder in folders for end in _ENDS)


def _below(tree: Tree, folders: tuple[str, ...], inside: str) -> Iterator[Fact]:
    """Yield the packages that are in namespace packages only, those in the highest folders first; then modules in these.

    Args:
        folders: those that have packages.
        inside: what their names begin with: the package that they are in, and a dot.
    """
    packages: set[str] = set()
    modules: list[Fact] = []
    for path in sorted(tree.own, key=lambda path: (path.count("/"), path)):
        folder = max((item for item in folders if path.startswith(item)), key=len, default="")
        name, end = path[len(folder) :].rpartition(".")[::2]
        dotted = name.removesuffix("/__init__").replace("/", ".")
        if end not in ("py", "pyx") or not dotted.startswith(inside) or "." not in dotted or not _MODULE.match(dotted):
            continue
        if not name.endswith("/__init__"):
            modules += [Fact(dotted, Place(path))] if inside else []
        elif not any(parent in packages for parent in itertools.accumulate(dotted.split("."), "{}.{}".format)):
            packages.add(dotted)
            yield Fact(dotted, Place(path))
    yield from modules


def _installed(tree: Tree, name: str) -> Fact | None:
    """Return the module that ``*.egg-info/top_level.txt`` lists: that of the project's name, or the only one."""
    file = _top_level(tree)
    modules = {word: Fact(word, Place(file)) for word in (tree.text(file) or "").split()}
    return modules.get(name) or _single(modules)


def _top_level(tree: Tree) -> str:
    """Return the name of ``*.egg-info/top_level.txt``, which is at the top or in the folder of the packages; empty if none."""
    pattern = re.compile(r"(?:(?:src|python|lib)/)?[^/]+\.egg-info/top_level\.txt")
    return min(filter(pattern.fullmatch, tree.files), default="")


def _tops(facts: Iterable[Fact]) -> dict[str, Fact]:
    """Return the packages at the top that dotted names are in, each with its first fact."""
    tops: dict[str, Fact] = {}
    for fact in facts:
        top = fact.text.split(".")[0]
        if _MODULE.match(fact.text):
            tops.setdefault(top, Fact(top, fact.place))
    return tops


def _single(candidates: dict[str, Fact]) -> Fact | None:
    return next(iter(candidates.values())) if len(candidates) == 1 else None


def _listed(tree: Tree, metadata: Metadata) -> dict[str, Fact]:
    """Return the packages at the top that the project lists, unless ``*.egg-info`` has others and their folders are not there."""
    pyproject, path = metadata.pyproject, ("tool", "setuptools")
    listed = (
        *(fact for fact in (pyproject.fact("tool", "flit", "module", "name"),) if fact),
        *pyproject.facts(*path, "packages"),
        *pyproject.facts(*path, "py-modules"),
        *(Fact(key, pyproject.place(*path, "package-dir")) for key in pyproject.table(*path, "package-dir")),
        *metadata.setup.keywords.get("packages", ()),
        *metadata.setup.keywords.get("py_modules", ()),
    )
    tops = {name: fact for name, fact in _tops(listed).items() if not name.startswith(("_", "test"))}
    files = {f"{folder}{name}" for folder in _folders(metadata) for name in tops}
    is_there = not files.isdisjoint((*tree.folders, *(name.removesuffix(".py") for name in tree.files)))
    return tops if is_there or not _top_level(tree) else {}


def _in_tree(tree: Tree, metadata: Metadata, wanted: tuple[str, ...]) -> Fact | None:
    """Return the first package or module in the tree with one of some names."""
    folders = _folders(metadata)
    files = {name.lower(): name for name in tree.own if name.endswith((".py", ".pyx", ".pyi")) and name.count("/") < 5}
    for module in filter(None, dict.fromkeys(wanted)):
        for folder in folders:
            for end in _ENDS:
                file = files.get(f"{folder.lower()}{module}{end}", "setup.py")
                if file not in ("setup.py", "conftest.py"):
                    return Fact(file[len(folder) :].removesuffix(end).replace("/", "."), Place(file))
    return None


def _folders(metadata: Metadata) -> tuple[str, ...]:
    """Return the folders that have the packages, each with a slash at its end; empty for the project's own."""
    pyproject = metadata.pyproject
    named = (
        *pyproject.facts("tool", "maturin", "python-source"),
        *pyproject.facts("tool", "setuptools", "packages", "find", "where")[:_MOST_FOLDERS],
        *pyproject.facts("tool", "setuptools", "package-dir", ""),
        *((metadata.setup.package_folder,) if metadata.setup.package_folder else ()),
    )
    packages = pyproject.facts("tool", "scikit-build", "wheel", "packages")[:_MOST_FOLDERS]
    texts = [fact.text.strip("./") for fact in named] + [fact.text.rpartition("/")[0].strip("./") for fact in packages]
    return tuple(dict.fromkeys((*(f"{text}/" for text in texts if text), "", "src/", "python/", "lib/")))
