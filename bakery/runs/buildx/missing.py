"""What a failed step lacks, and the line of the recipe that provides it; ``missing.toml`` has the messages of tools."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from packaging.utils import canonicalize_name
from pydantic import TypeAdapter

from bakery.plan.build_facts import BuildFacts, Packages
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.resolve.rules.subject import subjects
from bakery.toolchains import facts
from bakery.toolchains.facts.rows import Package, StandardHeaders

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_SYSTEMS = {
    "apk": re.compile("alpine|musllinux"),
    "apt": re.compile("debian|ubuntu"),
    "dnf": re.compile("alma|centos|rocky|fedora|rhel|redhat|ubi[89]"),
}
"""Package manager → distributions, as images name them."""


_KEYS = ("header", "name", "module", "component", "version")


@dataclass(frozen=True, slots=True)
class Message:
    """An entry of ``missing.toml``."""

    patterns: tuple[str, ...]
    what: str = ""
    header: str = ""
    name: str = ""
    module: str = ""
    version: str = ""
    known: bool = False
    advice: str = ""
    unless: str = ""

    def found(self, line: str) -> dict[str, str] | None:
        """Return what the line names, with the entry's own keys; None if it does not fit."""
        match = next((match for text in self.patterns if (match := re.search(text, line, re.IGNORECASE))), None)
        if match is None:
            return None
        groups = match.groupdict()
        if piece := groups.pop("component", None):
            component = _component(piece)
            return {**dict.fromkeys(_KEYS, ""), "name": piece, "component": component} if component else None
        return {key: str(groups.get(key) or getattr(self, key, "")) for key in _KEYS}


@dataclass(frozen=True, slots=True)
class _File:
    missing: tuple[Message, ...]
    distributions: Mapping[str, str]
    components: Mapping[str, str]


@cache
def _file() -> _File:
    table = tomllib.loads((files(__package__) / "missing.toml").read_text(encoding="utf-8"))
    return TypeAdapter(_File).validate_python(table)


def _component(piece: str) -> str:
    """Return the component of CUDA with a header, a library or a CMake target; empty if there is none."""
    return next((name for name, text in _file().components.items() if re.fullmatch(text, piece)), "")


def messages() -> tuple[Message, ...]:
    """Return the known messages."""
    return _file().missing


@dataclass(frozen=True, slots=True)
class Recipe:
    """What advice needs to know of the recipe of a failed cell.

    Attributes:
        manager: the package manager of the base, ``apk``, ``apt`` or ``dnf``; empty if it is unknown.
        facts: what the recipe asks of its build.
        name: a missing module of this name is the project's own.
    """

    manager: str = ""
    facts: BuildFacts = field(default_factory=BuildFacts)
    name: str = ""

    def packages(self, table: str) -> Packages:
        """Return the packages that a table lists."""
        return self.facts.written.packages.get(table, Packages())

    def require(self, table: str, requirement: str) -> str:
        """Return the line that adds a requirement to a table; empty if the table has it."""
        return _added(f"{table}.requirements", self.packages(table).requirements, requirement)


def of_cell(plan: Plan, cell: Cell) -> Recipe:
    """Return what advice needs to know of the recipe, for one of its cells."""
    subject = next(subject for subject in subjects(plan) if cell.id in subject.cells)
    image = f"{'debian' if subject.suite else ''} {subject.manylinux.base if subject.manylinux else ''} "
    image = (image + (subject.image.text if subject.image else "")).lower()
    manager = next((name for name, pattern in _SYSTEMS.items() if pattern.search(image)), "")
    return Recipe(manager, plan.of(cell).facts, plan.recipe)


def advice(lines: Iterable[str], step: str, recipe: Recipe) -> str:
    """Return what a failed step lacks, and the line of the recipe that provides it; empty if unknown.

    ``step``: the beginning of its title, such as ``linux/arm64 compile 3/5``.
    """
    table = _table(step)
    for line in reversed(tuple(lines)):
        for message in messages():
            found = message.found(line)
            if found is not None and not (message.known and facts.package_of(found["name"]) is None):
                return _advice(message, found, table, recipe)
    return ""


