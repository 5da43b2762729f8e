"""``[tool.cibuildwheel]``: the settings that mean the same in a recipe, and a list of the others."""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bakery.core.names import is_baked
from bakery.init.bases import BaseChoice
from bakery.init.findings import Place, Rest, is_requirement, plain
from bakery.init.toml_data import TomlData

_PLATFORMS = {
    "linux": {"x86_64": "linux/amd64", "aarch64": "linux/arm64"},
    "macos": {"arm64": "macos/arm64", "x86_64": "macos/amd64"},
    "windows": {"AMD64": "windows/amd64", "ARM64": "windows/arm64"},
}
_ROOT = ("tool", "cibuildwheel")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PROJECT_PATH = re.compile(r"\{(?:project|package)\}/([\w./-]+)")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.\-\[\]<>=!~,*]*\Z")
_SAME = frozenset(("build", "skip", "linux", "macos", "windows", "archs"))
_MOST_PATTERNS = 200


@dataclass
class Cibuildwheel:
    """What is carried over from cibuildwheel's settings.

    Attributes:
        values: key of a recipe (``wheel.config-settings``) → the value and its place.
        rest: the settings that are not carried over, with the reason.
    """

    build: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    place: Place = field(default_factory=lambda: Place(""))
    values: dict[str, tuple[object, Place]] = field(default_factory=dict)
    rest: list[Rest] = field(default_factory=list)

    def selects(self, python: str) -> bool:
        """Whether a Python is built, by its identifier for Linux."""
        identifier = f"cp{python.replace('.', '')}-manylinux_x86_64"
        is_built = not self.build or any(fnmatch.fnmatchcase(identifier, pattern) for pattern in self.build)
        return is_built and not any(fnmatch.fnmatchcase(identifier, pattern) for pattern in self.skip)


def read_cibuildwheel(
    pyproject: TomlData, base: BaseChoice, files: Iterable[str], refused: str = ""
) -> Cibuildwheel | None:
    """Return what can be carried over; None if there are no settings.

    Args:
        base: the base of the recipe.
        files: the files of the project.
        refused: why the image of the settings is not the base.
    """
    if not pyproject.table(*_ROOT):
        return None
    return _Reader(pyproject, base, files, refused).read()


