"""``repair-wheel-command`` of cibuildwheel: what auditwheel is told, also by a script of the project."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bakery.init.findings import shell_words, texts
from bakery.init.tree import Tree

_PROGRAM = re.compile(r"(?:.*[/;&|(])?auditwheel(?:\.exe)?", re.DOTALL)
_WITH_VALUE = ("-w", "--wheel-dir", "-L", "--lib-sdir", "-z", "--zip-compression-level", "--plat", "--exclude")
_LAUNCHERS = ("uvx", "pipx", "run", "uv", "tool", "-m")
_MOST_SCRIPTS = 10
_MOST_EXCLUDED = 100
_SONAME = re.compile(r"[A-Za-z0-9._+*?\[\]-]+\Z")


@dataclass
class Repair:
    """What a repair command says.

    Attributes:
        values: keys of ``wheel.repair``.
        rest: commands and options that are not carried over.
    """

    values: dict[str, object] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)


def read_repair(commands: Sequence[str], tree: Tree) -> Repair | None:
    """Return what commands say about the repair of a wheel; None if none of them calls auditwheel.

    A script of the project is read for its calls of auditwheel.
    """
    repair, is_found = Repair(), False
    for command in (part.strip() for text in commands for part in re.split(r"&&|;|\n", text) if part.strip()):
        if _place(command.split()):
            _call(repair, command)
            is_found = True
            continue
        scripts = [word for word in dict.fromkeys(map(path_in_project, command.split())) if word in tree.files][
            :_MOST_SCRIPTS
        ]
        calls = [line for _, text in texts(tree, scripts) for line in _lines(text) if _place(line.split())]
        for line in calls:
            _call(repair, line)
        if calls:
            repair.rest.append(f"{scripts[0]} but its calls of auditwheel")
        else:
            repair.rest.append(command)
        is_found = is_found or bool(calls)
    return repair if is_found else None


def path_in_project(word: str) -> str:
    """Return a word of a command as a path in the project, which cibuildwheel has at ``/project``."""
    return posixpath.normpath(re.sub(r"^(?:\{(?:project|package)\}|/project|/src)/", "", word.strip("'\"")))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a script, continued ones joined, without comments."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if not line.lstrip().startswith("#"):
            yield line


def _place(words: Sequence[str]) -> tuple[int, int] | None:
    """Return the places of ``auditwheel`` and ``repair``, which only options may separate; None if nothing calls them."""
    start = None
    for place, word in enumerate(words):
        if start is not None and word == "repair":
            return start, place
        if _PROGRAM.fullmatch(word):
            start = place
        elif not word.startswith("-"):
            start = None
    return None


def _call(repair: Repair, command: str) -> None:
    """Add what a call of ``auditwheel repair`` says."""
    try:
        words = shell_words(command)
    except ValueError:
        words = []
    places = _place(words)
    if places is None:
        repair.rest.append(command)
        return
    start, end = places
    if before := [word for word in words[:start] if not re.match(r"python[0-9.]*\Z", word) and word not in _LAUNCHERS]:
        repair.rest.append(" ".join(before))
    rest = iter(words[end + 1 :])
    for word in rest:
        name, _, given = word.partition("=")
        value = (given or next(rest, "")) if name in _WITH_VALUE else ""
        if name == "--exclude":
            _exclude(repair, value)
        elif name == "--plat":
            _plat(repair, value)
        elif name == "--strip":
            repair.values["strip"] = True
        elif name.startswith("-") and name not in ("-w", "--wheel-dir", "-v", "--verbose"):
            repair.rest.append(f"{name} {value}".strip())


def _exclude(repair: Repair, value: str) -> None:
    # auditwheel compares names and paths; a recipe has names.
    name = posixpath.basename(value)
    excluded = repair.values.setdefault("exclude", [])
    assert isinstance(excluded, list)
    if not _SONAME.match(name):
        repair.rest.append(f"--exclude {value}".strip())
    elif name not in excluded:
        (excluded if len(excluded) < _MOST_EXCLUDED else repair.rest).append(name)
    if not excluded:
        del repair.values["exclude"]


def _plat(repair: Repair, value: str) -> None:
    """Take a policy; ``auto`` and variables, such as AUDITWHEEL_PLAT of the image, are the default."""
    if value == "auto" or "AUDITWHEEL_PLAT" in value:
        return
    # As `wheel.repair.plat` takes it.
    policies = r"(manylinux(?:_2_[0-9]{1,3}|1|2010|2014)|musllinux_1_[0-9]{1,2})(?:_(?:x86_64|aarch64))?"
    policy = re.fullmatch(policies, value)
    if policy:
        repair.values["plat"] = policy[1]
    else:
        repair.rest.append(f"--plat {value}".strip())