def _table(step: str) -> str:
    """Return the table of the recipe that belongs to the stage of a step."""
    name = next((word for word in reversed(step.split()) if "/" not in word), "")
    return "native" if name.startswith("native") else "test" if "test" in name.split("-") else "builder"


def _advice(message: Message, found: Mapping[str, str], table: str, recipe: Recipe) -> str:
    if message.advice:
        return "" if message.unless in recipe.facts.written.uses else message.advice
    if row := next((row for row in facts.standard_headers() if found["header"] in row.names), None):
        return _standard_header(found["header"], row)
    what = message.what.format_map(found) or found["header"] or found["name"]
    said = f"needs {what}" if found["version"] else f"{what} not found"
    line = _line(found, table, recipe)
    return f"{said}: {line}" if line else ""


def _standard_header(header: str, row: StandardHeaders) -> str:
    """Return the advice for a header that no package but the compiler's own has."""
    if row.gcc == 0:
        return (
            f"{header} is a header of the C++ standard library: compile the file as C++; if the base has no g++, "
            f'builder.system-packages = ["g++"] (Debian) or ["gcc-c++"] (Red Hat)'
        )
    has = f"GCC {row.gcc} and newer have" if row.gcc else "no known GCC has"
    known = [image for image in facts.manylinux_images() if row.gcc and image.gcc >= row.gcc and not image.ended]
    base = (
        f'builder.base = "{known[0].name}" (GCC {known[0].gcc})' if known else "name an image that has it as the base"
    )
    return f"the compiler is too old for <{header}>, a header of {row.standard} that {has}: {base}"


def _line(found: Mapping[str, str], table: str, recipe: Recipe) -> str:
    if found["component"]:
        toolkit = "" if "toolkit" in recipe.facts.written.uses else 'builder.toolkit = "cuda", '
        line = _added("builder.components", recipe.facts.written.components, found["component"])
        return toolkit + line if line else ""
    if found["module"]:
        return _module_line(found, table, recipe)
    header, name = found["header"], found["name"]
    package = facts.package_with(header) if header else facts.package_of(name)
    floor = f">={found['version']}" if found["version"] else ""
    if package and not package.requirement:
        return _package_line(package, table, recipe)
    # A version is one of a Python package.
    requirement = package.requirement if package else name.lower() if floor else ""
    return recipe.require(table, requirement + floor) if requirement else _unknown(header, table)


def _package_line(package: Package, table: str, recipe: Recipe) -> str:
    path, names = f"{table}.system-packages", {"apt": package.apt, "dnf": package.dnf}
    listed = recipe.packages(table).system_packages
    if table == "test":
        return "a test has the programs of its base and of test.requirements"
    if recipe.manager in names:
        return _added(path, listed, names[recipe.manager])
    if recipe.manager:
        return f"add Alpine's package with it to {path}"
    if set(names.values()).intersection(listed):
        return ""
    return f'{path} = ["{package.apt}"] (Debian) or ["{package.dnf}"] (Red Hat)'


def _unknown(header: str, table: str) -> str:
    if table == "test":
        return "add its distribution to test.requirements"
    where = f"add its package to {table}.system-packages, or its distribution to {table}.requirements"
    own = "; if the project has it, check source.ignore and git submodules" if header else ""
    return where + own


def _module_line(found: Mapping[str, str], table: str, recipe: Recipe) -> str:
    root = canonicalize_name(found["module"].partition(".")[0])
    imports = (item.partition(".")[0] for item in recipe.facts.test_imports)
    if root in (canonicalize_name(recipe.name), *map(canonicalize_name, imports)):
        return ""
    distribution = _file().distributions.get(root, root)
    return recipe.require(table, distribution + (f">={found['version']}" if found["version"] else ""))


def _added(path: str, entries: Sequence[str], entry: str) -> str:
    """Return the line that adds an entry to a list; empty if the list has it."""
    if entry in entries:
        return ""
    name = _name(entry)
    return f"{path} = {json.dumps([*(item for item in entries if _name(item) != name), entry])}"


def _name(entry: str) -> str:
    match = _NAME.match(entry)
    return canonicalize_name(match[0]) if match else entry
