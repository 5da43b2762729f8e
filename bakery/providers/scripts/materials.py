"""Tell what an image is made of, beside packages of the index.

Usage: materials.py image NAME BASE     what the packages of this image's own manager are, without those of the image
                                        below it, whose file system is at BASE; and the versions of compilers and tools
       materials.py suites              the state of the suites that apt knows

Each writes a file of JSON into /materials.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import subprocess
import sys
from typing import Any

FOLDER = "/materials"
LOCKED = "/lock/locked.json"

PROGRAMS = ("cc", "c++", "ld", "make", "ccache", "git", "nvcc", "clang++", "cmake", "ninja", "python")
"""Programs whose versions are told, where there are any. Those of the CUDA toolkit stand first on PATH."""


def packages(root: str) -> dict[str, str]:
    """Return name → version of the packages in a file system, with the architecture of foreign ones."""
    status = os.path.join(root, "var/lib/dpkg/status")
    if os.path.exists(status):
        with open(status, encoding="utf-8") as stream:
            return dict(filter(None, map(package, stream.read().split("\n\n"))))
    if shutil.which("rpm"):
        command = ["rpm", "--root", root, "--query", "--all", "--queryformat", "%{NAME}\\t%{EVR}.%{ARCH}\\n"]
        said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()
        return dict(line.split("\t", 1) for line in said.splitlines())
    return {}


def package(paragraph: str) -> tuple[str, str] | None:
    """Return name and version of an installed package in dpkg's list."""
    fields = dict(re.findall(r"(?m)^(Package|Status|Version|Architecture): (.*)$", paragraph))
    if not fields.get("Status", "").endswith(" installed"):
        return None
    return fields["Package"], fields["Version"]


def program(name: str) -> str:
    """Return the first line that a program says of its version; empty where there is no such program."""
    path = shutil.which(name)
    if not path:
        return ""
    done = subprocess.run([path, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    # nvcc says its release further down.
    said = next((line for line in lines if "release" in line and name == "nvcc"), lines[0] if lines else "")
    return "" if done.returncode else said


def image(name: str, base: str) -> None:
    """Write what this image has beside what the one below it has."""
    below = packages(base)
    own = {key: version for key, version in packages("/").items() if below.get(key) != version}
    tools = {key: said for key in PROGRAMS if (said := program(key))}
    write(name, {"packages": own, "tools": tools})


def suites() -> None:
    """Write which state apt's suites are in; with a lock, what that says."""
    if os.path.exists(LOCKED):
        with open(LOCKED, encoding="utf-8") as stream:
            write("suites", json.load(stream)["suites"])
        return
    found = {}
    if shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        for path in glob.glob("/var/lib/apt/lists/*Release"):
            with open(path, encoding="utf-8") as stream:
                fields = dict(re.findall(r"(?m)^(Codename|Date): (.*)$", stream.read()))
            if "Codename" in fields:
                found[fields["Codename"]] = fields.get("Date", "")
    write("suites", found)


def write(name: str, told: dict[str, Any]) -> None:
    """Write and print a file."""
    os.makedirs(FOLDER, exist_ok=True)
    text = json.dumps(told, indent=1, sort_keys=True)
    with open(os.path.join(FOLDER, name + ".json"), "w", encoding="utf-8") as stream:
        stream.write(text)
    print(text)


def main() -> None:
    """Do what the first word says."""
    words = sys.argv[1:]
    if len(words) == 3 and words[0] == "image":
        image(words[1], words[2])
    elif words == ["suites"]:
        suites()
    else:
        sys.exit((__doc__ or "").split("\n\n")[1])


if __name__ == "__main__":
    main()
