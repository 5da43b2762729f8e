"""pyproject.toml and setup.cfg: what the project is called, what builds it, which Pythons it supports."""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass

from bakery.init.findings import Fact, Place, distinct, requirement_name
from bakery.init.read_setup_py import SetupPy, abi3_of, read_setup_py
from bakery.init.toml_data import TomlData, empty_toml, read_toml
from bakery.init.tree import Tree

_CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d{1,2})")


@dataclass(frozen=True)
class Metadata:
    """The Python side of a project.

    Attributes:
        backend: the distribution of the build backend, such as ``scikit-build-core``.
        is_legacy: there is no ``[build-system]``, so that a frontend takes setuptools.
        requires: static build requirements.
        classifiers: the Pythons of the classifiers.
        version_tool: the build requirement that reads the version from git.
    """

    pyproject: TomlData
    setup: SetupPy | None
    name: Fact | None
    backend: Fact
    is_legacy: bool
    requires: tuple[Fact, ...]
    requires_python: Fact | None
    classifiers: tuple[Fact, ...]
    abi3: Fact | None
    version_tool: Fact | None
    notes: tuple[str, ...]

    def needs(self, distribution: str) -> Fact | None:
        """Return the static build requirement of a distribution."""
        return next((fact for fact in self.requires if requirement_name(fact.text) == distribution), None)


_BACKENDS = {
    "setuptools": "setuptools",
    "scikit_build_core": "scikit-build-core",
    "mesonpy": "meson-python",
    "maturin": "maturin",
    "hatchling": "hatchling",
    "flit_core": "flit-core",
    "poetry": "poetry-core",
    "pdm": "pdm-backend",
    "py_build_cmake": "py-build-cmake",
    "sipbuild": "sip",
}
"""Top-level module of a build backend → its distribution."""

_VERSION_TOOLS = ("setuptools-scm", "hatch-vcs", "setuptools-git-versioning", "versioningit", "pbr")


def is_project(tree: Tree, folder: str = "") -> bool:
    """Whether pip would build a folder of the tree."""
    prefix = f"{folder}/" if folder else ""
    if f"{prefix}setup.py" in tree.files:
        return True
    content = tree.read(f"{prefix}pyproject.toml")
    if content is not None and re.search(rb"(?m)^[ \t]*\[[ \t]*(?:project|build-system|tool\.poetry)[ \t]*\]", content):
        return True
    config = tree.read(f"{prefix}setup.cfg")
    return config is not None and re.search(rb"(?m)^\[(?:metadata|options)\]", config) is not None


def read_metadata(tree: Tree) -> Metadata:
    """Read pyproject.toml, setup.cfg and setup.py of the tree's folder.

    Raises:
        RecipeError: pyproject.toml is not TOML.
    """
    pyproject = read_toml(tree, "pyproject.toml") or empty_toml("pyproject.toml")
    notes: list[str] = []
    setup, config = _setup_py(tree, notes), _setup_cfg(tree, notes)
    requires = distinct(
        (
            *pyproject.facts("build-system", "requires"),
            *(setup.requires if setup else ()),
            *_listed(config, "options", "setup_requires"),
        )
    )
    backend, is_legacy = _backend(pyproject, tree)
    classifiers = (
        *pyproject.facts("project", "classifiers"),
        *(setup.classifiers if setup else ()),
        *_listed(config, "metadata", "classifiers"),
    )
    return Metadata(
        pyproject=pyproject,
        setup=setup,
        name=pyproject.fact("project", "name")
        or pyproject.fact("tool", "poetry", "name")
        or _option(config, "metadata", "name")
        or (setup.name if setup else None),
        backend=backend,
        is_legacy=is_legacy,
        requires=requires,
        requires_python=pyproject.fact("project", "requires-python")
        or _poetry_python(pyproject)
        or _option(config, "options", "python_requires")
        or (setup.python_requires if setup else None),
        classifiers=tuple(
            Fact(match[1], item.place) for item in classifiers if (match := _CLASSIFIER.fullmatch(item.text))
        ),
        abi3=_abi3(pyproject, config, setup),
        version_tool=_version_tool(tree, requires),
        notes=tuple(notes),
    )


