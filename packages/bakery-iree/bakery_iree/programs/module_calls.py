"""Run programs one after the other, and write how each one ended.

Usage: module_calls.py CALLS.json RESULT.json

CALLS is a list of ``{"argv": [...], "seconds": N}``. RESULT is ``{"runtime": VERSION, "calls": [{"code": N, "log": "…"}]}``,
in the same order. A negative code is the number of a signal; ``null`` stands for a program that exceeded its time limit.
VERSION is that of iree-base-runtime, empty if it was not installed as a package.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Dict, List, Union

LOG = 2000
"""Bytes of the end of a program's output that are written."""

Result = Dict[str, Union[int, str, None]]


def run(argv: List[str], seconds: float) -> Result:
    """Run one program."""
    with open("log", "w+b") as log:
        try:
            code = subprocess.call(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
        size = log.seek(0, 2)
        log.seek(max(0, size - LOG))
        return {"code": code, "log": log.read().decode("utf-8", "replace")}


def runtime() -> str:
    """Return the version of IREE's runtime."""
    try:
        return version("iree-base-runtime")
    except PackageNotFoundError:
        return ""


def main() -> None:
    """Run all that is listed."""
    with open(sys.argv[1]) as file:
        calls = json.load(file)
    results = [run(call["argv"], call["seconds"]) for call in calls]
    with open(sys.argv[2], "w") as file:
        json.dump({"runtime": runtime(), "calls": results}, file)


if __name__ == "__main__":
    main()
