#!/opt/bakery/bin/python
"""List the requirements of a project, one on each line.

Usage: requires.py FOLDER INTO [--extra=EXTRA]... [NAME...]

Writes INTO/build.txt, the requirements of its build, INTO/run.txt, its own requirements in pyproject.toml without those of
the given names, and INTO/run-EXTRA.txt, those of an extra.

Only pyproject.toml is read, so the step that installs them does not run again if only the source changes.
"""

from __future__ import annotations

import os
import re
import sys

DEFAULT = ["setuptools", "wheel"]
"""What a project without a [build-system] table is built with."""


def requirements(folder: str) -> list[str]:
    """Return the build requirements of the project in a folder; exit if its pyproject.toml is not valid."""
    path = os.path.join(folder, "pyproject.toml")
    if not os.path.isfile(path):
        return DEFAULT
    table = read(path).get("build-system", {"requires": DEFAULT})
    requires = table.get("requires") if isinstance(table, dict) else None
    if not isinstance(requires, list) or not all(isinstance(item, str) for item in requires):
        sys.exit("requires: [build-system] of " + path + " has no list named requires")
    return requires


def dependencies(folder: str, without: list[str], extra: str = "") -> list[str]:
    """Return the dependencies of the project in a folder, or of an extra; none where only its build can tell them."""
    path = os.path.join(folder, "pyproject.toml")
    table = read(path).get("project") if os.path.isfile(path) else None
    table = table if isinstance(table, dict) else {}
    listed, key = table.get("dependencies", []), "dependencies"
    if extra:
        extras, key = table.get("optional-dependencies", {}), "optional-dependencies"
        named = {name(item): value for item, value in extras.items()} if isinstance(extras, dict) else {extra: None}
        # The project itself is no requirement: an extra may stand for others of it.
        listed, without = named.get(extra, []), [name(str(table.get("name")))]
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        sys.exit("requires: " + key + " in [project] of " + path + " is no list of requirements")
    return [item for item in listed if name(item) not in without]


def name(requirement: str) -> str:
    """Return the normalised name that a requirement begins with."""
    match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", requirement)
    return re.sub(r"[-_.]+", "-", match.group(1)).lower() if match else ""


def read(path: str) -> dict[str, object]:
    """Return the data of a TOML file; exit if it is not valid, or if this Python cannot read TOML."""
    try:
        if sys.version_info >= (3, 11):
            import tomllib
        else:  # installed beside the tools, where the base's Python is that old
            import tomli as tomllib
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except ImportError:
        sys.exit("requires: this Python cannot read TOML: it is older than 3.11 and has no tomli")
    except (OSError, ValueError) as error:
        sys.exit("requires: cannot read " + path + ": " + str(error))


def main() -> None:
    """Write the lists, and print them."""
    if len(sys.argv) < 3:
        sys.exit((__doc__ or "").split("\n\n")[1])
    folder, into, words = sys.argv[1], sys.argv[2], sys.argv[3:]
    extras = [word[len("--extra=") :] for word in words if word.startswith("--extra=")]
    os.makedirs(into, exist_ok=True)
    lists = [("build.txt", requirements(folder)), ("run.txt", dependencies(folder, words))]
    lists += [("run-" + extra + ".txt", dependencies(folder, [], extra)) for extra in extras]
    for file, lines in lists:
        with open(os.path.join(into, file), "w", encoding="utf-8") as stream:
            stream.writelines(line + "\n" for line in lines)
        print(file + ": " + (", ".join(lines) or "none"))


if __name__ == "__main__":
    main()