class _Reader:
    def __init__(self, pyproject: TomlData, base: BaseChoice, files: Iterable[str], refused: str) -> None:
        self.pyproject = pyproject
        self.base = base
        self.files = files
        self.refused = refused
        self._listed: set[str] = set()
        self.result = Cibuildwheel(place=pyproject.place(*_ROOT))
        # Settings for Linux replace the general ones.
        linux = pyproject.table(*_ROOT, "linux")
        self.paths: dict[str, tuple[str, ...]] = {
            **{key: (*_ROOT, key) for key in pyproject.table(*_ROOT)},
            **{key: (*_ROOT, "linux", key) for key in linux},
        }

    def read(self) -> Cibuildwheel:
        result = self.result
        result.build = _patterns(self._value("build"))
        result.skip = _patterns(self._value("skip"))
        self._platforms()
        readers = {
            "environment": self._environment,
            "config-settings": self._config_settings,
            "before-all": self._before_all,
            "before-build": self._before_build,
            "test-requires": self._test_requires,
            "test-extras": self._test_extras,
            "test-groups": self._test_groups,
            "test-sources": self._test_sources,
            "test-command": self._test_command,
            "repair-wheel-command": self._repair,
            "build-frontend": self._frontend,
            "manylinux-x86_64-image": self._image,
        }
        # What they prepare is not there, so what refers to it may fail.
        unprepared = [
            key for key in ("before-all", "before-build") if key in self.paths and readers[key](self._value(key))
        ]
        for key in self.paths:
            if key in ("environment", "config-settings") and unprepared:
                self._rest(self.paths[key], f"it may rely on {unprepared[0]}")
            elif key in readers:
                reason = readers[key](self._value(key))
                if reason:
                    self._rest(self.paths[key], reason)
            elif key not in _SAME:
                self._rest(self.paths[key], "a recipe has no such setting")
        if "test.command" not in result.values:
            self._drop_tests()
        return result

    def _drop_tests(self) -> None:
        """Drop what only a test command needs."""
        for key in [key for key in self.result.values if key.startswith("test.")]:
            del self.result.values[key]
        for key in ("test-requires", "test-extras", "test-groups", "test-sources"):
            if key in self.paths and self.paths[key][-1] not in self._listed:
                self._rest(self.paths[key], "it is for the test command, and there is none")

    def _value(self, key: str) -> object:
        return self.pyproject.get(*self.paths[key]) if key in self.paths else None

    def _rest(self, path: tuple[str, ...], reason: str) -> None:
        self._listed.add(path[-1])
        name = ".".join(key if key.isprintable() else "?" for key in path[len(_ROOT) :])[:80]
        self.result.rest.append(Rest(f"tool.cibuildwheel.{name} ({self.pyproject.place(*path)})", reason))

    def _keep(self, key: str, source: str, value: object) -> None:
        if source in self.paths:
            self.result.values[key] = (value, self.pyproject.place(*self.paths[source]))

    def _platforms(self) -> None:
        found: list[str] = []
        for system, known in _PLATFORMS.items():
            path = self.paths.get("archs", ()) if system == "linux" else (*_ROOT, system, "archs")
            archs = _words(self.pyproject.get(*path)) if path else []
            if archs == ["all"]:
                archs = list(known)
            found += [known[arch] for arch in archs if arch in known]
            if others := [arch for arch in archs if arch not in (*known, "auto", "auto64", "native") and plain(arch)]:
                self._rest(path, f"Bakery has no platform for {', '.join(others)[:100]}")
        # A recipe needs a platform of Linux.
        self.result.platforms = tuple(dict.fromkeys(found)) if any(map(is_baked, found)) else ()
        for system in ("macos", "windows"):
            if not self.pyproject.table(*_ROOT, system):
                continue
            is_built = any(platform.startswith(system) for platform in self.result.platforms)
            reason = f"see [{system}] in the recipe reference" if is_built else "the recipe builds for Linux only"
            self._rest((*_ROOT, system), reason)

    def _environment(self, value: object) -> str:
        pairs: Mapping[object, object]
        if isinstance(value, str):
            try:
                words = shlex.split(value)
            except ValueError:
                return "it cannot be read"
            pairs = {name: text for name, equals, text in (word.partition("=") for word in words) if equals}
        else:
            pairs = value if isinstance(value, dict) else {}
        kept = {key: text for key, text in pairs.items() if _is_variable(key) and plain(text) and "$" not in str(text)}
        if kept:
            self._keep("builder.environment", "environment", kept)
        left = [str(key) for key in pairs if key not in kept and plain(key)]
        return f"the shell would evaluate {', '.join(left)[:100]}" if left else ""

    def _config_settings(self, value: object) -> str:
        if isinstance(value, str):
            try:
                value = {name: text for name, _, text in (word.partition("=") for word in shlex.split(value))}
            except ValueError:
                return "it cannot be read"
        pairs = value if isinstance(value, dict) else {}
        kept = {key: text for key, text in pairs.items() if plain(key) and plain(text)}
        if kept:
            self._keep("wheel.config-settings", "config-settings", kept)
        return "a recipe takes one text for each setting" if len(kept) < len(pairs) else ""

    def _before_all(self, value: object) -> str:
        packages: list[str] = []
        for words in _commands(value):
            manager = {"apt-get": "apt", "apt": "apt", "yum": "dnf", "dnf": "dnf"}.get(words[0] if words else "")
            names = [word for word in words[1:] if not word.startswith("-")]
            if manager is None or names[:1] not in (["install"], ["update"]):
                return "a command; if it prepares this build, write it as builder.before-build"
            if manager != self.base.manager:
                return "packages of another distribution; write their names here into builder.system-packages"
            packages += names[1:] if names[0] == "install" else []
        if not packages or not all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+_-]*", name) for name in packages):
            return "it cannot be read"
        self._keep("builder.system-packages", "before-all", packages)
        return ""

    def _before_build(self, value: object) -> str:
        packages: list[str] = []
        for words in _commands(value):
            start = next(
                (size for size in (2, 4) if words[:size] in (["pip", "install"], ["python", "-m", "pip", "install"])), 0
            )
            named = [word for word in words[start:] if word not in ("-U", "--upgrade")]
            if not start or not all(map(is_requirement, named)):
                return self._command(value)
            packages += named
        self._keep("builder.requirements", "before-build", packages)
        return ""

    def _command(self, value: object) -> str:
        """Keep the command before the build; return why not."""
        command = " && ".join(_texts(value)) if isinstance(value, list) else str(value)
        if not plain(command) or re.search(r"[{}$]", command):
            return "a command with placeholders or variables; write it as builder.before-build"
        self._keep("builder.before-build", "before-build", {"command": command, "network": True})
        return ""

    def _test_requires(self, value: object) -> str:
        return self._tests("test-requires", _texts(value))

    def _tests(self, source: str, requirements: list[str]) -> str:
        """Add requirements of the test; return why some are not added."""
        known = self.result.values.get("test.requirements", ([], Place("")))[0]
        assert isinstance(known, list)
        added = [text for text in requirements if is_requirement(text)]
        self._keep("test.requirements", source, list(dict.fromkeys((*known, *added))))
        return "a recipe requires distributions of the package index only" if len(added) < len(requirements) else ""

    def _test_extras(self, value: object) -> str:
        extras = _texts(value)
        tables = self.pyproject.table("project", "optional-dependencies")
        if not all(isinstance(tables.get(extra), list) for extra in extras):
            return "pyproject.toml has no such extra"
        return self._tests("test-extras", [item for extra in extras for item in _texts(tables[extra])])

    def _test_groups(self, value: object) -> str:
        groups = _texts(value)
        tables = self.pyproject.table("dependency-groups")
        members = [tables.get(group) for group in groups]
        if not all(isinstance(items, list) and all(isinstance(item, str) for item in items) for items in members):
            return "pyproject.toml has no such group, or it includes another one"
        return self._tests("test-groups", [item for items in members for item in _texts(items)])

    def _test_sources(self, value: object) -> str:
        kept = [text.removeprefix("./").rstrip("/") for text in _texts(value)]
        if not all(map(_is_path, kept)):
            return "a recipe takes paths inside the source"
        self._keep("test.files", "test-sources", kept)
        return ""

    def _test_command(self, value: object) -> str:
        command = " && ".join(_texts(value, split=False)).strip()
        if not command or not plain(command):
            return "a recipe takes one line without ${…}" if command else ""
        paths = [path.rstrip("/") for path in _PROJECT_PATH.findall(command)]
        text = _PROJECT_PATH.sub(lambda match: match[1].rstrip("/"), command)
        if re.search(r"\{(?:project|package|wheel)\}", text):
            return "it uses the whole project; a test of a recipe sees test.files only"
        if any(not _is_path(path) or not self._exists(path) for path in paths):
            return "it names files that are not in the project"
        if paths:
            known = self.result.values.get("test.files", ([], Place("")))[0]
            assert isinstance(known, list)
            self._keep("test.files", "test-command", list(dict.fromkeys((*known, *paths))))
        self._keep("test.command", "test-command", text)
        return ""

    def _exists(self, path: str) -> bool:
        return any(name == path or name.startswith(f"{path}/") for name in self.files)

    def _repair(self, value: object) -> str:
        commands = list(_commands(value))
        if not commands:
            self._keep("wheel.repair", "repair-wheel-command", False)
            return ""
        words = commands[0]
        if len(commands) > 1 or words[:2] != ["auditwheel", "repair"]:
            return "a command other than auditwheel repair"
        repair: dict[str, object] = {}
        excluded: list[str] = []
        rest = iter(words[2:])
        for word in rest:
            name, _, given = word.partition("=")
            if name == "--exclude":
                excluded.append(given or next(rest, ""))
            elif name in ("-w", "--wheel-dir"):
                given or next(rest, "")
            elif name == "--strip":
                repair["strip"] = True
            elif word != "{wheel}":
                return f"options of auditwheel that a recipe does not have, or calls differently: {word[:40]}"
        if not all(re.fullmatch(r"[A-Za-z0-9._+*?\[\]-]+", name) for name in excluded):
            return "it cannot be read"
        if excluded:
            repair = {"exclude": excluded, **repair}
        if repair:
            self._keep("wheel.repair", "repair-wheel-command", repair)
        return ""

    def _frontend(self, value: object) -> str:
        name = value.get("name") if isinstance(value, dict) else value
        if name == "uv":
            self._keep("wheel.frontend", "build-frontend", "uv")
        has_arguments = isinstance(value, dict) and len(value) > 1
        return (
            ""
            if name in ("build", "build[uv]", "uv") and not has_arguments
            else "a recipe has build and uv, without arguments"
        )

    def _image(self, value: object) -> str:
        image = image_of(self.pyproject)
        if image and self.base.value == {"image": image}:
            return ""
        return self.refused or "a short name, or one of several platforms; see builder.base"


