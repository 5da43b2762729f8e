"""Make a virtual environment with pip and nothing else.

Usage: PYTHON -I -S make_venv.py FOLDER

``python -m venv`` runs pip to install itself, which takes seconds. This copies pip, with its bytecode, from Bakery's
tools or from the base where they have the same Python, and else unpacks the wheel that Python brings. Where it has no
bytecode, as in that wheel and in images that save space, it is compiled here, once: each start of pip would do so again.
"""

from __future__ import annotations

import compileall
import ensurepip
import glob
import importlib.util
import os
import py_compile
import re
import shutil
import sys
import sysconfig
import venv
import zipfile

TOOLS = "/opt/bakery"
OLDEST = 23
"""Older ones have no stable report, and come in several wheels in some distributions."""

SCRIPT = """\
#!{python}
import sys
from pip._internal.cli.main import main
sys.exit(main())
"""


def site(environment: str) -> str:
    """Return the folder of an environment's packages for this Python."""
    return os.path.join(environment, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")


def is_new(path: str) -> bool:
    """Say whether a wheel or a dist-info folder is that of a pip that is new enough."""
    major = re.match(r"pip-(\d+)", os.path.basename(path))
    return major is not None and int(major.group(1)) >= OLDEST


def copy_pip(source: str, target: str) -> bool:
    """Copy pip between folders of packages; say whether the first one has it."""
    records = glob.glob(os.path.join(glob.escape(source), "pip-*.dist-info"))
    if not records or not is_new(records[0]):
        return False
    for folder in (os.path.join(source, "pip"), records[0]):
        shutil.copytree(folder, os.path.join(target, os.path.basename(folder)))
    return True


def bundled_wheel() -> str:
    """Return the wheel of pip that Python or its distribution brings; empty where there is none that is new enough."""
    of_distribution = sysconfig.get_config_var("WHEEL_PKG_DIR") or "/usr/share/python-wheels"
    folders = (of_distribution, os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"))
    wheels = [wheel for folder in folders for wheel in sorted(glob.glob(os.path.join(folder, "pip-*.whl")))]
    return next(filter(is_new, wheels), "")


def compile_pip(target: str) -> None:
    """Compile the package pip in a folder of packages, unless that is done.

    The bytecode names the content of its source, not its time: it is the same in every build, and never taken for that of
    another pip.
    """
    pip = os.path.join(target, "pip")
    if not os.path.exists(importlib.util.cache_from_source(os.path.join(pip, "__init__.py"))):
        compileall.compile_dir(pip, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


def add_scripts(folder: str) -> None:
    """Write the scripts that start pip."""
    for name in ("pip", "pip3", "pip%d.%d" % sys.version_info[:2]):
        path = os.path.join(folder, "bin", name)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(SCRIPT.format(python=os.path.join(folder, "bin", "python")))
        os.chmod(path, 0o755)


def main() -> None:
    """Make the environment."""
    if len(sys.argv) != 2:
        sys.exit((__doc__ or "").split("\n\n")[1])
    folder = sys.argv[1]
    venv.EnvBuilder(symlinks=True).create(folder)
    if not any(copy_pip(site(source), site(folder)) for source in (TOOLS, sys.base_prefix)):
        wheel = bundled_wheel()
        if not wheel:
            venv.EnvBuilder(symlinks=True, with_pip=True).create(folder)
            return
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site(folder))
    compile_pip(site(folder))
    add_scripts(folder)


if __name__ == "__main__":
    main()
