"""Link programs of installed packages into a folder, in place of the scripts that start them.

Usage: PYTHON link_programs.py FOLDER NAME=PATH...     PATH is relative to the folder of PYTHON's packages
"""

from __future__ import annotations

import os
import sys
import sysconfig


def main() -> None:
    """Link the programs; exit if no package has one of them."""
    folder, *words = sys.argv[1:]
    for word in words:
        name, _, path = word.partition("=")
        program = os.path.join(sysconfig.get_path("platlib"), path)
        if not os.access(program, os.X_OK):
            sys.exit("no package has the program " + path)
        link = os.path.join(folder, name)
        if os.path.lexists(link):
            os.remove(link)
        os.symlink(program, link)


if __name__ == "__main__":
    main()
