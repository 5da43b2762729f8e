"""Print what the project in the folder of the first argument needs to be built, one requirement a line.

Only pyproject.toml is read, so the step that installs them is not repeated when the source changes.
"""

from __future__ import annotations

import os
import sys

DEFAULT = ["setuptools", "wheel"]
"""What a project without a [build-system] table is built with."""


def requirements(folder: str) -> list[str]:
    """Return the build requirements of the project in a folder.

    Raises:
        SystemExit: its pyproject.toml cannot be understood.
    """
    path = os.path.join(folder, "pyproject.toml")
    if not os.path.isfile(path):
        return DEFAULT
    table = read(path).get("build-system", {"requires": DEFAULT})
    requires = table.get("requires") if isinstance(table, dict) else None
    if not isinstance(requires, list) or not all(isinstance(item, str) for item in requires):
        sys.exit("requires: [build-system] of " + path + " has no list named requires")
    return requires


def read(path: str) -> dict[str, object]:
    """Return what a TOML file holds.

    Raises:
        SystemExit: it is no TOML, or this Python cannot read any.
    """
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
    """Print the requirements."""
    if len(sys.argv) != 2:
        sys.exit("usage: requires.py FOLDER")
    print("\n".join(requirements(sys.argv[1])))


if __name__ == "__main__":
    main()
