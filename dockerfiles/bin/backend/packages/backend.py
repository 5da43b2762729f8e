"""Ask a project's build backend what its build requires beside [build-system] requires (PEP 517)."""

from __future__ import annotations

import glob
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import Any

from . import pip_alone, sources
from .requirements import applies, requirement
from .sdist import canonical

LEGACY = "setuptools.build_meta:__legacy__"
"""The backend of a project that names none."""

HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook.py")


def ask(folder: str, environment: str, file: str, words: list[str]) -> None:
    """Write what the backend requires and the environment lacks into a file, one requirement on each line.

    ``words`` are the config settings, KEY=VALUE; a key that is repeated has a list. Exit if the backend fails.
    """
    pip_alone.make_importable()
    required = call(folder, os.path.join(environment, "bin", "python"), config_settings(words))
    installed = versions(environment)
    lines = sorted({" ".join(text.split()) for text in required if lacks(text, installed)})
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, "w", encoding="utf-8") as stream:
        stream.writelines(line + "\n" for line in lines)
    print("\n".join(lines) or "bakery: the build backend requires nothing else")


def config_settings(words: list[str]) -> dict[str, Any]:
    """Return config settings as build frontends pass them."""
    settings: dict[str, list[str]] = {}
    for word in words:
        key, _, value = word.partition("=")
        settings.setdefault(key, []).append(value)
    return {key: values if values[1:] else values[0] for key, values in settings.items()}


def backend_of(folder: str) -> tuple[str, list[str]]:
    """Return the backend of a project and the folders of an in-tree one; exit if pyproject.toml is not valid."""
    path = os.path.join(folder, "pyproject.toml")
    table = sources.toml(path).get("build-system", {})
    table = table if isinstance(table, dict) else {}
    name, folders = table.get("build-backend", LEGACY), table.get("backend-path", [])
    if not isinstance(name, str) or not name.partition(":")[0]:
        sys.exit("bakery: build-backend in [build-system] of " + path + " is no name, such as 'setuptools.build_meta'")
    if not isinstance(folders, list) or not all(isinstance(item, str) for item in folders):
        sys.exit("bakery: backend-path in [build-system] of " + path + " is no list of folders")
    return name, [sources.within(folder, item) for item in folders]


def call(folder: str, python: str, settings: dict[str, Any]) -> list[str]:
    """Return what the hook of the backend answers, from a process of its own; exit if it fails."""
    name, folders = backend_of(folder)
    with tempfile.TemporaryDirectory() as scratch:
        answer = os.path.join(scratch, "answer.json")
        done = subprocess.run(
            [python, HOOK, name, json.dumps(settings), answer, *folders], cwd=folder, stdout=sys.stderr, check=False
        )
        if done.returncode:
            # The kernel sends SIGKILL where memory runs out.
            killed = done.returncode == -signal.SIGKILL
            how = "was ended (signal: killed)" if killed else "failed (above)"
            sys.exit("bakery: the build backend " + name + " " + how + " when asked what the build requires")
        with open(answer, encoding="utf-8") as stream:
            required = json.load(stream)
    bad = [item for item in required if requirement(item) is None]
    if bad:
        sys.exit("bakery: the build backend " + name + " requires " + repr(bad[0]) + ", which is no requirement")
    return list(required)


def versions(environment: str) -> dict[str, str]:
    """Return distribution → version of what is installed in an environment."""
    folders = glob.glob(os.path.join(glob.escape(environment), "lib*", "python3*", "site-packages"))
    found = importlib.metadata.distributions(path=folders)
    return {canonical(item.metadata["Name"]): item.version for item in found if item.metadata["Name"]}


def lacks(text: str, installed: dict[str, str]) -> bool:
    """Say whether an environment has to get something for a requirement."""
    item = requirement(text)
    if not applies(item):
        return False
    version = installed.get(canonical(item.name))
    if version is None or item.url or item.extras:
        return True
    return not item.specifier.contains(version, prereleases=True)
