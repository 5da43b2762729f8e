"""Build what has no wheel, and install exactly what was resolved."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse

from . import pip_alone, sources
from .requirements import BUILT_HERE, applies, check_found, name_of, names_of, requirement, run
from .resolve import RESOLVED, SOURCES, WHEELS, packages, read
from .sdist import canonical

BUILT = "/built"


def build(place: str) -> None:
    """Build the sources of a place, which runs their code; exit if one fails, or requires unresolved packages."""
    folder, out = os.path.join(SOURCES, place), os.path.join(BUILT, place)
    os.makedirs(out, exist_ok=True)
    for number in sorted(filter(str.isdigit, os.listdir(folder)), key=int):
        with open(os.path.join(folder, number, "source.json"), encoding="utf-8") as stream:
            record = json.load(stream)
        source = sources.Source(**record["source"])
        sources.build(source, os.path.join(folder, number, "wheels"), out)
        check_requires(source, built(source.name, source.version, out), record["beside"])


def built(name: str, version: str, folder: str) -> str:
    """Return the wheel of a package that was built from source; exit if there is none."""
    source = sources.Source(name, version, "", "", "", "", [], "", [], [])
    for file in sorted(os.listdir(folder)):
        if sources.is_of(file, source):
            return os.path.join(folder, file)
    sys.exit("bakery: " + name + " has no wheel here, and nothing builds its source for this step")


def check_requires(source: sources.Source, wheel: str, beside: dict[str, str]) -> None:
    """Exit if a built wheel requires packages that were not resolved, since its source did not list them."""
    parsed = [item for item in map(requirement, sources.required(wheel)) if item is not None]
    lacking = [
        str(item)
        for item in filter(applies, parsed)
        if not (version := beside.get(canonical(item.name)))
        or not (version == sources.UNKNOWN or item.specifier.contains(version, prereleases=True))
    ]
    if lacking:
        sys.exit(
            "bakery: " + source.name + " was built from its source, and requires " + ", ".join(lacking) + ",\n"
            "bakery: which the source did not say: name it beside " + source.name
        )


def install(place: str, environment: str, options: list[str]) -> None:
    """Install exactly the resolved packages; exit if pip fails."""
    with open(os.path.join(RESOLVED, place + ".txt"), encoding="utf-8") as stream:
        lines = [item.rstrip("\n") for item in stream]
    if environment:
        os.makedirs(environment, exist_ok=True)
    if not lines:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as stream:
        stream.writelines((of_built(place, item) if item.endswith(BUILT_HERE) else item) + "\n" for item in lines)
        stream.flush()
        words = ["--no-deps", "--require-hashes", "--only-binary=:all:", *options, "-r", stream.name]
        run([*pip_alone.command(environment), "install", *words])


def add(place: str, environment: str) -> None:
    """Build the sources of a place, and install their wheels and those that were downloaded; exit if one fails."""
    build(place)
    folders = (os.path.join(SOURCES, place, WHEELS), os.path.join(BUILT, place))
    wheels = [os.path.join(folder, file) for folder in folders for file in sorted(os.listdir(folder))]
    if wheels:
        run([*pip_alone.command(environment), "install", "--no-index", "--no-deps", *wheels])


def of_built(place: str, text: str) -> str:
    """Return the requirement that stands for the wheel which was built in place of a line."""
    version = re.match(r"[^=\s]+==(\S+)", text)
    path = built(name_of(text), version.group(1) if version else sources.UNKNOWN, os.path.join(BUILT, place))
    with open(path, "rb") as stream:
        digest = hashlib.sha256(stream.read()).hexdigest()
    return name_of(text) + " @ file://" + urllib.parse.quote(path) + " --hash=sha256:" + digest


def wheel(environment: str, arguments: list[str]) -> None:
    """Install wheels; with a lock, only if it contains all their requirements.

    Exit if pip fails, or if a requirement has a URL that is not allowed.
    """
    allowed, words = names_of("--direct=", arguments)
    extras, files = names_of("--extra=", words)
    is_locked = read("locked.json") is not None
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "report.json")
        asked = "[" + ",".join(sorted(extras)) + "]" if extras else ""
        words = ["--only-binary=:all:", "--report", path, *(["--no-index"] if is_locked else [])]
        words += [file + asked for file in files]
        done = subprocess.run([*pip_alone.command(environment), "install", *words], check=False)
        if done.returncode:
            sys.exit(
                "bakery: the wheel requires what "
                + ("bakery.lock does not hold" if is_locked else "is not installed and has no wheel here")
                + " (above): name it in test.requirements"
                + (",\nbakery: then run `wheel-bakery lock`" if is_locked else "")
            )
        with open(path, encoding="utf-8") as stream:
            locked = packages(json.load(stream))
    names = {os.path.basename(file) for file in files}
    check_found([item for item in locked if item["file"] not in names], allowed, "the wheel")
