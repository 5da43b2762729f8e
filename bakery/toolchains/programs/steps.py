"""Steps of a build by cibuildwheel that would need another shell command on each of Linux, macOS and Windows.

Usage: steps.py install REQUIREMENT...           install packages
       steps.py prepare PACKAGE REQUIREMENT...   install the build requirements of a project, and more
       steps.py take PACKAGE FILE...             copy files and folders of the source into this folder
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys


def install(requirements: list[str]) -> None:
    """Install packages for this interpreter; uv does where there is no pip."""
    command = [sys.executable, "-m", "pip", "install"]
    if importlib.util.find_spec("pip") is None:
        command = ["uv", "pip", "install", "--python", sys.executable]
    done = subprocess.run([*command, *requirements], check=False)
    if done.returncode:
        sys.exit("steps: cannot install " + ", ".join(requirements))


def prepare(package: str, requirements: list[str]) -> None:
    """Install the requirements and the project's own: those it lists, then those that its backend asks for."""
    from build import ProjectBuilder

    builder = ProjectBuilder(package, python_executable=sys.executable)
    install([*requirements, *sorted(builder.build_system_requires)])
    more = sorted(builder.get_requires_for_build("wheel"))
    if more:
        install(more)


def take(package: str, files: list[str]) -> None:
    """Copy each file or folder, under its own name, to where the test command runs."""
    # cibuildwheel's, for tests that run without any: these have some.
    if os.path.exists("test_fail.py"):
        os.remove("test_fail.py")
    for name in files:
        source = os.path.join(package, name)
        target = os.path.basename(os.path.normpath(source))
        if os.path.isdir(source):
            shutil.copytree(source, target)
        elif os.path.isfile(source):
            shutil.copy(source, target)
        else:
            sys.exit("steps: the source has no " + name)


def main() -> None:
    """Do one step."""
    steps = {"prepare": prepare, "take": take}
    if len(sys.argv) > 2 and sys.argv[1] == "install":
        install(sys.argv[2:])
    elif len(sys.argv) < 3 or sys.argv[1] not in steps:
        sys.exit("usage: steps.py install|prepare|take WORD...")
    else:
        steps[sys.argv[1]](sys.argv[2], sys.argv[3:])


if __name__ == "__main__":
    main()
