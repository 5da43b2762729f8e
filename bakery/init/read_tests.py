"""The project's own tests: where they are, what runs them, and what they need besides the wheel."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bakery.init.findings import Fact, Place, Rest, Toml, is_requirement, requirement_name
from bakery.init.read_python import Metadata
from bakery.init.tree import Tree
from wheel_audit.readers import Unreadable, ini_of

_LISTS = ("test", "tests", "testing")
"""Names of extras and dependency groups that are for tests."""

_GENERAL = ("dev", "develop", "development", "all")
"""Those that have more than tests need: only pytest and its plugins are taken."""

_PYTEST = re.compile(r"(?m)^(?:import pytest|from pytest\b|(?:async )?def test_)")
_GPU = re.compile(r"""\.cuda\(|["']cuda(?::\d)?["']|\bimport (?:cupy|pycuda)\b""")
_MOST_READ = 50
_MOST_PATHS = 100


class NoSuchListError(Exception):
    """pyproject.toml has no such extra or group, or it cannot be read; the text is the reason."""


@dataclass
class Tests:
    """What becomes ``[test]``.

    Attributes:
        requirements: what to install besides the wheel, with the place that says so.
        files: what the command needs of the project.
        command: empty if nothing is certain enough.
        place: what shows the tests.
        uses_gpu: one of them names CUDA.
        rest: what is not carried over.
    """

    requirements: list[Fact] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    command: str = ""
    place: Place = field(default_factory=lambda: Place(""))
    uses_gpu: bool = False
    rest: list[Rest] = field(default_factory=list)


_TABLES = {"extra": ("project", "optional-dependencies"), "group": ("dependency-groups",)}


def listed_requirements(pyproject: Toml, what: str, names: Iterable[str]) -> list[str]:
    """Return the requirements of extras or dependency groups, with those of the ones that they include.

    Each is read once, however often it is named.

    Args:
        what: ``extra`` or ``group``.

    Raises:
        NoSuchListError: there is none of a name, or an entry cannot be read.
    """
    known = {kind: {requirement_name(key): key for key in pyproject.table(*path)} for kind, path in _TABLES.items()}
    project = pyproject.fact("project", "name")
    # Requirements as they are, and extras and groups that are to be read, the next one last.
    waiting: list[str | tuple[str, str]] = [*reversed([(what, name) for name in names])]
    seen: set[tuple[str, str]] = set()
    found: dict[str, None] = {}
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found[item] = None
            continue
        kind, name = item
        key = requirement_name(name)
        if (kind, key) in seen:
            continue
        seen.add((kind, key))
        items = pyproject.get(*_TABLES[kind], known[kind].get(key, "")) if key else None
        if not isinstance(items, list):
            raise NoSuchListError(f"pyproject.toml has no such {kind}: {name[:60]}")
        for entry in reversed(items):
            included = entry.get("include-group") if isinstance(entry, dict) else None
            own = re.fullmatch(r"\s*([\w.-]+)\s*\[([\w.,\s-]+)\]\s*", entry) if isinstance(entry, str) else None
            if isinstance(included, str):
                waiting.append(("group", included))
            elif own and project and _same(own[1], project.text):
                waiting += [("extra", extra.strip()) for extra in reversed(own[2].split(","))]
            elif isinstance(entry, str):
                waiting.append(entry)
            else:
                raise NoSuchListError(f"an entry of the {kind} {name[:60]} of pyproject.toml cannot be read")
    return list(found)


def _same(name: str, other: str) -> bool:
    return requirement_name(name) == requirement_name(other) != ""


def read_tests(tree: Tree, metadata: Metadata, module: str) -> Tests | None:
    """Return the project's tests; None if there are none that are found.

    Args:
        module: the module of the wheel; tests inside its sources are not copied, as they would bring the sources along.
    """
    tests = Tests()
    settings, words = _pytest_settings(tree, metadata.pyproject)
    paths = list(dict.fromkeys(words))[:_MOST_PATHS]
    every = sorted(name for name in tree.files if _is_test(name.rpartition("/")[2]))
    tests.place = settings or tests.place
    folders: list[str] = []
    for path in paths or [name for name in ("tests", "test") if any(_below(every, name))][:1]:
        top = path.partition("/")[0]
        if not any(_below(every, path)):
            tests.rest.append(Rest(f"testpaths: {path} ({settings})", "no files with tests are there"))
        elif top in ("src", "lib", "python", module.partition(".")[0]):
            why = (
                f"it is inside the package; if the wheel has it: test.command = 'pytest --pyargs {module or 'PACKAGE'}'"
            )
            tests.rest.append(Rest(f"testpaths: {path} ({settings})", why))
        else:
            folders.append(path)
    files = [name for path in folders for name in _below(every, path)]
    tests.place = settings or (Place(files[0]) if files else tests.place)
    _requirements(tests, metadata.pyproject)
    names = {requirement_name(fact.text) for fact in tests.requirements}
    read = [tree.text(name) or "" for name in files[:_MOST_READ]]
    tests.uses_gpu = any(_GPU.search(text) for text in read)
    is_pytest = settings or "pytest" in names or any(map(_PYTEST.search, read))
    if not folders:
        if not tests.requirements and not tests.rest:
            return None
        tests.rest += [
            Rest(f"test requirements ({fact.place})", "no folder with tests was found")
            for fact in tests.requirements[:1]
        ]
        tests.requirements = []
        return tests
    if is_pytest and "pytest" not in names:
        tests.requirements.append(Fact("pytest", tests.place))
    command = ("pytest", *folders) if is_pytest else ("python", "-m", "unittest", "discover", "-s", folders[0])
    tests.command = shlex.join(command)
    if not is_pytest:
        tests.rest += [Rest(path, "unittest searches one folder") for path in folders[1:]]
    beside = ([settings.file] if settings else []) + (["conftest.py"] if "conftest.py" in tree.files else [])
    tests.files = list(dict.fromkeys((*(path.split("/")[0] for path in folders), *beside)))
    return tests


def _pytest_settings(tree: Tree, pyproject: Toml) -> tuple[Place | None, list[str]]:
    """Return where the settings of pytest are, and ``testpaths``."""
    for file, section in (("pytest.ini", "pytest"), (".pytest.ini", "pytest")):
        if file in tree.files:
            return Place(file), _ini(tree, file, section) or []
    for path in (("tool", "pytest", "ini_options"), ("tool", "pytest")):
        if pyproject.table(*path):
            texts = [fact.text for fact in pyproject.facts(*path, "testpaths")]
            return pyproject.place(*path), [_clean(word) for text in texts for word in text.split()]
    for file, section in (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        words = _ini(tree, file, section)
        if words is not None:
            return Place(file), words
    return None, []


def _ini(tree: Tree, file: str, section: str) -> list[str] | None:
    """Return ``testpaths`` of a section; None if there is no such section."""
    try:
        options = ini_of(tree.text(file) or "").get(section)
    except Unreadable:
        return None
    return None if options is None else [_clean(word) for word in options.get("testpaths", "").split()]


def _clean(path: str) -> str:
    return path.removeprefix("./").rstrip("/")


def _is_test(name: str) -> bool:
    return name.endswith("_test.py") or (name.startswith("test_") and name.endswith(".py"))


def _below(tests: Iterable[str], path: str) -> Iterator[str]:
    """Yield those of the files with tests that a path of ``testpaths`` stands for."""
    if re.fullmatch(r"[\w.-]+(?:/[\w.-]+)*", path) and ".." not in path.split("/"):
        yield from (name for name in tests if name == path or name.startswith(f"{path}/"))


def _requirements(tests: Tests, pyproject: Toml) -> None:
    """Add the requirements of the first extra or group for tests, or pytest and its plugins of a general one."""
    for name in (*_LISTS, *_GENERAL):
        for what, path in _TABLES.items():
            key = next((key for key in pyproject.table(*path) if _same(key, name)), None)
            if key is None:
                continue
            place = pyproject.place(*path, key)
            try:
                texts = listed_requirements(pyproject, what, [key])
            except NoSuchListError as error:
                tests.rest.append(Rest(f"{what} {key} ({place})", str(error)))
                continue
            if name in _GENERAL:
                texts = [text for text in texts if re.match(r"pytest(?:-|\b)", requirement_name(text))]
            for text in texts:
                if is_requirement(text):
                    tests.requirements.append(Fact(text, place))
                else:
                    why = "a recipe requires distributions of the package index only"
                    tests.rest.append(Rest(f"{text[:60]} of {what} {key} ({place})", why))
            if texts:
                return
