"""Which parts of CMake and Meson files no build reaches, because an option is off that nothing in the project switches on."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bakery.init.findings import Toml, read_toml
from bakery.init.tree import Tree

Value = bool | str | None
"""What an expression stands for; None if nobody knows."""

CUDA_OPTION = re.compile(r"(?!(?:.*_)?(?:TEST|EXAMPLE|BENCH(?:MARK)?)S?_)\w+_CUDA")
"""An option that compiles for CUDA what is in the wheel."""

_DEEPEST = 50
_COMMENT = re.compile(r"(?m)#[^\n]*$")
_DEFINITION = re.compile(r"(?<![\w-])-D[ \t]*(\w[\w.-]{0,100})(?::[A-Z]+)?=([^\s\"']{0,200})")
_CMAKE = re.compile(r"\b(if|else|elseif|endif|set|option)[ \t]*\(([^()]{0,2000})", re.IGNORECASE)
_MESON = re.compile(r"(?m)^[ \t]*(?:(if|elif|else|endif)\b([^\n]{0,500})|(\w{1,100})[ \t]*(\+?=)(?!=)([^\n]{0,500}))")
_FOLDER = re.compile(r"\b(?:subdir|add_subdirectory)[ \t]*\(\s*['\"]?([\w./-]{1,200})")
_OPTION = re.compile(r"\boption[ \t]*\(\s*'([\w.-]{1,100})'([^()]{0,1000})")
_GET_OPTION = re.compile(r"get_option\(\s*'([\w.-]+)'\s*\)(?:\s*\.\s*(enabled|allowed|disabled)\(\))?")
_CALL = re.compile(r"[\w.]{1,200}\([^()]*\)")
_FEATURE = {
    "enabled": {"enabled": True, "allowed": True, "disabled": False},
    "auto": {"enabled": False, "allowed": True, "disabled": False},
    "disabled": {"enabled": False, "allowed": False, "disabled": True},
}
"""Value of an option of type feature → its methods. Source: Meson's manual, "Build options", Features."""


@dataclass
class _Branch:
    """One ``if`` that is open.

    Attributes:
        is_off: no build reaches the branch.
        is_taken: every build took an earlier branch.
        is_certain: the conditions up to here are known.
        is_stated: a value that the project states decides, and no mere default.
    """

    is_off: bool
    is_taken: bool
    is_certain: bool
    is_stated: bool = True


_Enter = Callable[[list[_Branch], re.Match[str]], None]
"""Changes the open branches for a call of one build system."""


class Conditions:
    """The options of a project, and what of its build files they leave; the files come in the order of the build."""

    def __init__(self, tree: Tree) -> None:
        pyproject = read_toml(tree, "pyproject.toml")
        self.given = _given(pyproject) if pyproject else {}
        # An option that is named in another way may be on.
        self._settings = "".join(tree.text(name) or "" for name in ("pyproject.toml", "setup.py"))
        self._off: set[str] = set()
        self._meson = _meson_options(tree, self.given)
        self._variables: dict[str, Value] = {}
        self._left_out: set[str] = set()

    def reached(self, name: str, text: str) -> str:
        """Return the text of a build file of CMake or Meson, without comments; what no build reaches are empty lines."""
        folder, _, file = name.rpartition("/")
        is_meson = file == "meson.build"
        if not is_meson and not file.endswith(("CMakeLists.txt", ".cmake")):
            return text
        if any(f"{folder}/".startswith(f"{left}/") for left in self._left_out):
            return "\n" * text.count("\n")
        pattern, branch = (_MESON, self._meson_branch) if is_meson else (_CMAKE, self._cmake_branch)
        parts = self._parts(_COMMENT.sub("", text), pattern, branch)
        kept: list[str] = []
        dropped: list[str] = []
        for part, off in parts:
            kept.append("\n" * part.count("\n") if off else part)
            # Folders that a default of CMake leaves out are read: users switch such parts on.
            dropped += [part] if any(item.is_stated for item in off) else []
        left = "".join(kept)
        folders = {*_FOLDER.findall("".join(dropped))} - {*_FOLDER.findall(left)}
        self._left_out |= {posixpath.normpath(posixpath.join(folder, item)) for item in folders}
        return left

    def _parts(self, text: str, pattern: re.Pattern[str], branch: _Enter) -> Iterator[tuple[str, list[_Branch]]]:
        """Yield the parts of a text between its conditions, and the branches that keep every build from them."""
        branches: list[_Branch] = []
        start = 0
        for match in pattern.finditer(text):
            yield text[start : match.start()], [item for item in branches if item.is_off]
            start = match.start()
            branch(branches, match)
            if len(branches) > _DEEPEST:
                branches.clear()
                break
        yield text[start:], [item for item in branches if item.is_off]

    def _cmake_branch(self, branches: list[_Branch], match: re.Match[str]) -> None:
        command, words = match[1].lower(), match[2].split()
        if command == "option" and words and words[-1] == "OFF" and words[0] not in self._settings:
            # What is behind an option for CUDA shows what the project can do.
            self._off |= set() if CUDA_OPTION.fullmatch(words[0]) else {words[0]}
        elif command == "set" and words[1:2] == ["ON"]:
            self._off.discard(words[0])
        elif command in ("if", "elseif", "else", "endif"):
            _enter(branches, command, self._cmake_truth(words) if command.endswith("if") else None)
            if command.endswith("if") and command != "endif" and branches:
                is_stated = not self.given.keys().isdisjoint(re.findall(r"\w+", match[2]))
                branches[-1].is_stated = is_stated or (command == "elseif" and branches[-1].is_stated)

    def _cmake_truth(self, words: list[str]) -> bool | None:
        if words[:1] == ["NOT"] and words[1:2] != ["NOT"]:
            known = self._cmake_truth(words[1:])
            return None if known is None else not known
        name = re.sub(r"[\"${}]", "", words[0]) if words else ""
        if len(words) == 3 and words[1] == "STREQUAL" and name in self.given:
            return self.given[name] == words[2].strip('"')
        if len(words) != 1 or name != words[0]:
            return None
        return _is_on(self.given[name]) if name in self.given else False if name in self._off else None

    def _meson_branch(self, branches: list[_Branch], match: re.Match[str]) -> None:
        if match[1]:
            _enter(branches, match[1].replace("elif", "elseif"), _truth(self._meson_value(match[2])))
        elif not any(item.is_off for item in branches):
            value = self._meson_value(match[5]) if match[4] == "=" else None
            is_certain = all(item.is_certain for item in branches)
            self._variables[match[3]] = value if is_certain or self._variables.get(match[3]) == value else None

    def _meson_value(self, text: str) -> Value:
        """Return what an expression of Meson stands for, if options alone decide."""
        text = text.strip()
        for word, decides in (("or", True), ("and", False)):
            if len(parts := re.split(rf"\b{word}\b", text)) > 1 and "(" not in _CALL.sub("", text):
                known = [_truth(self._meson_value(part)) for part in parts]
                return decides if decides in known else None if None in known else not decides
        if negated := re.match(r"not\b", text):
            known_value = _truth(self._meson_value(text[negated.end() :]))
            return None if known_value is None else not known_value
        if compared := re.fullmatch(r"(.+?)\s*([!=]=)\s*('[^']*'|true|false)", text):
            left, right = (self._meson_value(compared[number]) for number in (1, 3))
            return None if left is None or right is None else (left == right) == (compared[2] == "==")
        return self._meson_atom(text)

    def _meson_atom(self, text: str) -> Value:
        if option := _GET_OPTION.fullmatch(text):
            value = self._meson.get(option[1])
            return _FEATURE.get(str(value), {}).get(option[2]) if option[2] else value
        if quoted := re.fullmatch(r"'([^']*)'", text):
            return quoted[1]
        return text == "true" if text in ("true", "false") else self._variables.get(text)


