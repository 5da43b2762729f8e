"""pyproject.toml and setup.cfg: what the project is called, what builds it, which Pythons it supports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bakery.init.findings import Fact, Place, Toml, distinct, plain, read_toml, requirement_name
from bakery.init.read_setup_py import LARGEST as LARGEST_SETUP
from bakery.init.read_setup_py import SetupPy, read_setup_py
from bakery.init.tree import TABLES, Tree
from bakery.recipe.toml_file import Document
from wheel_audit.readers import Unreadable, ini_of

_NAME = r"(?m)^Name: (\S+)$"
_CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d{1,2})")


@dataclass(frozen=True)
class Metadata:
    """The Python side of a project.

    Attributes:
        setup: what setup.py states; nothing if there is none.
        backend: the distribution of the build backend, such as ``scikit-build-core``.
        is_legacy: there is no ``[build-system]``, so that a frontend takes setuptools.
        requires: static build requirements.
        classifiers: the Pythons of the classifiers.
        wheel_tags: tags of wheels for several Pythons, as the project writes them: ``cp39``, ``py3``.
        version_tool: the build requirement that reads the version from git.
    """

    pyproject: Toml
    setup: SetupPy
    name: Fact | None
    backend: Fact
    is_legacy: bool
    requires: tuple[Fact, ...]
    requires_python: Fact | None
    classifiers: tuple[Fact, ...]
    wheel_tags: tuple[Fact, ...]
    version_tool: Fact | None
    notes: tuple[str, ...]

    @property
    def dependencies(self) -> tuple[Fact, ...]:
        """What the project requires to run."""
        setup = self.setup.keywords.get("install_requires", ())
        return (*self.pyproject.facts("project", "dependencies"), *setup)

    def needs(self, distribution: str) -> Fact | None:
        """Return the static build requirement of a distribution."""
        return next((fact for fact in self.requires if requirement_name(fact.text) == distribution), None)


def is_project(tree: Tree, folder: str = "") -> bool:
    """Whether pip would build a folder of the tree."""
    prefix = f"{folder}/" if folder else ""
    if f"{prefix}setup.py" in tree.files:
        return True
    tables = rb"(?m)^[ \t]*\[[ \t]*(?:project|build-system|tool\.poetry|metadata|options)[ \t]*\]"
    names = (f"{prefix}pyproject.toml", f"{prefix}setup.cfg")
    return any(re.search(tables, tree.read(name) or b"") for name in names)


def read_metadata(tree: Tree, environment: Mapping[str, str] | None = None) -> Metadata:
    """Read pyproject.toml, setup.cfg and setup.py of the tree's folder.

    Args:
        environment: that of the build; None for what cibuildwheel's settings have.

    Raises:
        RecipeError: pyproject.toml is not TOML.
    """
    pyproject = read_toml(tree, "pyproject.toml") or Toml("pyproject.toml", Document({}, {}))
    notes: list[str] = []
    text = tree.text("setup.py")
    environment = _environment(pyproject) if environment is None else environment
    setup = read_setup_py(text, environment) if text is not None else SetupPy()
    if setup is None:
        notes.append(f"setup.py is no Python 3, or larger than {LARGEST_SETUP >> 10} KiB, and was not read")
        setup = SetupPy()
    notes += [
        f"{what.place} is for builds with {name}, which is not set: the recipe has no {what.text} from there; for that, set it "
        "in builder.environment" + (", and wheel.abi3" if what.text == "stable ABI" else "")
        for name, what in setup.off.items()
        if plain(name)
    ]
    # One setup.py may build several distributions; a source distribution says which one it is.
    info = [Fact(name, Place("PKG-INFO")) for name in re.findall(_NAME, (tree.text("PKG-INFO") or "")[:2000])[:1]]
    config = _SetupCfg(tree.text("setup.cfg") or "", notes)

    def first(path: tuple[str, ...], section: str, option: str, keyword: str) -> Fact | None:
        facts = (pyproject.fact(*path), *config.get(section, option), *setup.keywords.get(keyword, ()))
        return next(filter(None, facts), None)

    requires = distinct(
        (
            *pyproject.facts("build-system", "requires"),
            *setup.keywords.get("setup_requires", ()),
            *config.get("options", "setup_requires"),
        )
    )
    classifiers = (
        *pyproject.facts("project", "classifiers"),
        *setup.keywords.get("classifiers", ()),
        *config.get("metadata", "classifiers"),
    )
    return Metadata(
        pyproject=pyproject,
        setup=setup,
        name=pyproject.fact("tool", "poetry", "name")
        or next(filter(None, (pyproject.fact("project", "name"), *config.get("metadata", "name"), *info)), None)
        or first(("project", "name"), "metadata", "name", "name"),
        backend=_backend(pyproject, tree),
        is_legacy=not pyproject.table("build-system"),
        requires=requires,
        requires_python=_poetry_python(pyproject)
        or first(("project", "requires-python"), "options", "python_requires", "python_requires"),
        classifiers=tuple(Fact(match[1], at) for text, at in classifiers if (match := _CLASSIFIER.fullmatch(text))),
        wheel_tags=_wheel_tags(pyproject, config, setup),
        version_tool=_version_tool(tree, requires),
        notes=tuple(notes),
    )


def _environment(pyproject: Toml) -> dict[str, str]:
    """Return the plain variables that cibuildwheel's settings have for Linux: a recipe gets them."""
    root = ("tool", "cibuildwheel")
    value = next((found for path in ((*root, "linux"), root) if (found := pyproject.get(*path, "environment"))), {})
    if isinstance(value, str):
        value = dict(re.findall(r"(?<!\S)(\w{1,100})=[\"']?([^\s\"']{0,500})", value))
    pairs = value.items() if isinstance(value, dict) else ()
    return {key: str(text) for key, text in pairs if "$" not in str(text)}


