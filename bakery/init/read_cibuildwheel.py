"""``[tool.cibuildwheel]``: the settings that mean the same in a recipe, and a list of the others."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from bakery.init.bases import BaseChoice
from bakery.init.findings import LONGEST_COMMAND, Place, Rest, Toml, is_requirement, plain, shell_words
from bakery.init.read_repair import path_in_project, read_repair
from bakery.init.read_tests import NoSuchListError, listed_requirements
from bakery.init.read_workflows import Workflow
from bakery.init.tree import TABLES, Tree
from bakery.toolchains import facts

_ROOT = ("tool", "cibuildwheel")
_AUTO = ("auto", "auto64", "native")
_MOST_PATTERNS = 200
_MOST_COMMANDS = 200
_NAMED = re.compile(r"cp3(\d{1,2})(t?)(?:-|\*|\Z)")
_REASONS = {
    "overrides": "settings of some cells are [[matrix.overrides]] in a recipe; write them there",
    "enable": "free-threaded Pythons are those that `build` names, and matrix.python",
    "audit-command": "the audit looks at every wheel, with checks of its own",
    "manylinux-aarch64-image": "builder.base is for both platforms",
    **dict.fromkeys(
        (f"musllinux-{machine}-image" for machine in ("x86_64", "aarch64")),
        'a recipe has one base; write another one with base = "musllinux_1_2"',
    ),
}
"""Setting → why it is not carried over, if a recipe has something like it."""


@dataclass(frozen=True)
class Selection:
    """The patterns of ``build`` and ``skip`` that count together; without one of ``build``, all is built."""

    build: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    def selects(self, identifier: str) -> bool:
        """Whether an identifier such as ``cp312-manylinux_x86_64`` is built."""
        is_built = not self.build or any(fnmatch.fnmatchcase(identifier, pattern) for pattern in self.build)
        return is_built and not any(fnmatch.fnmatchcase(identifier, pattern) for pattern in self.skip)

    def names(self, identifier: str) -> bool:
        """Whether a pattern of ``build`` is for free-threaded Pythons, and not for all."""
        patterns = (pattern for pattern in self.build if re.search(r"[\d?*\]]t(?:[-*]|\Z)", pattern))
        return any(fnmatch.fnmatchcase(identifier, pattern) for pattern in patterns)


@dataclass
class Cibuildwheel:
    """What is carried over from cibuildwheel's settings.

    Attributes:
        selections: ``build`` and ``skip``; several if workflows set them for several jobs.
        selected_at: where the selections stand.
        values: key of a recipe (``wheel.config-settings``) → the value and its place.
        rest: the settings that are not carried over, with the reason.
    """

    selections: tuple[Selection, ...] = ()
    platforms: tuple[str, ...] = ()
    place: Place = field(default_factory=lambda: Place(""))
    selected_at: str = ""
    values: dict[str, tuple[object, Place]] = field(default_factory=dict)
    rest: list[Rest] = field(default_factory=list)

    def selects(self, python: str, tags: Iterable[str]) -> bool:
        """Whether a Python is built for one of some tags of platforms, such as ``manylinux_x86_64``.

        A free-threaded one is built only if a pattern of ``build`` names it.
        """
        short, is_special = f"cp{python.replace('.', '')}", python.endswith("t")
        return any(
            item.selects(f"{short}-{tag}") and (not is_special or item.names(f"{short}-{tag}"))
            for item in self.selections
            for tag in tags
        )

    @property
    def named(self) -> list[str]:
        """The Pythons that ``build`` names without a placeholder, such as ``3.14t``, and ``skip`` does not."""
        found = (
            f"3.{match[1]}{match[2]}"
            for item in self.selections
            for match in map(_NAMED.match, item.build)
            if match and not any(fnmatch.fnmatchcase(f"cp3{match[1]}{match[2]}-", pattern) for pattern in item.skip)
        )
        return list(dict.fromkeys(found))


def read_cibuildwheel(
    pyproject: Toml, base: BaseChoice, tree: Tree, refused: str = "", workflow: Workflow | None = None
) -> Cibuildwheel | None:
    """Return what can be carried over; None if there are no settings.

    ``CIBW_BUILD`` and ``CIBW_SKIP`` of workflows outrank the file's ``build`` and ``skip``, each for itself.

    Args:
        base: the base of the recipe.
        tree: the files of the project.
        refused: why the image of the settings is not the base.
        workflow: the workflows of the project.
    """
    is_selected = workflow is not None and any(value for pair in workflow.selections for value in pair)
    found = _Reader(pyproject, base, tree, refused).read() if pyproject.table(*_ROOT) or is_selected else None
    if found and workflow and is_selected:
        (own,) = found.selections
        found.selections = tuple(
            Selection(own.build if build is None else _patterns(build), own.skip if skip is None else _patterns(skip))
            for build, skip in workflow.selections
        )
        found.selected_at = str(workflow.selected_at)
    return found


def image_of(pyproject: Toml) -> str:
    """Return the image of the settings: a short name, or a whole name if wheels are built for linux/amd64 only."""
    key = "manylinux-x86_64-image"
    image = pyproject.get(*_ROOT, "linux", key) or pyproject.get(*_ROOT, key)
    archs = {arch for path in ((*_ROOT, "archs"), (*_ROOT, "linux", "archs")) for arch in _words(pyproject.get(*path))}
    if isinstance(image, str) and image in facts.pinned_images():
        return image
    is_whole = isinstance(image, str) and "/" in image and re.fullmatch(r"[a-z0-9][A-Za-z0-9._/:-]{0,200}", image)
    return str(image) if is_whole and archs <= {"x86_64", *_AUTO} else ""


class _Refused(Exception):
    """A setting, or a part of it, is not carried over; the text is the reason."""


class _Reader:
    def __init__(self, pyproject: Toml, base: BaseChoice, tree: Tree, refused: str) -> None:
        self.pyproject = pyproject
        self.base = base
        self.tree = tree
        self.refused = refused
        self.result = Cibuildwheel(place=pyproject.place(*_ROOT), selected_at=str(pyproject.place(*_ROOT)))
        # Settings for Linux replace the general ones.
        self.paths: dict[str, tuple[str, ...]] = {
            **{key: (*_ROOT, key) for key in pyproject.table(*_ROOT)},
            **{key: (*_ROOT, "linux", key) for key in pyproject.table(*_ROOT, "linux")},
        }

    def read(self) -> Cibuildwheel:
        readers: dict[str, Callable[[str, object], None]] = {
            "before-all": self._before_all,
            "before-build": self._before_build,
            "environment": self._environment,
            "config-settings": self._config_settings,
            "test-requires": self._test_requires,
            "test-extras": partial(self._listed_in, "extra"),
            "test-groups": partial(self._listed_in, "group"),
            "test-sources": self._test_sources,
            "test-command": self._test_command,
            "repair-wheel-command": self._repair,
            "build-frontend": self._frontend,
            "manylinux-x86_64-image": self._image,
        }
        self.result.selections = (Selection(_patterns(self._value("build")), _patterns(self._value("skip"))),)
        self._platforms()
        listed = {*self.paths} - {*readers, "build", "skip", "linux", "macos", "windows", "archs"}
        for key in self.paths:
            # The base is the same on both platforms.
            is_base = key == "manylinux-aarch64-image" and self._value(key) == self.base.value
            if key in listed and not is_base:
                is_other = key == "enable" and "cpython-freethreading" not in _words(self._value(key))
                self._rest(self.paths[key], _REASONS.get("" if is_other else key, "a recipe has no such setting"))
        unprepared, unready = "", "before-test" if "before-test" in self.paths else ""
        for key, reader in readers.items():
            if key not in self.paths:
                continue
            try:
                if _size(self._value(key)) > LONGEST_COMMAND:
                    raise _Refused(f"it has more than {LONGEST_COMMAND:,} characters")
                if unprepared and key in ("environment", "config-settings"):
                    raise _Refused(f"it may rely on {unprepared}")
                reader(key, self._value(key))
            except _Refused as error:
                self._rest(self.paths[key], str(error))
                # What it prepares is not there, so what refers to it may fail.
                unprepared = unprepared or (key if key.startswith("before-") else "")
                unready = unready or (key if key.startswith("test-") else "")
        self._drop_tests(unready)
        return self.result

    def _drop_tests(self, unready: str) -> None:
        """Drop a test command that may not find what it needs, and what only a test command needs, if there is none."""
        if unready and "test.command" in self.result.values:
            del self.result.values["test.command"]
            self._rest(self.paths["test-command"], f"it may rely on {unready}")
        kept = [key for key in self.result.values if key.startswith("test.")]
        if kept and "test.command" not in kept:
            for key in kept:
                _, place = self.result.values.pop(key)
                self.result.rest.append(Rest(f"{key} ({place})", "it is for the test command, and there is none"))

    def _value(self, key: str) -> object:
        return self.pyproject.get(*self.paths[key]) if key in self.paths else None

    def _rest(self, path: tuple[str, ...], reason: str) -> None:
        name = ".".join(key if key.isprintable() else "?" for key in path[len(_ROOT) :])[:80]
        self.result.rest.append(Rest(f"tool.cibuildwheel.{name} ({self.pyproject.place(*path)})", reason))

    def _keep(self, key: str, source: str, value: object) -> None:
        self.result.values[key] = (value, self.pyproject.place(*self.paths[source]))

    def _platforms(self) -> None:
        known = TABLES["cibuildwheel-archs"]
        archs = _words(self._value("archs"))
        platforms = list(known.values()) if archs == ["all"] else [known[arch] for arch in archs if arch in known]
        if platforms and any(arch in _AUTO for arch in archs):
            platforms.insert(0, known["x86_64"])
        self.result.platforms = tuple(dict.fromkeys(platforms))
        if others := [arch for arch in archs if arch not in (*known, *_AUTO, "all") and plain(arch)]:
            self._rest(self.paths["archs"], f"Bakery has no platform for {', '.join(others)[:100]}")
        for system in ("macos", "windows"):
            if self.pyproject.table(*_ROOT, system):
                self._rest(
                    (*_ROOT, system), f"the recipe builds for Linux only; see [{system}] in the recipe reference"
                )

    def _environment(self, source: str, value: object) -> None:
        pairs = _pairs(value)
        kept = {
            key: text
            for key, text in pairs.items()
            if re.fullmatch(r"(?!PIP_|UV_)[A-Za-z_][A-Za-z0-9_]*", key) and plain(text) and "$" not in str(text)
        }
        if kept:
            self._keep("builder.environment", source, kept)
        if left := [key for key in pairs if key not in kept and plain(key)]:
            raise _Refused(f"the shell or pip would evaluate {', '.join(left)[:100]}")

    def _config_settings(self, source: str, value: object) -> None:
        pairs = _pairs(value, repeats=True)
        kept = {key: text for key, text in pairs.items() if plain(key) and _is_setting(text)}
        if kept:
            self._keep("wheel.config-settings", source, kept)
        if left := [key if plain(key) else "?" for key in pairs if key not in kept]:
            raise _Refused(f"a recipe takes texts and lists of texts, without ${{…}}: {', '.join(left)[:100]}")

    def _before_all(self, source: str, value: object) -> None:
        if not any(map(str.strip, _texts(value, split=False))):
            # `linux.before-all = ""` leaves out the one for all systems.
            return
        packages: list[str] = []
        for words in _commands(value):
            manager = {"apt-get": "apt", "apt": "apt", "yum": "dnf", "dnf": "dnf"}.get(words[0] if words else "")
            names = [word for word in words[1:] if not word.startswith("-")]
            if manager is None or names[:1] not in (["install"], ["update"]):
                self._command(source, value)
                return
            if names[0] == "install":
                packages += [self._package(manager, name) for name in names[1:]]
        if not packages or not all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+_-]*", name) for name in packages):
            raise _Refused("it cannot be read")
        self._keep("builder.system-packages", source, packages)

    def _package(self, manager: str, name: str) -> str:
        """Return what the base calls a package."""
        if manager == self.base.manager:
            return name
        row = next((row for row in facts.packages() if name == (row.apt if manager == "apt" else row.dnf)), None)
        packages = (row.apt if self.base.manager == "apt" else row.dnf) if row and self.base.manager else ""
        if not packages:
            raise _Refused("packages of another distribution; write their names here into builder.system-packages")
        return packages

    def _before_build(self, source: str, value: object) -> None:
        packages: list[str] = []
        for words in _commands(value):
            start = next((cut for cut in (2, 4) if words[:cut][-2:] == ["pip", "install"]), 0)
            named = [word for word in words[start:] if word not in ("-U", "--upgrade")]
            if not start or not all(map(is_requirement, named)):
                self._command(source, value)
                return
            packages += named
        self._keep("builder.requirements", source, packages)

    def _command(self, source: str, value: object) -> None:
        """Run a command before the build; it has the network, as in cibuildwheel."""
        before = self.result.values.get("builder.before-build", ({}, None))[0]
        first = [str(before["command"])] if isinstance(before, dict) and before else []
        command = " && ".join((*first, *_texts(value, split=False)))
        command = re.sub(r"\{(?:project|package)\}|(?<![\w./-])/project(?=[/\s]|$)", "/src", command)
        is_plain = plain(command) and not re.search(r"[{}$]", command)
        scripts = {name: self.tree.script(name) for name in _scripts(command)} if is_plain else {}
        if missing := [name for name, text in scripts.items() if text is None]:
            raise _Refused(
                f"the project has no {missing[0][:80]}; write it as builder.before-build if the build needs it"
            )
        text = "\n".join((command, *filter(None, scripts.values())))
        if re.search(r"\b(?:apt|apt-get|yum|dnf|apk)\b", text):
            raise _Refused("it installs packages; write their names here into builder.system-packages")
        if re.search(r"\b(?:curl|wget)\b", text):
            raise _Refused("it downloads; write it as builder.before-build if the build needs it")
        if not is_plain:
            raise _Refused("a command with placeholders or variables; write it as builder.before-build")
        self._keep("builder.before-build", source, {"command": command, "network": True})

    def _test_requires(self, source: str, value: object) -> None:
        requirements = _texts(value)
        known = self.result.values.get("test.requirements", ([], None))[0]
        assert isinstance(known, list)
        if not all(map(is_requirement, requirements)):
            raise _Refused("a recipe requires distributions of the package index only")
        self._keep("test.requirements", source, list(dict.fromkeys((*known, *requirements))))

    def _listed_in(self, what: str, source: str, value: object) -> None:
        """Add the requirements of some extras or dependency groups of pyproject.toml."""
        try:
            requirements = listed_requirements(self.pyproject, what, _texts(value))
        except NoSuchListError as error:
            raise _Refused(str(error)) from None
        self._test_requires(source, requirements)

    def _test_sources(self, source: str, value: object) -> None:
        kept = [text.removeprefix("./").rstrip("/") for text in _texts(value)]
        if not all(map(_is_path, kept)):
            raise _Refused("a recipe takes paths inside the source")
        self._keep("test.files", source, _tops(kept))

    def _test_command(self, source: str, value: object) -> None:
        command = " && ".join(_texts(value, split=False)).strip()
        if not command:
            return
        if not plain(command):
            raise _Refused("a recipe takes one line without ${…}")
        pattern = re.compile(r"\{(?:project|package)\}/([\w./-]+)")
        paths = [path.rstrip("/") for path in pattern.findall(command)]
        text = pattern.sub(lambda match: match[1].rstrip("/"), command)
        if re.search(r"\{(?:project|package|wheel)\}", text):
            raise _Refused("it uses the whole project; a test of a recipe sees test.files only")
        for path in paths:
            if not _is_path(path) or not any(name == path or name.startswith(f"{path}/") for name in self.tree.files):
                raise _Refused("it names files that are not in the project")
        if paths:
            known = self.result.values.get("test.files", ([], None))[0]
            assert isinstance(known, list)
            self._keep("test.files", source, _tops([*known, *paths]))
        self._keep("test.command", source, text)

    def _repair(self, source: str, value: object) -> None:
        commands = [text for text in _texts(value, split=False) if text.strip()]
        repair = read_repair(commands, self.tree)
        if commands and repair is None:
            raise _Refused("a command other than auditwheel repair")
        if not commands or (repair and repair.values):
            self._keep("wheel.repair", source, repair.values if repair else False)
        if repair and repair.rest:
            raise _Refused(f"a recipe does not have, or calls differently: {'; '.join(repair.rest)[:200]}")

    def _frontend(self, source: str, value: object) -> None:
        table = value if isinstance(value, dict) else {"name": value}
        if table.get("name") not in ("build", "build[uv]", "uv") or len(table) > 1:
            raise _Refused("a recipe has build and uv, without arguments")
        if table["name"] == "uv":
            self._keep("wheel.frontend", source, "uv")

    def _image(self, source: str, value: object) -> None:
        image = image_of(self.pyproject)
        if not image or self.base.value not in (image, {"image": image}):
            raise _Refused(self.refused or "not the base, or the image of one of several platforms; see builder.base")


def _size(value: object) -> int:
    """Return the characters of a setting."""
    if isinstance(value, dict):
        return sum(len(key) + _size(item) for key, item in value.items())
    return sum(map(_size, value)) if isinstance(value, list) else len(str(value))


def _is_setting(value: object) -> bool:
    return plain(value) or (isinstance(value, list) and value != [] and all(map(plain, value)))


def _scripts(command: str) -> Iterator[str]:
    """Yield the files of the project that a command runs: its first words, and the first that a shell or Python gets."""
    folder = ""
    for part in re.split(r"&&|\|\||[;|\n]", command)[:_MOST_COMMANDS]:
        words = [word for word in re.split(r"[\s'\"()]+", part) if word and not re.match(r"\w+=|-", word)]
        is_run = bool(words) and re.fullmatch(
            r"(?:.*/)?(?:ba|da|z)?sh|source|\.|exec|sudo|(?:.*/)?python[\d.]*", words[0]
        )
        is_module = re.search(r"\s-\w*[mc]\b", part)
        if words[:1] == ["cd"] and words[1:]:
            folder = posixpath.join(folder, path_in_project(words[1]))
        for word in () if is_module else words[1:2] if is_run else words[:1]:
            path = posixpath.normpath(posixpath.join(folder, path_in_project(word)))
            is_own = word.startswith(("./", "/src/")) or (not word.startswith("/") and (is_run or "/" in word))
            if is_own and not path.startswith(("/", "../")):
                yield path


def _pairs(value: object, *, repeats: bool = False) -> dict[str, object]:
    """Return a table, or the table in words such as ``A=1 B=2``; with ``repeats``, a name that stands twice has a list."""
    if not isinstance(value, str):
        return value if isinstance(value, dict) else {}
    try:
        words = [word.partition("=") for word in shell_words(value)]
    except ValueError:
        raise _Refused("it cannot be read") from None
    texts: dict[str, list[str]] = {}
    for name, equals, text in words:
        if equals:
            texts.setdefault(name, []).append(text)
    return {name: list(found) if repeats and len(found) > 1 else found[-1] for name, found in texts.items()}


def _is_path(path: str) -> bool:
    return bool(re.fullmatch(r"[\w.-]+(?:/[\w.-]+)*", path)) and ".." not in path.split("/")


def _tops(paths: list[str]) -> list[str]:
    """Return the files and folders at the top that have the paths: a test gets them without what is above them."""
    return list(dict.fromkeys(path.split("/")[0] for path in paths))


def _words(value: object) -> list[str]:
    return [word for text in _texts(value) for word in re.split(r"[\s,]+", text) if word]


def _texts(value: object, *, split: bool = True) -> list[str]:
    """Return the texts of a list, or the words of a text."""
    if isinstance(value, str):
        return value.split() if split else [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _commands(value: object) -> Iterator[list[str]]:
    """Yield the words of each command; one that the shell would change has no words."""
    for command in (part for text in _texts(value, split=False) for part in text.split("&&") if part.strip()):
        try:
            words = shell_words(command)
        except ValueError:
            words = []
        # ``>`` and ``<`` may be those of quoted requirements.
        is_plain = all(re.match(r"-|[A-Za-z0-9][\w.\-\[\]<>=!~,*]*\Z", word) for word in words)
        yield [] if re.search(r"[$`;|<>\n](?!=)", command) and not is_plain else words


def _patterns(value: object) -> tuple[str, ...]:
    """Return the selectors of ``build`` or ``skip``, braces expanded."""
    patterns: list[str] = []
    for word in (word for text in _texts(value, split=False) for word in text.split()):
        stack = [word[:200]]
        while stack and len(patterns) < _MOST_PATTERNS:
            pattern = stack.pop()
            match = re.search(r"\{([^{}]*)\}", pattern)
            if match is None:
                patterns.append(pattern)
            else:
                options = match[1].split(",")[:_MOST_PATTERNS]
                stack.extend(pattern[: match.start()] + option + pattern[match.end() :] for option in options)
    return tuple(patterns)
