"""Run pip alone: no other package can be imported, no ``.pth`` file is read, no program is started.

Usage: PYTHON -I -S pip_alone.py ENVIRONMENT WORD...     like ``pip WORD...``; ENVIRONMENT is where pip installs, or ""

Steps with credentials use only this pip. It sees the packages of the environment as installed, but none of their code
can run: not at the start of Python, not through an import, and not as the build of a source archive.
"""

from __future__ import annotations

import glob
import importlib.machinery
import importlib.util
import os
import re
import runpy
import sys
from typing import Any

MOUNTED = "/opt/pip"
"""An environment with pip and nothing else, from another stage: for steps whose own environment gets other packages."""

TOOLS = "/opt/bakery"

OLDEST = 23
"""Reports of pip 23.0 have a stable format."""

PROGRAMS = ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system")
"""Audit events of Python that start a program."""


def home() -> str:
    """Return the folder with the package pip, if possible one of this Python, with bytecode; exit if there is none."""
    environment = os.path.dirname(os.path.dirname(sys.executable))
    # What was installed into the environment may have replaced its pip: the base's is as good, and comes first.
    places = [(root, "python%d.%d" % sys.version_info[:2]) for root in (MOUNTED, TOOLS, sys.base_prefix)]
    for root, version in (*places, *((root, "python3*") for root in (MOUNTED, TOOLS, environment))):
        paths = glob.glob(os.path.join(glob.escape(root), "lib", version, "site-packages", "pip", "__init__.py"))
        folder = os.path.dirname(os.path.dirname(paths[0])) if paths else ""
        if folder and not (root == sys.base_prefix and is_old(folder)):
            return folder
    sys.exit("bakery: there is no pip in " + ", ".join((MOUNTED, TOOLS, environment)))


def is_old(folder: str = "") -> bool:
    """Say whether pip is older than `OLDEST`, without running it."""
    with open(os.path.join(folder or home(), "pip", "__init__.py"), encoding="utf-8") as stream:
        match = re.search(r"__version__ = \"(\d+)\.", stream.read())
    return not match or int(match.group(1)) < OLDEST


class Pip:
    """Finds the package pip, and nothing else."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """Return where pip is."""
        return importlib.machinery.PathFinder.find_spec(name, [self.folder]) if name == "pip" else None


class Unread(importlib.machinery.FileFinder):
    """A folder on ``sys.path`` that nothing is imported from; what is installed there can still be listed."""

    def find_spec(self, name: str, target: object = None) -> None:
        """Return that there is no such module."""
        return


def make_importable() -> None:
    """Let this interpreter import pip, and no other package."""
    if importlib.util.find_spec("pip") is None:
        sys.meta_path.insert(0, Pip(home()))


def enter(environment: str) -> None:
    """Make pip install into an environment as if it ran there; exit if a package put a configuration of pip into it."""
    if os.path.lexists(os.path.join(environment, "pip.conf")):
        sys.exit("bakery: an installed package brought " + environment + "/pip.conf, which would change where pip goes")
    sys.prefix = sys.exec_prefix = environment
    sys.executable = os.path.join(environment, "bin", "python")
    import sysconfig  # it keeps the prefix that it was imported with

    for site in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        sys.path_importer_cache[site] = Unread(site)
        sys.path.append(site)


def refuse_programs(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise PermissionError if pip starts a program."""
    if event in PROGRAMS:
        raise PermissionError("bakery: pip must not start a program here")


def command(environment: str = "") -> list[str]:
    """Return the command that runs pip alone."""
    return [sys.executable, "-I", "-S", "-B", os.path.abspath(__file__), environment]


def main() -> None:
    """Run pip."""
    environment, words = sys.argv[1], sys.argv[2:]
    make_importable()
    if environment:
        enter(environment)
    # An interpreter of the base is none that pip would install into; here it is only asked for.
    os.environ["PIP_BREAK_SYSTEM_PACKAGES"] = "1"
    sys.addaudithook(refuse_programs)
    sys.argv = ["pip", *words]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
