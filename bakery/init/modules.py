"""The module that a project installs."""

from __future__ import annotations

import re

from bakery.init.findings import Fact, Place
from bakery.init.read_native import Cargo
from bakery.init.read_python import Metadata
from bakery.init.tree import Tree

_FOLDERS = ("", "src/", "python/", "lib/")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\Z")


def find_modules(tree: Tree, metadata: Metadata, native: tuple[Fact, ...], cargo: Cargo | None) -> tuple[Fact, ...]:
    """Return the module to import, with the file that shows it; empty if none is certain enough.

    Args:
        native: names of extension modules in the files of a build system.
    """
    name = _module_name(metadata)
    built = (*(metadata.setup.names if metadata.setup else ()), *_built_by_rust(metadata, cargo), *native)
    tops = {fact.text.split(".")[0]: fact for fact in reversed(built) if _MODULE.match(fact.text)}
    found = (
        _of_project_name(tree, metadata, [name, _dotted(metadata)])
        or _listed(metadata)
        or tops.get(name)
        # `python-foo` and `pyfoo` often install `foo`.
        or _of_project_name(tree, metadata, [re.sub(r"^(?:python_|py_?)|_python$", "", name)])
        or _only_package(tree)
        or (next(iter(tops.values())) if len(tops) == 1 else None)
    )
    if found is None or not _MODULE.match(found.text):
        return ()
    return (Fact(found.text.split(".")[0] if found in built else found.text, found.place),)


def _dotted(metadata: Metadata) -> str:
    return metadata.name.text.lower().replace("-", "_").replace(".", "/") if metadata.name else ""


def _listed(metadata: Metadata) -> Fact | None:
    """Return the only package at the top that the project lists."""
    listed = (
        *metadata.pyproject.facts("tool", "setuptools", "packages"),
        *metadata.pyproject.facts("tool", "setuptools", "py-modules"),
        *(Fact(key, metadata.pyproject.place("tool", "setuptools", "package-dir")) for key in _package_dirs(metadata)),
        *(metadata.setup.packages if metadata.setup else ()),
    )
    tops = {fact.text.split(".")[0]: fact for fact in reversed(listed) if not fact.text.startswith(("_", "test"))}
    return Fact(next(iter(tops)), next(iter(tops.values())).place) if len(tops) == 1 else None


def _package_dirs(metadata: Metadata) -> list[str]:
    return [key for key in metadata.pyproject.table("tool", "setuptools", "package-dir") if key]


def _module_name(metadata: Metadata) -> str:
    return re.sub(r"[-.]+", "_", metadata.name.text).lower() if metadata.name else ""


def _built_by_rust(metadata: Metadata, cargo: Cargo | None) -> tuple[Fact, ...]:
    named = metadata.pyproject.fact("tool", "maturin", "module-name")
    library = cargo.library if cargo and metadata.backend.text == "maturin" else None
    return tuple(fact for fact in (named or library,) if fact)


def _folders(metadata: Metadata) -> tuple[str, ...]:
    """Return the folders that may hold packages."""
    listed = (
        *metadata.pyproject.facts("tool", "maturin", "python-source"),
        *metadata.pyproject.facts("tool", "setuptools", "packages", "find", "where"),
        *metadata.pyproject.facts("tool", "setuptools", "package-dir", ""),
        *(fact for fact in (metadata.setup.package_folder if metadata.setup else None,) if fact),
    )
    packages = (
        fact.text.rpartition("/")[0] for fact in metadata.pyproject.facts("tool", "scikit-build", "wheel", "packages")
    )
    named = (text.strip("./") for text in (*(fact.text for fact in listed), *packages))
    return tuple(dict.fromkeys((*(f"{text}/" if text else "" for text in named), *_FOLDERS)))


def _of_project_name(tree: Tree, metadata: Metadata, wanted: list[str]) -> Fact | None:
    """Return the first package or module in the tree with one of some names."""
    files = {name.lower(): name for name in tree.own if name.endswith((".py", ".pyx", ".pyi")) and name.count("/") < 5}
    for module in dict.fromkeys(wanted):
        for folder in _folders(metadata):
            for end in ("/__init__.py", ".py", ".pyx", "/__init__.pyi"):
                file = files.get(f"{folder.lower()}{module}{end}") if module else None
                if file and file not in ("setup.py", "conftest.py"):
                    path = file[len(folder) :].removesuffix(end)
                    return Fact(path.replace("/", "."), Place(file))
    return None


def _only_package(tree: Tree) -> Fact | None:
    """Return the only package at the top of the tree or below src; None if there are several."""
    pattern = re.compile(r"(?:src/|python/|lib/)?([A-Za-z_][A-Za-z0-9_]*)/__init__\.py")
    packages = [Fact(match[1], Place(name)) for name in tree.own if (match := pattern.fullmatch(name))]
    return packages[0] if len(packages) == 1 else None
