"""Resolve requirements to packages with their hashes, build those that have no wheel, and install exactly these.

Usage: packages resolve PLACE [--direct=NAME,...] [OPTION...] -- WORD...   as ``pip install OPTION... WORD...``
       packages build PLACE                           build what has no wheel here
       packages install PLACE ENVIRONMENT [OPTION...]  install; more options of ``pip install``
       packages fetch NAME==VERSION FOLDER            fetch and unpack a source archive of the index
       packages wheel ENVIRONMENT [--direct=NAME,...] FILE...  install wheels; the index has what they require

Each is called as ``PYTHON -I -S packages`` (the folder of this file) with the Python that the packages are for, so that no package's code
runs when it starts; pip runs by `pip_alone.py`.

``resolve`` installs nothing. It writes what an interpreter needs in an empty environment into /requirements:
PLACE.json tells it, PLACE.txt is what ``install`` hands to pip, with a hash for every file. What has no wheel is
fetched as data, with the wheels that its build requires, into /sources/PLACE. ``build`` runs in a step
without network and secrets and makes wheels of it in /built/PLACE, which ``install`` finds there.

A requirement that names an address, and not only a package of the index, is refused unless --direct names it.

/lock says where the packages come from. With ``locked.json`` in it they are the ones listed there, and nothing else
is asked; with ``preferred.json`` those listed there are kept as far as they fit; with ``recorded.json``, which anybody
may have written, pip must come to those listed there by itself; without all three, pip decides.
"""

from __future__ import annotations

import os
import sys
import types

if not __package__:
    # Python runs the folder: its modules are a package, and nothing beside the folder can be imported.
    __package__ = "packages"
    folder = types.ModuleType(__package__)
    folder.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules[__package__] = folder

from .install import build, install, wheel
from .resolve import resolve
from .sdist import download


def main() -> None:
    """Do what the first word says."""
    words = sys.argv[1:]
    if len(words) >= 3 and words[0] == "resolve" and "--" in words:
        resolve(words[1], words[2:])
    elif len(words) == 2 and words[0] == "build":
        build(words[1])
    elif len(words) >= 3 and words[0] == "install":
        install(words[1], words[2], words[3:])
    elif len(words) == 3 and words[0] == "fetch":
        download(words[1], words[2])
    elif len(words) >= 3 and words[0] == "wheel":
        wheel(words[1], words[2:])
    else:
        sys.exit((__doc__ or "").split("\n\n")[1])


if __name__ == "__main__":
    main()
