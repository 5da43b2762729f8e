"""Resolve requirements to packages with their hashes, build those that have no wheel, and install exactly these.

Usage: packages.py resolve PLACE [--direct=NAME,...] [OPTION...] -- WORD...   as ``pip install OPTION... WORD...``
       packages.py build PLACE                           build what has no wheel here
       packages.py install PLACE ENVIRONMENT [OPTION...]  install; more options of ``pip install``
       packages.py wheel ENVIRONMENT [--direct=NAME,...] FILE...  install wheels; the index has what they require

Each is called as ``PYTHON -I -S packages.py`` with the Python that the packages are for, so that no package's code
runs when it starts; pip runs by `pip_alone.py`.

``resolve`` installs nothing. It writes what an interpreter needs in an empty environment into /requirements:
PLACE.json tells it, PLACE.txt is what ``install`` hands to pip, with a hash for every file. What has no wheel is
fetched as data, with the wheels that its build requires, into /sources/PLACE. ``build`` runs in a step
without network and secrets and makes wheels of it in /built/PLACE, which ``install`` finds there.

A requirement that names an address, and not only a package of the index, is refused unless --direct names it.

/lock says where the packages come from. With ``locked.json`` in it they are the ones listed there, and nothing else
is asked; with ``preferred.json`` those listed there are kept as far as they fit; with ``recorded.json``, which anybody
may have written, pip must come to those listed there by itself; without all three, pip decides.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from typing import TYPE_CHECKING, Any, Collection, Dict, NamedTuple, NoReturn

if TYPE_CHECKING:
    from bakery.toolchains.programs import pip_alone, sdist, sources
else:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import pip_alone
    import sdist
    import sources

LOCK = "/lock"
RESOLVED = "/requirements"
SOURCES = "/sources"
BUILT = "/built"
ADVICE = "bakery: run `wheel-bakery lock`, which keeps what still fits"

MOST_SOURCES = 100

BUILT_HERE = "  # built from its source"
"""Ends the line of a package that ``build`` makes a wheel of."""

EXTRA = re.compile(r"(?P<name>\S+) \S+ does not provide the extra '(?P<extra>[^']*)'")
"""pip's warning where a requirement has an extra that its distribution does not know."""

DIRECT = re.compile(r"(?m)^ *Collecting (?P<name>[^\s@[]+)[^\s@]* ?@ (?P<address>\S+)(?: \(from (?P<by>[^)]*)\))?")
"""What pip prints when it begins with a requirement that names an address."""

MISSING = re.compile(r"(?m)^ERROR: No matching distribution found for (?P<requirement>.+?)(?: \(from .*\))?$")

Package = Dict[str, Any]


class Answer(NamedTuple):
    """What pip said: the packages that it would install, None where it failed; and what it printed."""

    packages: list[Package] | None
    out: str
    err: str


# --- requirements


def requirement(text: str) -> Any:
    """Return a requirement as pip reads it; None where the text is none."""
    pip_alone.make_importable()
    from pip._vendor.packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def words_of(arguments: list[str]) -> list[str]:
    """Return requirements, with the lines of a file in place of ``-r FILE``.

    Raises:
        SystemExit: one is no requirement: pip would take it for an option, or a file.
    """
    found = []
    rest = iter(arguments)
    for word in rest:
        if word != "-r":
            found.append(word)
            continue
        with open(next(rest), encoding="utf-8") as stream:
            found += [line.strip() for line in stream if line.strip()]
    bad = [word for word in found if requirement(word) is None]
    if bad:
        sys.exit("\n".join("bakery: " + repr(word) + " is no requirement, such as 'cmake>=3.26'" for word in bad))
    return found


def check_direct(words: Collection[str], allowed: Collection[str], whose: str = "") -> None:
    """Make sure that only allowed requirements name an address.

    Raises:
        SystemExit: others do.
    """
    parsed = [item for item in map(requirement, words) if item is not None and item.url]
    refused = [item for item in parsed if canonical(item.name) not in allowed]
    if refused:
        refuse([(item.name, item.url) for item in refused], whose)


