"""Resolve requirements to packages with their hashes, as ``pip install`` would into an empty environment."""

from __future__ import annotations

import compileall
import functools
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from fnmatch import fnmatch
from typing import Any, Collection, NamedTuple, NoReturn

from . import pip_alone, sdist, sources
from .requirements import (
    BUILT_HERE,
    Package,
    applies,
    check_direct,
    check_found,
    has_program,
    is_source,
    line,
    name_of,
    names_of,
    requirement,
    run,
    unknown_extras,
    words_of,
)
from .sdist import canonical

LOCK = "/lock"
RESOLVED = "/requirements"
SOURCES = "/sources"
FRAMEWORK = "framework"
"""The place of the packages that get a layer of their own."""

WHEELS = "wheels"
"""The folder of downloaded wheels in that of a place's sources."""

ADVICE = "bakery: run `wheel-bakery lock`, which keeps what still fits"

MOST_SOURCES = 100

DIRECT = re.compile(r"(?m)^ *Collecting (?P<name>[^\s@[]+)[^\s@]* ?@ (?P<address>\S+)(?: \(from (?P<by>[^)]*)\))?")
"""What pip prints when it begins with a requirement that names an address."""

CONFLICT = re.compile(r"(?m)^ +(?:\S+ \S+ depends on|The user requested(?: \(constraint\))?) (?P<requirement>.+)$")
"""What pip prints of requirements that contradict each other."""

MISSING = re.compile(r"(?m)^ERROR: No matching distribution found for (?P<requirement>.+?)(?: \(from .*\))?$")


class Answer(NamedTuple):
    """What pip said: the packages that it would install, None where it failed; and what it printed."""

    packages: list[Package] | None
    out: str
    err: str


