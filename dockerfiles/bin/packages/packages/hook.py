"""Call ``get_requires_for_build_wheel`` of a build backend (PEP 517), and write its answer into a file.

Usage: PYTHON hook.py BACKEND SETTINGS FILE [FOLDER...]     in the folder of the source; SETTINGS is JSON

This runs code of the project: nothing of ``packages`` is imported. FOLDERs are those of an in-tree backend.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any


def load(name: str, folders: list[str]) -> Any:
    """Return the object that a backend's name stands for; exit if an in-tree one is elsewhere."""
    module_name, _, attributes = name.partition(":")
    module: Any = importlib.import_module(module_name)
    path = os.path.realpath(getattr(module, "__file__", None) or "")
    roots = [os.path.realpath(folder) + os.sep for folder in folders]
    if folders and not path.startswith(tuple(roots)):
        sys.exit("bakery: " + module_name + " is not in backend-path: " + (path or "it has no file"))
    for attribute in filter(None, attributes.split(".")):
        module = getattr(module, attribute)
    return module


def answer(name: str, settings: dict[str, Any], folders: list[str]) -> list[str]:
    """Return the answer of the hook; nothing is required by a backend without it."""
    hook = getattr(load(name, folders), "get_requires_for_build_wheel", None)
    return [str(item) for item in hook(settings)] if hook else []


def main() -> None:
    """Write the answer; if the backend raises an exception, print it with the line that it is from, and exit."""
    name, settings, file, *folders = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    # The source is on the path only where backend-path says so.
    sys.path[:] = [*folders, *(item for item in sys.path if os.path.abspath(item) not in (here, os.getcwd()))]
    sys.argv = [name]
    try:
        required = answer(name, json.loads(settings), folders)
    except Exception as error:
        frame = (traceback.extract_tb(error.__traceback__) or [None])[-1]
        where = " (" + frame.filename + ":" + str(frame.lineno) + ")" if frame else ""
        sys.exit("bakery: " + "".join(traceback.format_exception_only(type(error), error)).strip() + where)
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(required, stream)


if __name__ == "__main__":
    main()