def refuse(found: list[tuple[str, str]], whose: str) -> NoReturn:
    """End with what is not allowed, and with what to do.

    Raises:
        SystemExit: always.
    """
    lines = ["bakery: " + (whose + " requires " if whose else "") + name + " @ " + url for name, url in found]
    names = ", ".join('"' + canonical(name) + '"' for name, _ in found)
    sys.exit(
        "\n".join(lines) + "\nbakery: an address is no package of the index, and the recipe does not allow it\n"
        "bakery: require a release of the index, or allow it by name: builder.allow-direct = [" + names + "]"
    )


def canonical(name: str) -> str:
    """Return the name as PEP 503 compares it."""
    return sdist.canonical(name)


def name_of(word: str) -> str:
    """Return the name of the distribution that a requirement begins with; empty for other words."""
    match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", word)
    return canonical(match.group(1)) if match else ""


def unknown_extras(said: str, words: list[str]) -> list[str]:
    """Return pip's warnings of extras that do not exist, of those that ``words`` ask for by themselves.

    What a package of the index asks of another is between the two.
    """
    found = []
    for match in EXTRA.finditer(said):
        for word in words:
            extras = re.search(r"\[([^]]*)\]", word)
            asked = map(canonical, extras.group(1).replace(" ", "").split(",")) if extras else []
            if name_of(word) == canonical(match.group("name")) and canonical(match.group("extra")) in asked:
                found.append(match.group(0))
    return found


# --- resolve


