"""Resolve requirements for a Python, and write every package that they come to with its hash.

Usage: lock.py LOCK PYTHON ARGUMENT...

The arguments are those of ``pip install``: requirements, and files of them. Nothing is installed; what is installed
from LOCK later (``pip install --no-deps -r LOCK``) is exactly what was resolved, or nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any


def resolve(python: str, arguments: list[str]) -> dict[str, Any]:
    """Return pip's report (version 1) of what it would install for an interpreter into an empty environment.

    Raises:
        SystemExit: nothing satisfies the requirements; pip said why.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        # This Python's pip acts for the other one, which may have an older pip or none.
        command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--dry-run"]
        done = subprocess.run([*command, "--ignore-installed", "--report", report, *arguments], check=False)
        if done.returncode:
            sys.exit(done.returncode)
        with open(report, encoding="utf-8") as stream:
            told: dict[str, Any] = json.load(stream)
            return told


def lines(report: dict[str, Any]) -> list[str]:
    """Return one requirement for each package of a report, sorted; with hashes, if all of them have one."""
    packages = []
    for item in report["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        download = item["download_info"]
        hashes = download.get("archive_info", {}).get("hashes", {})
        where = name + "==" + version
        if "vcs_info" in download:
            vcs = download["vcs_info"]
            where = name + " @ " + vcs["vcs"] + "+" + download["url"] + "@" + vcs["commit_id"]
        elif item.get("is_direct"):
            where = name + " @ " + download["url"]
        if download.get("subdirectory"):
            where += "#subdirectory=" + download["subdirectory"]
        packages.append((where, hashes.get("sha256", "")))
    # pip wants a hash of every package or of none; what comes from a repository is held by its commit.
    hashed = all(digest for _, digest in packages)
    return sorted(where + (" --hash=sha256:" + digest if hashed else "") for where, digest in packages)


def main() -> None:
    """Write the lock and print it."""
    if len(sys.argv) < 4:
        sys.exit("usage: lock.py LOCK PYTHON ARGUMENT...")
    text = "\n".join(lines(resolve(sys.argv[2], sys.argv[3:]))) + "\n"
    with open(sys.argv[1], "w", encoding="utf-8") as stream:
        stream.write(text)
    print(text, end="")


if __name__ == "__main__":
    main()