def _backend(pyproject: TomlData, tree: Tree) -> tuple[Fact, bool]:
    """Return the distribution of the backend, and whether nothing names it."""
    named = pyproject.fact("build-system", "build-backend")
    if named:
        module = re.split(r"[.:]", named.text, maxsplit=1)[0]
        if pyproject.get("build-system", "backend-path") is not None:
            # A backend of the project's own, which may wrap one that the requirements name.
            known = [
                name for fact in pyproject.facts("build-system", "requires") if (name := requirement_name(fact.text))
            ]
            module = next((key for key, name in _BACKENDS.items() if name in known), module)
        return Fact(_BACKENDS.get(module, module), named.place), False
    has_table = bool(pyproject.table("build-system"))
    file = (
        "pyproject.toml"
        if has_table
        else next((name for name in ("setup.py", "setup.cfg") if name in tree.files), "pyproject.toml")
    )
    return Fact("setuptools", Place(file)), not has_table


def _abi3(pyproject: TomlData, config: _Config, setup: SetupPy | None) -> Fact | None:
    """Return the lowest Python of the stable ABI that the project declares."""
    tags = (
        pyproject.fact("tool", "scikit-build", "wheel", "py-api"),
        pyproject.fact("tool", "distutils", "bdist_wheel", "py-limited-api"),
        pyproject.fact("tool", "distutils", "bdist_wheel", "py_limited_api"),
        _option(config, "bdist_wheel", "py_limited_api"),
        _option(config, "bdist_wheel", "py-limited-api"),
    )
    found = next((abi3 for tag in tags if tag and (abi3 := abi3_of(tag))), None)
    return found or (setup.abi3 if setup else None)


def _poetry_python(pyproject: TomlData) -> Fact | None:
    """Return Poetry's constraint as a specifier: ``^3.9`` → ``>=3.9,<4``."""
    named = pyproject.fact("tool", "poetry", "dependencies", "python")
    return Fact(re.sub(r"\^(3[\d.]*)", r">=\1,<4", named.text), named.place) if named else None


def _version_tool(tree: Tree, requires: tuple[Fact, ...]) -> Fact | None:
    # A source distribution has the version in PKG-INFO.
    if "PKG-INFO" in tree.files:
        return None
    named = (Fact(requirement_name(fact.text), fact.place) for fact in requires)
    return next((fact for fact in named if fact.text in _VERSION_TOOLS), None)


def _setup_py(tree: Tree, notes: list[str]) -> SetupPy | None:
    text = tree.text("setup.py")
    if text is None:
        return None
    setup = read_setup_py(text, "setup.py")
    if setup is None:
        notes.append("setup.py is no Python 3 and was not read")
    return setup


@dataclass(frozen=True)
class _Config:
    """The options of setup.cfg, and its lines."""

    parser: configparser.RawConfigParser
    text: str


def _setup_cfg(tree: Tree, notes: list[str]) -> _Config:
    parser = configparser.RawConfigParser(strict=False)
    text = tree.text("setup.cfg") or ""
    try:
        parser.read_string(text)
    except (configparser.Error, ValueError):
        notes.append("setup.cfg cannot be read")
    return _Config(parser, text)


def _option(config: _Config, section: str, key: str) -> Fact | None:
    value = config.parser.get(section, key, fallback=None)
    return Fact(value.strip(), _config_place(config, key)) if value and value.strip() else None


def _listed(config: _Config, section: str, key: str) -> tuple[Fact, ...]:
    value = config.parser.get(section, key, fallback=None) or ""
    parts = value.splitlines() if "\n" in value else value.split(";")
    return tuple(Fact(part.strip(), _config_place(config, key)) for part in parts if part.strip())


def _config_place(config: _Config, key: str) -> Place:
    lines = config.text.splitlines()
    found = (
        number
        for number, line in enumerate(lines, 1)
        if line.lower().replace("-", "_").startswith(key.replace("-", "_"))
    )
    return Place("setup.cfg", next(found, 0))