def read(name: str) -> dict[str, Any] | None:
    """Return what a file of /lock says, None where there is none."""
    path = os.path.join(LOCK, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as stream:
        told: dict[str, Any] = json.load(stream)
        return told


def locked(place: str, words: list[str], told: dict[str, Any], allowed: Collection[str]) -> list[Package]:
    """Return the packages that are locked.

    Raises:
        SystemExit: they were locked for other requirements, or one cannot be held to its hash.
    """
    before, now = set(told["requirements"]), set(words)
    lines = ["bakery: bakery.lock is out of date for " + place + ":"]
    lines += ["bakery:   + " + word + " is asked for, and was not when it was locked" for word in sorted(now - before)]
    lines += ["bakery:   - " + word + " was locked, and is not asked for" for word in sorted(before - now)]
    if before != now:
        sys.exit("\n".join([*lines, ADVICE]))
    packages: list[Package] = told["packages"]
    direct = [(item["name"], item["origin"]) for item in packages if item.get("origin")]
    refused = [(name, origin) for name, origin in direct if canonical(name) not in allowed]
    if refused:
        refuse(refused, "bakery.lock")
    archives = [item["file"] or item["origin"] for item in packages if is_source(item)]
    if archives and told.get("strict"):
        sys.exit(
            "bakery: --locked takes no source archives, since what builds them is not locked: " + ", ".join(archives)
        )
    return packages


def is_source(package: Package) -> bool:
    """Say whether a package has to be built."""
    return not package["file"].endswith(".whl")


def renew_pip() -> None:
    """Bring an old pip up to date, in an environment that has nothing else yet."""
    if pip_alone.major() < pip_alone.OLDEST:
        words = ["install", "--quiet", "--no-deps", "--no-compile", "--only-binary=:all:", "--upgrade", "pip>=24"]
        run([sys.executable, "-m", "pip", *words])


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


def packages(told: dict[str, Any]) -> list[Package]:
    """Return the packages of pip's report (version 1), sorted by name.

    Of a package that a requirement names by its address, ``origin`` is that.
    """
    found = []
    for item in told["install"]:
        download = item["download_info"]
        path = urllib.parse.urlsplit(download["url"]).path
        made = {
            "name": canonical(item["metadata"]["name"]),
            "version": item["metadata"]["version"],
            "file": urllib.parse.unquote(path.rsplit("/", 1)[-1]),
            "sha256": download.get("archive_info", {}).get("hashes", {}).get("sha256", ""),
        }
        if item.get("is_direct"):
            made["origin"] = download["url"]
        found.append(made)
    return sorted(found, key=lambda item: (item["name"], item["version"]))


class Sources:
    """The sources that stand in for wheels while pip resolves.

    Attributes:
        stubs: the folder with a stub wheel for each of them.
        asks: the index may be asked for more of them.
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
        """Take one; say whether it is new.

        Raises:
            SystemExit: there are too many.
        """
        if any((item.name, item.version) == (source.name, source.version) for item in self.found.values()):
            shutil.rmtree(self.fresh(), ignore_errors=True)
            return False
        if len(self.found) == MOST_SOURCES:
            sys.exit(
                "bakery: more than " + str(MOST_SOURCES) + " packages have no wheel here; " + source.name + " is one"
            )
        self.found[sdist.digest(sources.stub(source, self.stubs), "sha256")] = source
        return True

    def add_of_index(self, wanted: Any) -> bool:
        """Take the newest one that satisfies a requirement; say whether there is one, and it is new."""
        source = sources.of_index(wanted, self.fresh()) if self.asks else None
        return source is not None and self.add(source)

    def of(self, package: Package) -> sources.Source | None:
        """Return the source that a package of pip's report is the stub of."""
        if package["sha256"]:
            return self.found.get(package["sha256"])
        # pip 23.0 has no hash of a file that it need not fetch.
        own = (package["name"], package["version"])
        return next((item for item in self.found.values() if (item.name, item.version) == own), None)

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


def ask(words: list[str], options: list[str], preferred: dict[str, Any] | None, stand_ins: Sources) -> list[Package]:
    """Return what pip would install, keeping preferred packages as far as they fit.

    Raises:
        SystemExit: nothing satisfies the requirements; pip said why.
    """
    known = preferred or {"requirements": [], "packages": []}
    kept = [item for item in known["packages"] if not item.get("origin")]
    changed = {name_of(word) for word in {*words, *options} ^ set(known["requirements"])}
    others = [item for item in kept if canonical(item["name"]) not in changed]
    tries = [kept] if kept else []
    tries += [others] if others and others != kept else []
    for item in filter(is_source, kept):
        stand_ins.add_of_index(requirement(item["name"] + "==" + item["version"]))
    asked = [stand_ins.in_place_of_address(word) for word in words]
    with tempfile.TemporaryDirectory() as scratch:
        constraints = os.path.join(scratch, "constraints.txt")
        for constrained in [*tries, []]:
            with open(constraints, "w", encoding="utf-8") as stream:
                stream.writelines(item["name"] + "==" + item["version"] + "\n" for item in constrained)
            held = {canonical(item["name"]) for item in constrained}
            answer = with_sources(asked, ["--constraint", constraints, *options], stand_ins, held)
            lacking = unknown_extras(answer.err, words)
            if lacking:
                # pip goes on without what was asked for: the build would fail later, or be built without it.
                sys.exit("\n".join("bakery: " + item + ", which is asked for" for item in lacking))
            if answer.packages is not None:
                return answer.packages
    # Only the last try has the last word.
    end(answer, words)


def check_recorded(place: str, told: dict[str, Any], made: list[Package]) -> None:
    """Make sure that pip came to what a record lists: nothing is installed because a record has it.

    Raises:
        SystemExit: pip came to other packages; all of them are named.
    """
    listed = {canonical(item["name"]): item for item in told["packages"]}
    found = {item["name"]: item for item in made}
    lines = []
    for name in sorted(set(listed) | set(found)):
        before, now = listed.get(name), found.get(name)
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
    """Return what pip would install, with a source in place of each package that has no wheel.

    Args:
        held: packages that are held to a version: where that has no wheel, another version may have one.
    """
    while True:
        answer = report(words, *options, "--find-links", stand_ins.stubs)
        missing = MISSING.search(answer.err) if answer.packages is None else None
        wanted = requirement(missing.group("requirement")) if missing else None
        if wanted is None or wanted.url or canonical(wanted.name) in held or not stand_ins.add_of_index(wanted):
            return answer


def end(answer: Answer, words: list[str]) -> NoReturn:
    """End with what pip said.

    Raises:
        SystemExit: always.
    """
    own = {canonical(item.name) for item in map(requirement, words) if item.url}
    others = [match for match in DIRECT.finditer(answer.out) if canonical(match.group("name")) not in own]
    sys.stderr.write(answer.err)
    if others:
        last = others[-1]
        said = (last.group("by") or "a dependency") + " requires " + last.group("name") + " @ " + last.group("address")
        why = "of what dependencies name by an address, only wheels can be allowed, by builder.allow-direct"
        sys.exit("bakery: " + said + "\nbakery: " + why)
    sys.exit(1)


def line(package: Package) -> str:
    """Return the requirement that stands for exactly one package."""
    origin = package.get("origin")
    where = package["name"] + (" @ " + origin if origin else "==" + package["version"])
    return str(where + (" --hash=sha256:" + package["sha256"] if package["sha256"] else ""))


def resolve(place: str, arguments: list[str]) -> None:
    """Write and print what is to be installed."""
    cut = arguments.index("--")
    allowed, options = direct_of(arguments[:cut])
    words = words_of(arguments[cut + 1 :])
    check_direct(words, allowed)
    renew_pip()
    told, record = read("locked.json"), read("recorded.json")
    folder = os.path.join(SOURCES, place)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        stand_ins = Sources(scratch, asks="--no-index" not in options)
        if told is not None:
            found = locked(place, [*options, *words], told, allowed)
            folders = (os.path.join(scratch, "locked-" + str(number)) for number in range(len(found)))
            chosen = [sources.locked(item, next(folders)) for item in found if is_source(item)]
        else:
            preferred = read("preferred.json") if record is None else {**record, "requirements": [*options, *words]}
            made = ask(words, options, preferred, stand_ins) if words else []
            found = [source.package() if (source := stand_ins.of(item)) else item for item in made]
            if record is not None:
                check_recorded(place, record, found)
            check_found(found, allowed)
            chosen = [source for item in made if (source := stand_ins.of(item))]
        for number, source in enumerate(chosen):
            prepare(source, os.path.join(folder, str(number)), allowed, found)
    text = "".join(line(item) + (BUILT_HERE if is_source(item) else "") + "\n" for item in found)
    os.makedirs(RESOLVED, exist_ok=True)
    with open(os.path.join(RESOLVED, place + ".txt"), "w", encoding="utf-8") as stream:
        stream.write(text)
    with open(os.path.join(RESOLVED, place + ".json"), "w", encoding="utf-8") as stream:
        json.dump({"requirements": sorted({*options, *words}), "packages": found}, stream, indent=1)
    print(text, end="")


def direct_of(arguments: list[str]) -> tuple[set[str], list[str]]:
    """Return the names that --direct allows, and the other arguments."""
    prefix = "--direct="
    names = [name for word in arguments if word.startswith(prefix) for name in word[len(prefix) :].split(",")]
    return {canonical(name) for name in names if name}, [word for word in arguments if not word.startswith(prefix)]


def check_found(found: list[Package], allowed: Collection[str], whose: str = "a dependency") -> None:
    """Make sure that only allowed packages come from an address.

    Raises:
        SystemExit: others do.
    """
    others = [(item["name"], item["origin"]) for item in found if item.get("origin") and item["name"] not in allowed]
    if others:
        refuse(others, whose)


def prepare(source: sources.Source, folder: str, allowed: Collection[str], beside: list[Package]) -> None:
    """Lay out a source with the wheels that its build requires, and with what is installed beside it.

    Raises:
        SystemExit: these cannot be had as wheels.
    """
    check_direct(source.builds_with, allowed, "the build of " + source.name)
    wheels = os.path.join(folder, "wheels")
    os.makedirs(wheels)
    answer = report(source.builds_with) if source.builds_with else Answer([], "", "")
    if answer.packages is None:
        sys.stderr.write(answer.err)
        sys.exit("bakery: " + source.name + " has no wheel here, and what its build requires has none, either")
    check_found(answer.packages, allowed, "the build of " + source.name)
    if answer.packages:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as stream:
            stream.writelines(line(item) + "\n" for item in answer.packages)
            stream.flush()
            words = ["--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", "--dest", wheels]
            run([*pip_alone.command(), "download", *words, "-r", stream.name])
    inner = os.path.join(folder, "source")
    shutil.copytree(source.folder, inner, symlinks=True)
    with open(os.path.join(folder, "source.json"), "w", encoding="utf-8") as stream:
        versions = {item["name"]: item["version"] for item in beside}
        json.dump({"source": source._replace(folder=inner)._asdict(), "beside": versions}, stream)


# --- build


def build(place: str) -> None:
    """Build the sources of a place; this runs their code.

    Raises:
        SystemExit: one cannot be built, or requires what was not resolved.
    """
    folder, out = os.path.join(SOURCES, place), os.path.join(BUILT, place)
    os.makedirs(out, exist_ok=True)
    for number in sorted(os.listdir(folder), key=int):
        with open(os.path.join(folder, number, "source.json"), encoding="utf-8") as stream:
            told = json.load(stream)
        source = sources.Source(**told["source"])
        sources.build(source, os.path.join(folder, number, "wheels"), out)
        check_requires(source, built(source.name, source.version, out), told["beside"])


def built(name: str, version: str, folder: str) -> str:
    """Return the wheel that a package's source was built into.

    Raises:
        SystemExit: there is none.
    """
    source = sources.Source(name, version, "", "", "", "", [], "", [], [])
    for file in sorted(os.listdir(folder)):
        if sources.is_of(file, source):
            return os.path.join(folder, file)
    sys.exit("bakery: " + name + " has no wheel here, and nothing builds its source for this step")


def check_requires(source: sources.Source, wheel: str, beside: dict[str, str]) -> None:
    """Make sure that what a built wheel requires is among what was resolved.

    Raises:
        SystemExit: the source did not say all of it.
    """
    parsed = [item for item in map(requirement, sources.required(wheel)) if item is not None]
    applying = [item for item in parsed if item.marker is None or item.marker.evaluate({"extra": ""})]
    lacking = [
        str(item)
        for item in applying
        if not (version := beside.get(canonical(item.name)))
        or not (version == sources.UNKNOWN or item.specifier.contains(version, prereleases=True))
    ]
    if lacking:
        sys.exit(
            "bakery: " + source.name + " was built from its source, and requires " + ", ".join(lacking) + ",\n"
            "bakery: which the source did not say: name it beside " + source.name
        )


# --- install


def install(place: str, environment: str, options: list[str]) -> None:
    """Install what was resolved, and nothing else.

    Raises:
        SystemExit: pip failed, and said why.
    """
    with open(os.path.join(RESOLVED, place + ".txt"), encoding="utf-8") as stream:
        lines = [item.rstrip("\n") for item in stream]
    if not lines:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as stream:
        stream.writelines((of_built(place, item) if item.endswith(BUILT_HERE) else item) + "\n" for item in lines)
        stream.flush()
        words = ["--no-deps", "--require-hashes", "--only-binary=:all:", *options, "-r", stream.name]
        run([*pip_alone.command(environment), "install", *words])


def of_built(place: str, text: str) -> str:
    """Return the requirement that stands for the wheel which was built in place of a line."""
    version = re.match(r"[^=\s]+==(\S+)", text)
    path = built(name_of(text), version.group(1) if version else sources.UNKNOWN, os.path.join(BUILT, place))
    with open(path, "rb") as stream:
        digest = hashlib.sha256(stream.read()).hexdigest()
    return name_of(text) + " @ file://" + urllib.parse.quote(path) + " --hash=sha256:" + digest


def wheel(environment: str, arguments: list[str]) -> None:
    """Install wheels; with a lock only where it holds all that they require.

    Raises:
        SystemExit: pip failed, and said why; or what they require names an address that is not allowed.
    """
    allowed, files = direct_of(arguments)
    is_locked = read("locked.json") is not None
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "report.json")
        words = ["--only-binary=:all:", "--report", path, *(["--no-index"] if is_locked else []), *files]
        done = subprocess.run([*pip_alone.command(environment), "install", *words], check=False)
        if done.returncode:
            sys.exit(
                "bakery: the wheel requires what "
                + ("bakery.lock does not hold" if is_locked else "is not installed and has no wheel here")
                + " (above): name it in test.requirements"
                + (",\nbakery: then run `wheel-bakery lock`" if is_locked else "")
            )
        with open(path, encoding="utf-8") as stream:
            found = packages(json.load(stream))
    own = {os.path.basename(file) for file in files}
    check_found([item for item in found if item["file"] not in own], allowed, "the wheel")


def run(command: list[str]) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    """Do what the first word says."""
    words = sys.argv[1:]
    if len(words) >= 3 and words[0] == "resolve" and "--" in words:
        resolve(words[1], words[2:])
    elif len(words) == 2 and words[0] == "build":
        build(words[1])
    elif len(words) >= 3 and words[0] == "install":
        install(words[1], words[2], words[3:])
    elif len(words) >= 3 and words[0] == "wheel":
        wheel(words[1], words[2:])
    else:
        sys.exit((__doc__ or "").split("\n\n")[1])


if __name__ == "__main__":
    main()
