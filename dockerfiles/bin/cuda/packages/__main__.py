"""Resolve requirements to packages with hashes, build those without a wheel, and install exactly these.

Usage: packages resolve PLACE [--direct=NAME,...] [--of-base=NAME,...] [--beside=PLACE,...] [--layer=PATTERN,...]
                [OPTION...] -- WORD...                      like ``pip install OPTION... WORD...``, but install nothing
       packages ask FOLDER ENVIRONMENT FILE [KEY=VALUE...]  write what a project's build backend requires beside that
       packages build PLACE                                 build the packages without a wheel
       packages add PLACE ENVIRONMENT                       build and install what ``resolve --beside=...`` left here
       packages install PLACE ENVIRONMENT                   install
       packages unpack PLACE FOLDER                         install into a folder, with no environment
       packages fetch NAME==VERSION FOLDER                  download and unpack a source archive of the index
       packages wheel ENVIRONMENT [--direct=NAME,...] [--extra=NAME,...] FILE...
                                                            install wheels and their requirements

Each command is ``PYTHON -I -S packages`` (the folder of this file) with the Python of the packages, so no code of a
package runs at its start; pip runs with `pip_alone.py`.

``resolve`` installs nothing. It writes the packages for an empty environment into /requirements: PLACE.json lists them,
and PLACE.txt has the requirements for pip, with a hash for every file. Packages without a wheel are downloaded as data,
with the wheels that their build requires, into /sources/PLACE. ``build`` runs in a step without network and secrets and
writes their wheels into /built/PLACE, where ``install`` finds them.

With --beside=PLACE, ``resolve`` prefers the packages of that place, leaves out those that it has, and downloads the other
wheels: ``add`` runs in a step without network and secrets, in an environment whose packages may replace anything.

A requirement with a URL is refused unless --direct names its package. Requirements of --of-base are resolved only if the
base has no such program, or an older one.

Wheels of --layer are also listed in /requirements/framework.txt, the place of a layer that projects share.

The variable FRAMEWORK_INDEX is an index that pip asks beside those of its configuration.

/lock decides which packages are used: exactly those of ``locked.json``; or those of ``preferred.json`` as far as they
fit; or pip must resolve to those of ``recorded.json``, which is not trusted; without these files, pip decides.
"""

from __future__ import annotations

import os
import sys
import types
from importlib.machinery import ModuleSpec

if not __package__:
    # Python runs the folder: its modules are a package, and nothing beside the folder can be imported. Python 3.15 looks at
    # the specification alone.
    __package__, __spec__ = "packages", ModuleSpec("packages.__main__", None)
    folder = types.ModuleType(__package__)
    folder.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules[__package__] = folder

from .backend import ask
from .install import add, build, install, wheel
from .resolve import resolve
from .sdist import add_index, fetch_source


def main() -> None:
    """Do what the first word says."""
    words = sys.argv[1:]
    add_index(os.environ.pop("FRAMEWORK_INDEX", ""))
    if len(words) >= 3 and words[0] == "resolve" and "--" in words:
        resolve(words[1], words[2:])
    elif len(words) >= 4 and words[0] == "ask":
        ask(words[1], words[2], words[3], words[4:])
    elif len(words) == 3 and words[0] == "add":
        add(words[1], words[2])
    elif len(words) == 2 and words[0] == "build":
        build(words[1])
    elif len(words) == 3 and words[0] == "install":
        install(words[1], words[2], [])
    elif len(words) == 3 and words[0] == "unpack":
        install(words[1], "", ["--no-compile", "--progress-bar=off", "--target=" + words[2]])
    elif len(words) == 3 and words[0] == "fetch":
        fetch_source(words[1], words[2])
    elif len(words) >= 3 and words[0] == "wheel":
        wheel(words[1], words[2:])
    else:
        sys.exit((__doc__ or "").split("\n\n")[1])


if __name__ == "__main__":
    main()
