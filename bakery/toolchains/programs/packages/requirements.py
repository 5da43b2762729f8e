"""Requirements, and the packages that stand for them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import Any, Collection, Dict, NoReturn

from . import pip_alone
from .sdist import canonical

BUILT_HERE = "  # built from its source"
"""Ends the line of a package that ``build`` makes a wheel of."""

EXTRA = re.compile(r"(?P<name>\S+) \S+ does not provide the extra '(?P<extra>[^']*)'")
"""pip's warning where a requirement has an extra that its distribution does not know."""

ADDRESS = re.compile(r"://(?:[^/?#\s]*@|[^/?#\s]*:(?!\d*(?:[/?#\s]|$))\S*@)?([^?#\s]*)(?:\?[^#\s]*)?")
"""An address, with its user and password; a password that is not encoded goes on to the last ``@``."""

Package = Dict[str, Any]


def requirement(text: str) -> Any:
    """Return a requirement as pip reads it; None where the text is none."""
    pip_alone.make_importable()
    from pip._vendor.packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def words_of(arguments: list[str]) -> list[str]:
    """Return requirements, with the lines of a file in place of ``-r FILE``.

    Exit if one is not a requirement, since pip would treat it as an option or a file.
    """
    words = []
    rest = iter(arguments)
    for word in rest:
        if word != "-r":
            words.append(word)
            continue
        with open(next(rest), encoding="utf-8") as stream:
            words += [line.strip() for line in stream if line.strip()]
    bad = [word for word in words if requirement(word) is None]
    if bad:
        sys.exit(
            "\n".join("bakery: " + repr(shown(word)) + " is no requirement, such as 'cmake>=3.26'" for word in bad)
        )
    return words


def shown(text: str) -> str:
    """Return a text whose addresses have no user, password and query: they may be secret, and others read logs."""
    return ADDRESS.sub(r"://\1", text)


def check_direct(words: Collection[str], allowed: Collection[str], whose: str = "") -> None:
    """Exit if a requirement that is not allowed has a URL."""
    parsed = [item for item in map(requirement, words) if item is not None and item.url]
    refused = [item for item in parsed if canonical(item.name) not in allowed]
    if refused:
        refuse([(item.name, item.url) for item in refused], whose)


def refuse(refused: list[tuple[str, str]], whose: str) -> NoReturn:
    """Exit with a message about a refused package and how to allow it."""
    lines = ["bakery: " + (whose + " requires " if whose else "") + name + " @ " + shown(url) for name, url in refused]
    names = ", ".join('"' + canonical(name) + '"' for name, _ in refused)
    sys.exit(
        "\n".join(lines) + "\nbakery: an address is no package of the index, and the recipe does not allow it\n"
        "bakery: require a release of the index, or allow it by name: builder.allow-direct = [" + names + "]"
    )


def name_of(word: str) -> str:
    """Return the name of the distribution that a requirement begins with; empty for other words."""
    match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", word)
    return canonical(match.group(1)) if match else ""


def unknown_extras(output: str, words: list[str]) -> list[str]:
    """Return pip's warnings about extras that do not exist, if ``words`` name these extras.

    Extras in requirements of packages of the index are not reported.
    """
    warnings = []
    for match in EXTRA.finditer(output):
        for word in words:
            extras = re.search(r"\[([^]]*)\]", word)
            requested = map(canonical, extras.group(1).replace(" ", "").split(",")) if extras else []
            if name_of(word) == canonical(match.group("name")) and canonical(match.group("extra")) in requested:
                warnings.append(match.group(0))
    return warnings


def is_source(package: Package) -> bool:
    """Say whether a package has to be built."""
    return not package["file"].endswith(".whl")


def line(package: Package) -> str:
    """Return the requirement that stands for exactly one package."""
    origin = package.get("origin")
    where = package["name"] + (" @ " + origin if origin else "==" + package["version"])
    return str(where + (" --hash=sha256:" + package["sha256"] if package["sha256"] else ""))


def names_of(prefix: str, arguments: list[str]) -> tuple[set[str], list[str]]:
    """Return the names that options with this prefix list, and the other arguments."""
    names = [name for word in arguments if word.startswith(prefix) for name in word[len(prefix) :].split(",")]
    return {canonical(name) for name in names if name}, [word for word in arguments if not word.startswith(prefix)]


def applies(parsed: Any) -> bool:
    """Say whether a requirement's marker, if it has one, is for this Python."""
    return parsed.marker is None or bool(parsed.marker.evaluate({"extra": ""}))


def has_program(word: str) -> bool:
    """Say whether the base has the program that a requirement is named after, in a version that satisfies it."""
    name = name_of(word)
    if name == "pip":
        return not pip_alone.is_old()
    path = shutil.which(name)
    done = path and subprocess.run([path, "--version"], stdout=subprocess.PIPE, check=False)
    match = re.search(r"[0-9]+(\.[0-9]+)+", done.stdout.decode(errors="replace")) if done else None
    return match is not None and bool(requirement(word).specifier.contains(match.group(), prereleases=True))


def check_found(packages: list[Package], allowed: Collection[str], whose: str = "a dependency") -> None:
    """Exit if a package that is not allowed comes from a URL."""
    direct = [(item["name"], item["origin"]) for item in packages if item.get("origin")]
    refused = [(name, origin) for name, origin in direct if canonical(name) not in allowed]
    if refused:
        refuse(refused, whose)


def run(command: list[str]) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(done.returncode)