def read(name: str) -> dict[str, Any] | None:
    """Return what a file of /lock says, None where there is none."""
    path = os.path.join(LOCK, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as stream:
        data: dict[str, Any] = json.load(stream)
        return data


def locked(place: str, words: list[str], lock: dict[str, Any], allowed: Collection[str]) -> list[Package]:
    """Return the locked packages; exit if they are for other requirements or not allowed."""
    before, now = set(lock["requirements"]), set(words)
    lines = ["bakery: bakery.lock is out of date for " + place + ":"]
    lines += ["bakery:   + " + word + " is asked for, and was not when it was locked" for word in sorted(now - before)]
    lines += ["bakery:   - " + word + " was locked, and is not asked for" for word in sorted(before - now)]
    if before != now:
        sys.exit("\n".join([*lines, ADVICE]))
    packages: list[Package] = lock["packages"]
    check_found(packages, allowed, "bakery.lock")
    archives = [item["file"] or item["origin"] for item in packages if is_source(item)]
    if archives and lock.get("strict"):
        sys.exit(
            "bakery: --locked takes no source archives, since what builds them is not locked: " + ", ".join(archives)
        )
    return packages


def renew_pip() -> None:
    """Bring an old pip up to date, in an environment that has nothing else yet."""
    if pip_alone.is_old():
        words = ["install", "--quiet", "--no-deps", "--no-compile", "--only-binary=:all:", "--upgrade", "pip>=24"]
        run([sys.executable, "-m", "pip", *words])
        # As make_venv.py does: the same bytes in every build.
        pip = os.path.join(pip_alone.home(), "pip")
        compileall.compile_dir(pip, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


def report(words: list[str], *options: str) -> Answer:
    """Return what pip would install into an empty environment: wheels alone."""
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "report.json")
        more = ["--dry-run", "--ignore-installed", "--only-binary=:all:", "--report", path, *options]
        done = subprocess.run(
            [*pip_alone.command(), "install", *more, *words],
            cwd=scratch,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            check=False,
        )
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if done.returncode:
            return Answer(None, out, err)
        with open(path, encoding="utf-8") as stream:
            return Answer(packages(json.load(stream)), out, err)


def packages(report: dict[str, Any]) -> list[Package]:
    """Return the packages of pip's report (version 1), sorted by name.

    For a package with a URL in its requirement, this is ``origin``.
    """
    result = []
    for item in report["install"]:
        download = item["download_info"]
        path = urllib.parse.urlsplit(download["url"]).path
        package = {
            "name": canonical(item["metadata"]["name"]),
            "version": item["metadata"]["version"],
            "file": urllib.parse.unquote(path.rsplit("/", 1)[-1]),
        }
        hashes = download.get("archive_info", {}).get("hashes", {})
        weak = tuple(hashes.items()) if download["url"].startswith("http") else ()
        package["sha256"] = hashes.get("sha256") or (weak and sha256_of(download["url"], package["file"], weak)) or ""
        if item.get("is_direct"):
            package["origin"] = download["url"]
        result.append(package)
    return sorted(result, key=lambda item: (item["name"], item["version"]))


@functools.lru_cache(maxsize=None)
def sha256_of(url: str, file: str, hashes: tuple[tuple[str, str], ...]) -> str:
    """Return the SHA-256 of a file of which the index has other hashes alone; exit if these are not its own."""
    host = urllib.parse.urlsplit(url).netloc
    known = (index for index in sdist.indexes() if urllib.parse.urlsplit(index).netloc.rpartition("@")[2] == host)
    with tempfile.TemporaryDirectory() as scratch:
        return sdist.fetch(sdist.Entry(url, file, dict(hashes)), next(known, url), os.path.join(scratch, "file"))


class Sources:
    """The sources that replace wheels while pip resolves.

    Attributes:
        stubs: the folder with a stub wheel for each of them.
        asks: whether more of them may be downloaded from the index.
    """

    def __init__(self, folder: str, asks: bool = True) -> None:
        self.folder = folder
        self.asks = asks
        self.stubs = os.path.join(folder, "stubs")
        os.makedirs(self.stubs, exist_ok=True)
        self.found: dict[str, sources.Source] = {}

    def fresh(self) -> str:
        """Return a folder for one more."""
        return os.path.join(self.folder, str(len(self.found)))

    def add(self, source: sources.Source) -> bool:
        """Add one and return whether it is new; exit if there are too many."""
        if any((item.name, item.version) == (source.name, source.version) for item in self.found.values()):
            shutil.rmtree(self.fresh(), ignore_errors=True)
            return False
        if len(self.found) == MOST_SOURCES:
            sys.exit(
                "bakery: more than " + str(MOST_SOURCES) + " packages have no wheel here; " + source.name + " is one"
            )
        self.found[sdist.digest(sources.stub(source, self.stubs), "sha256")] = source
        return True

    def add_of_index(self, needed: Any) -> bool:
        """Take the newest one that satisfies a requirement; say whether there is one, and it is new."""
        source = sources.of_index(needed, self.fresh()) if self.asks else None
        return source is not None and self.add(source)

    def of_conflict(self, text: str) -> list[Any]:
        """Return what pip's message says of packages that have a source: the newest one was that of one requirement."""
        names = {item.name for item in self.found.values() if not item.origin}
        parsed = [item for item in map(requirement, CONFLICT.findall(text)) if item]
        return [item for item in parsed if canonical(item.name) in names]

    def of(self, package: Package) -> sources.Source | None:
        """Return the source that a package of pip's report is the stub of."""
        if package["sha256"]:
            return self.found.get(package["sha256"])
        # pip 23.0 has no hash of a file that it need not fetch.
        key = (package["name"], package["version"])
        return next((item for item in self.found.values() if (item.name, item.version) == key), None)

    def in_place_of_address(self, word: str) -> str:
        """Return a requirement for the stub of what a requirement names by its address; wheels stay as they are."""
        parsed = requirement(word)
        if not parsed.url or urllib.parse.urlsplit(parsed.url).path.endswith(".whl"):
            return word
        if parsed.marker and not parsed.marker.evaluate():
            return word
        source = sources.of_address(parsed.name, parsed.url, self.fresh())
        self.add(source)
        extras = "[" + ",".join(sorted(parsed.extras)) + "]" if parsed.extras else ""
        marker = " ; " + str(parsed.marker) if parsed.marker else ""
        return str(parsed.name) + extras + "==" + source.version + marker


def ask(words: list[str], options: list[str], preferred: dict[str, Any], stand_ins: Sources) -> list[Package]:
    """Return the packages that pip would install, with preferred packages if they fit; exit if there is no solution."""
    of_index = [item for item in preferred["packages"] if not item.get("origin")]
    changed = {name_of(word) for word in {*words, *options} ^ set(preferred["requirements"])}
    others = [item for item in of_index if canonical(item["name"]) not in changed]
    tries = [of_index] if of_index else []
    tries += [others] if others and others != of_index else []
    for item in filter(is_source, of_index):
        stand_ins.add_of_index(requirement(item["name"] + "==" + item["version"]))
    requested = [stand_ins.in_place_of_address(word) for word in words]
    with tempfile.TemporaryDirectory() as scratch:
        constraints = os.path.join(scratch, "constraints.txt")
        for constrained in [*tries, []]:
            with open(constraints, "w", encoding="utf-8") as stream:
                stream.writelines(item["name"] + "==" + item["version"] + "\n" for item in constrained)
            held = {canonical(item["name"]) for item in constrained}
            answer = with_sources(requested, ["--constraint", constraints, *options], stand_ins, held)
            lacking = unknown_extras(answer.err, words)
            if lacking:
                # pip goes on without what was asked for: the build would fail later, or be built without it.
                sys.exit("\n".join("bakery: " + item + ", which is asked for" for item in lacking))
            if answer.packages is not None:
                return answer.packages
    # Only the last try has the last word.
    end(answer, words)


def check_recorded(place: str, record: dict[str, Any], resolved: list[Package]) -> None:
    """Exit if pip resolves to other packages than a record, which is never a source of packages itself."""
    listed = {canonical(item["name"]): item for item in record["packages"]}
    by_name = {item["name"]: item for item in resolved}
    lines = []
    for name in sorted(set(listed) | set(by_name)):
        before, now = listed.get(name), by_name.get(name)
        if before is None and now:
            lines.append(shown(now) + " is required, and the provenance does not name it")
        elif before and now is None:
            lines.append("the provenance names " + shown(before) + ", and nothing requires it")
        elif before and now and held_by(before) != held_by(now):
            lines.append("the provenance names " + shown(before) + ", and the package index gives " + shown(now))
    if lines:
        sys.exit("\n".join("bakery: " + place + ": " + item for item in lines))


def held_by(package: Package) -> tuple[str, str]:
    """Return what tells a package from others of its name: its version, and its hash or commit."""
    commit = (package.get("origin") or "").split("#")[0].rpartition("@")[2]
    return package["version"], package["sha256"] or commit


def shown(package: Package) -> str:
    """Return a package as messages name it."""
    version, digest = held_by(package)
    return str(package["name"]) + " " + version + " (" + digest[:12] + ")"


def with_sources(words: list[str], options: list[str], stand_ins: Sources, held: Collection[str]) -> Answer:
    """Return the packages that pip would install, with a source for each package without a wheel.

    Packages in ``held`` have a fixed version: if it has no wheel, another version may have one.
    """
    while True:
        answer = report(words, *options, "--find-links", stand_ins.stubs)
        missing = MISSING.search(answer.err) if answer.packages is None else None
        needed = [requirement(missing.group("requirement"))] if missing else []
        if answer.packages is None and not missing:
            needed = stand_ins.of_conflict(answer.out + answer.err)
        usable = [item for item in needed if item and not item.url and canonical(item.name) not in held]
        if not any(stand_ins.add_of_index(item) for item in usable):
            return answer


def end(answer: Answer, words: list[str]) -> NoReturn:
    """Exit with pip's message."""
    own_names = {canonical(item.name) for item in map(requirement, words) if item.url}
    others = [match for match in DIRECT.finditer(answer.out) if canonical(match.group("name")) not in own_names]
    sys.stderr.write(answer.err)
    if others:
        last = others[-1]
        message = (
            (last.group("by") or "a dependency") + " requires " + last.group("name") + " @ " + last.group("address")
        )
        why = "of what dependencies name by an address, only wheels can be allowed, by builder.allow-direct"
        sys.exit("bakery: " + message + "\nbakery: " + why)
    sys.exit(1)


def resolve(place: str, arguments: list[str]) -> None:
    """Write and print what is to be installed."""
    cut = arguments.index("--")
    allowed, others = names_of("--direct=", arguments[:cut])
    of_base, others = names_of("--of-base=", others)
    beside, others = names_of("--beside=", others)
    layer, options = names_of("--layer=", others)
    present = [item for other in sorted(beside) for item in of_place(other)]
    asked = words_of(arguments[cut + 1 :])
    words = [
        word for word in asked if applies(requirement(word)) and not (name_of(word) in of_base and has_program(word))
    ]
    check_direct(words, allowed)
    renew_pip()
    lock, record = read("locked.json"), read("recorded.json")
    folder = os.path.join(SOURCES, place)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        stand_ins = Sources(scratch, asks="--no-index" not in options)
        if lock is not None:
            result = locked(place, [*options, *asked], lock, allowed)
            folders = (os.path.join(scratch, "locked-" + str(number)) for number in range(len(result)))
            chosen = [sources.locked(item, next(folders)) for item in result if is_source(item)]
        else:
            preferred = read("preferred.json") if record is None else {**record, "requirements": [*options, *words]}
            found = ask(words, options, with_present(preferred, present), stand_ins) if words else []
            taken = [(item["name"], item["version"]) for item in present]
            resolved = [item for item in found if (item["name"], item["version"]) not in taken]
            result = [source.package() if (source := stand_ins.of(item)) else item for item in resolved]
            if record is not None:
                check_recorded(place, record, result)
            check_found(result, allowed)
            chosen = [source for item in resolved if (source := stand_ins.of(item))]
        for number, source in enumerate(chosen):
            prepare(source, os.path.join(folder, str(number)), allowed, [*present, *result])
    text = "".join(line(item) + (BUILT_HERE if is_source(item) else "") + "\n" for item in result)
    wheels = [item for item in result if not is_source(item)]
    if beside:
        os.makedirs(os.path.join(folder, WHEELS))
        download(wheels, os.path.join(folder, WHEELS))
        with open(os.path.join(folder, "requirements.txt"), "w", encoding="utf-8") as stream:
            stream.write(text)
    os.makedirs(RESOLVED, exist_ok=True)
    if layer:
        with open(os.path.join(RESOLVED, FRAMEWORK + ".txt"), "w", encoding="utf-8") as stream:
            stream.writelines(line(item) + "\n" for item in wheels if any(fnmatch(item["name"], one) for one in layer))
    with open(os.path.join(RESOLVED, place + ".txt"), "w", encoding="utf-8") as stream:
        stream.write(text)
    with open(os.path.join(RESOLVED, place + ".json"), "w", encoding="utf-8") as stream:
        json.dump({"requirements": sorted({*options, *asked}), "packages": result}, stream, indent=1)
    print(text, end="")


def of_place(place: str) -> list[Package]:
    """Return the packages that were resolved for another place."""
    with open(os.path.join(RESOLVED, place + ".json"), encoding="utf-8") as stream:
        listed: list[Package] = json.load(stream)["packages"]
    return listed


def with_present(preferred: dict[str, Any] | None, present: list[Package]) -> dict[str, Any]:
    """Return what is preferred, with the packages that are there already."""
    recorded = preferred or {"requirements": [], "packages": []}
    names = {canonical(item["name"]) for item in present}
    others = [item for item in recorded["packages"] if canonical(item["name"]) not in names]
    return {**recorded, "packages": [*present, *others]}


def download(items: list[Package], folder: str) -> None:
    """Download wheels into a folder, by their hashes; exit if pip fails."""
    if not items:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as stream:
        stream.writelines(line(item) + "\n" for item in items)
        stream.flush()
        words = ["--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", "--dest", folder]
        run([*pip_alone.command(), "download", *words, "-r", stream.name])


def prepare(source: sources.Source, folder: str, allowed: Collection[str], beside: list[Package]) -> None:
    """Write a source with the wheels that its build requires, or exit if these have no wheels."""
    check_direct(source.builds_with, allowed, "the build of " + source.name)
    wheels = os.path.join(folder, "wheels")
    os.makedirs(wheels)
    answer = report(source.builds_with) if source.builds_with else Answer([], "", "")
    if answer.packages is None:
        sys.stderr.write(answer.err)
        sys.exit("bakery: " + source.name + " has no wheel here, and what its build requires has none, either")
    check_found(answer.packages, allowed, "the build of " + source.name)
    download(answer.packages, wheels)
    inner = os.path.join(folder, "source")
    shutil.copytree(source.folder, inner, symlinks=True)
    with open(os.path.join(folder, "source.json"), "w", encoding="utf-8") as stream:
        versions = {item["name"]: item["version"] for item in beside}
        json.dump({"source": source._replace(folder=inner)._asdict(), "beside": versions}, stream)