def _enter(branches: list[_Branch], command: str, truth: bool | None) -> None:
    if command == "if":
        branches.append(_Branch(truth is False, truth is True, truth is not None))
    elif branches and command == "endif":
        branches.pop()
    elif branches:
        last = branches[-1]
        is_else = command == "else"
        last.is_off = last.is_taken or (truth is False and not is_else)
        last.is_taken = last.is_taken or truth is True
        last.is_certain = last.is_certain and (is_else or truth is not None)


def _truth(value: Value) -> bool | None:
    return value if isinstance(value, bool) else None


def _is_on(value: str) -> bool:
    """Whether CMake takes a value as true. Source: cmake-commands(7), ``if``, basic expressions."""
    return value.upper() not in ("", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND")


def _given(pyproject: Toml) -> dict[str, str]:
    """Return the options of CMake and Meson that the project's own settings give a value."""
    cmake, linux = ("tool", "scikit-build", "cmake"), ("tool", "cibuildwheel", "linux")
    given: dict[str, str] = {}
    for path in (
        (*cmake, "args"),
        (*cmake, "define"),
        ("tool", "meson-python", "args", "setup"),
        *((*root, key) for root in (linux[:2], linux) for key in ("environment", "config-settings")),
    ):
        given |= _values(pyproject.get(*path), is_define=path[-1] == "define")
    overrides = pyproject.get("tool", "scikit-build", "overrides")
    # Which of them apply, nobody knows.
    for item in overrides if isinstance(overrides, list) else ():
        table = item.get("cmake", {}).get("define", {}) if isinstance(item, dict) else {}
        for name in table if isinstance(table, dict) else ():
            given.pop(name, None)
    return given


def _values(value: object, *, is_define: bool) -> dict[str, str]:
    if isinstance(value, str):
        named = re.findall(r"cmake\.define\.(\w+)=(\S+)", value)
        return dict((*_DEFINITION.findall(value), *named))
    found: dict[str, str] = {}
    if isinstance(value, list):
        for item in value:
            found |= _values(item, is_define=False)
    for key, item in value.items() if isinstance(value, dict) else ():
        name = key if is_define else key.removeprefix("cmake.define.")
        if not is_define and name == key:
            found |= _values(item, is_define=False)
        elif isinstance(item, bool):
            found[name] = "ON" if item else "OFF"
        else:
            # A table takes a variable of the environment, else its default.
            text = item.get("default") if isinstance(item, dict) else item
            found |= {name: text} if isinstance(text, str) else {}
    return found


def _meson_options(tree: Tree, given: Mapping[str, str]) -> dict[str, Value]:
    """Return the options of the file of options, with what the project's own settings give them."""
    name = next((name for name in ("meson.options", "meson_options.txt") if name in tree.files), "")
    text = re.sub(r"description\s*:\s*'(?:[^'\\]|\\.)*'|(?m:#[^\n]*$)", "", tree.text(name) or "" if name else "")
    project = re.search(r"\bproject[ \t]*\(([^()]{0,2000})", tree.text("meson.build") or "")
    defaults = dict(re.findall(r"'(\w+)=([^']*)'", project[1] if project else ""))
    found: dict[str, Value] = {}
    for option, rest in _OPTION.findall(text):
        stated = re.search(r"\bvalue\s*:\s*(?:'([^']*)'|(true|false))", rest)
        is_boolean = re.search(r"type\s*:\s*'boolean'", rest)
        default = (stated[1] if stated[1] is not None else stated[2]) if stated else "true" if is_boolean else None
        value = given.get(option, defaults.get(option, default))
        found[option] = value.lower() == "true" if is_boolean and value is not None else value
    return found