def image_of(pyproject: TomlData) -> str:
    """Return the whole name of the image for linux/amd64, if wheels of Linux are built for that platform only."""
    image = pyproject.get(*_ROOT, "linux", "manylinux-x86_64-image") or pyproject.get(*_ROOT, "manylinux-x86_64-image")
    archs = {
        arch
        for path in ((*_ROOT, "archs"), (*_ROOT, "linux", "archs"))
        for arch in _words(pyproject.get(*path))
        if arch not in ("auto", "auto64", "native")
    }
    # Names without a registry are cibuildwheel's own.
    is_whole = isinstance(image, str) and "/" in image and re.fullmatch(r"[a-z0-9][A-Za-z0-9._/:-]{0,200}", image)
    return str(image) if is_whole and archs <= {"x86_64"} else ""


def _is_variable(key: object) -> bool:
    return isinstance(key, str) and _VARIABLE.match(key) is not None


def _is_path(path: str) -> bool:
    return bool(re.fullmatch(r"[\w.-]+(?:/[\w.-]+)*", path)) and ".." not in path.split("/")


def _words(value: object) -> list[str]:
    return [word for text in _texts(value) for word in re.split(r"[\s,]+", text) if word]


def _texts(value: object, *, split: bool = True) -> list[str]:
    """Return the texts of a list, or the words of a text."""
    if isinstance(value, str):
        return value.split() if split else [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _commands(value: object) -> list[list[str]]:
    """Return the words of each command; one that the shell would change has no words."""
    commands = [part for text in _texts(value, split=False) for part in text.split("&&") if part.strip()]
    found = []
    for command in commands:
        try:
            words = shlex.split(command)
        except ValueError:
            words = []
        found.append([] if re.search(r"[$`;|<>\n](?!=)", command) and not _is_pinned(words) else words)
    return found


def _is_pinned(words: list[str]) -> bool:
    """Whether ``>`` and ``<`` are those of quoted requirements."""
    return all(_REQUIREMENT.match(word) or word.startswith("-") for word in words)


def _patterns(value: object) -> tuple[str, ...]:
    """Return the selectors of ``build`` or ``skip``, braces expanded."""
    found: list[str] = []
    for word in _words_of_selector(value):
        stack = [word[:200]]
        while stack and len(found) < _MOST_PATTERNS:
            pattern = stack.pop()
            match = re.search(r"\{([^{}]*)\}", pattern)
            if match is None:
                found.append(pattern)
            else:
                options = match[1].split(",")[:_MOST_PATTERNS]
                stack.extend(pattern[: match.start()] + option + pattern[match.end() :] for option in options)
    return tuple(found)


def _words_of_selector(value: object) -> list[str]:
    return [word for text in _texts(value, split=False) for word in text.split()]