def _backend(pyproject: Toml, tree: Tree) -> Fact:
    """Return the distribution of the backend."""
    backends = TABLES["backends"]
    named = pyproject.fact("build-system", "build-backend")
    if named is None:
        files = ("pyproject.toml",) if pyproject.table("build-system") else ("setup.py", "setup.cfg", "pyproject.toml")
        return Fact("setuptools", Place(next((name for name in files if name in tree.files), files[-1])))
    module = re.split(r"[.:]", named.text, maxsplit=1)[0]
    if pyproject.get("build-system", "backend-path") is not None:
        # A backend of the project's own, which may wrap one that the requirements name.
        known = [requirement_name(fact.text) for fact in pyproject.facts("build-system", "requires")]
        module = next((key for key, name in backends.items() if name in known), module)
    return Fact(backends.get(module, module), named.place)


def _wheel_tags(pyproject: Toml, config: _SetupCfg, setup: SetupPy) -> tuple[Fact, ...]:
    tags = (
        pyproject.fact("tool", "scikit-build", "wheel", "py-api"),
        pyproject.fact("tool", "distutils", "bdist_wheel", "py-limited-api"),
        pyproject.fact("tool", "distutils", "bdist_wheel", "py_limited_api"),
        *config.get("bdist_wheel", "py_limited_api"),
        *config.get("bdist_wheel", "py-limited-api"),
        *setup.wheel_tags,
    )
    return tuple(filter(None, tags))


def _poetry_python(pyproject: Toml) -> Fact | None:
    """Return Poetry's constraint as a specifier: ``^3.9`` → ``>=3.9,<4``."""
    named = None if pyproject.table("project") else pyproject.fact("tool", "poetry", "dependencies", "python")
    return Fact(re.sub(r"\^(3[\d.]*)", r">=\1,<4", named.text), named.place) if named else None


def _version_tool(tree: Tree, requires: tuple[Fact, ...]) -> Fact | None:
    # A source distribution has the version in PKG-INFO.
    named = (Fact(requirement_name(fact.text), fact.place) for fact in requires if "PKG-INFO" not in tree.files)
    return next((fact for fact in named if fact.text in TABLES["version-tools"]), None)


class _SetupCfg:
    def __init__(self, text: str, notes: list[str]) -> None:
        self.lines = text.lower().replace("-", "_").splitlines()
        self.sections: Mapping[str, Mapping[str, str]] = {}
        try:
            self.sections = ini_of(text)
        except Unreadable as error:
            notes.append(f"setup.cfg cannot be read: {error}")

    def get(self, section: str, key: str) -> tuple[Fact, ...]:
        """Return the texts of an option, one on each line or between semicolons."""
        options = self.sections.get(section, {}).items()
        value = next((text for name, text in options if name.lower() == key), "")
        lines = (number for number, line in enumerate(self.lines, 1) if line.startswith(key.replace("-", "_")))
        place = Place("setup.cfg", next(lines, 0) if value else 0)
        parts = value.splitlines() if "\n" in value else value.split(";")
        return tuple(Fact(part.strip(), place) for part in parts if part.strip())
