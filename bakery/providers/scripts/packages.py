"""Resolve requirements to packages with their hashes, and install exactly these.

Usage: packages.py resolve PLACE PYTHON [WORD...]    the words are those of ``pip install``
       packages.py install PLACE PYTHON [OPTION...]  more options of ``pip install``
       packages.py wheel PYTHON FILE...              install wheels; what they require comes from the index

``resolve`` installs nothing. It writes what an interpreter needs in an empty environment into /requirements:
PLACE.json tells it, PLACE.txt is what ``install`` hands to pip, with a hash for every file.

/lock says where the packages come from. With ``locked.json`` in it they are the ones listed there, and nothing else
is asked; with ``preferred.json`` those listed there are kept as far as they fit; with ``recorded.json``, which anybody
may have written, pip must come to those listed there by itself; without all three, pip decides.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
from typing import Any, Dict

LOCK = "/lock"
RESOLVED = "/requirements"
ADVICE = "bakery: run `bakery lock`, which keeps what still fits"

OLDEST_PIP = 23
"""Reports of pip 23.0 have a stable format; `--python` is as old as 22.3."""

EXTRA = re.compile(r"(?P<name>\S+) \S+ does not provide the extra '(?P<extra>[^']*)'")
"""pip's warning where a requirement has an extra that its distribution does not know."""

Package = Dict[str, Any]


def words_of(arguments: list[str]) -> list[str]:
    """Return the words of ``pip install``, with the lines of a file in place of ``-r FILE``."""
    found = []
    rest = iter(arguments)
    for word in rest:
        if word == "-r":
            with open(next(rest), encoding="utf-8") as stream:
                found += [line.strip() for line in stream if line.strip()]
        else:
            found.append(word)
    return found


def read(name: str) -> dict[str, Any] | None:
    """Return what a file of /lock says, None where there is none."""
    path = os.path.join(LOCK, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as stream:
        told: dict[str, Any] = json.load(stream)
        return told


def locked(place: str, words: list[str], told: dict[str, Any]) -> list[Package]:
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
    sources = [item["file"] for item in packages if item["file"] and not item["file"].endswith(".whl")]
    if sources and told.get("strict"):
        sys.exit(
            "bakery: --locked takes no source archives, since what builds them is not locked: " + ", ".join(sources)
        )
    return packages


def pip(scratch: str) -> list[str]:
    """Return how a pip is called that reports what it would install: this interpreter's, or one made for the moment."""
    own = [sys.executable, "-m", "pip"]
    said = subprocess.run([*own, "--version"], stdout=subprocess.PIPE, check=False).stdout.decode()
    match = re.match(r"pip (\d+)\.", said)
    if match and int(match.group(1)) >= OLDEST_PIP:
        return own
    environment = os.path.join(scratch, "pip")
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    newer = [os.path.join(environment, "bin", "python"), "-m", "pip"]
    subprocess.run([*newer, "install", "--quiet", "pip>=24"], check=True)
    return newer


def ask(python: str, words: list[str], preferred: dict[str, Any] | None) -> list[Package]:
    """Return what pip would install, keeping preferred packages as far as they fit.

    Raises:
        SystemExit: nothing satisfies the requirements; pip said why.
    """
    known = preferred or {"requirements": [], "packages": []}
    kept = [item for item in known["packages"] if not item.get("origin")]
    changed = {name_of(word) for word in set(words) ^ set(known["requirements"])}
    others = [item for item in kept if canonical(item["name"]) not in changed]
    tries = [kept] if kept else []
    tries += [others] if others and others != kept else []
    with tempfile.TemporaryDirectory() as scratch:
        command = [*pip(scratch), "--python", python, "install", "--quiet", "--dry-run", "--ignore-installed"]
        report = os.path.join(scratch, "report.json")
        constraints = os.path.join(scratch, "constraints.txt")
        for constrained in [*tries, []]:
            with open(constraints, "w", encoding="utf-8") as stream:
                stream.writelines(item["name"] + "==" + item["version"] + "\n" for item in constrained)
            # Only the last try has the last word.
            more = ["--report", report, "--constraint", constraints]
            done = subprocess.run([*command, *more, *words], stderr=subprocess.PIPE, check=False)
            said = done.stderr.decode(errors="replace")
            if done.returncode or not constrained:
                sys.stderr.write(said if not constrained else "")
            lacking = unknown_extras(said, words)
            if lacking:
                # pip goes on without what was asked for: the build would fail later, or be built without it.
                sys.exit("\n".join("bakery: " + item + ", which is asked for" for item in lacking))
            if not done.returncode:
                with open(report, encoding="utf-8") as stream:
                    return packages(json.load(stream))
        sys.exit(done.returncode)


def recorded(place: str, python: str, words: list[str], told: dict[str, Any]) -> list[Package]:
    """Return what pip would install, which must be what a record lists: nothing is installed because a record has it.

    Raises:
        SystemExit: pip comes to other packages; all of them are named.
    """
    listed = {canonical(item["name"]): item for item in told["packages"]}
    asked = {"requirements": words, "packages": list(listed.values())}
    found = {item["name"]: item for item in (ask(python, words, asked) if any(map(name_of, words)) else [])}
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
    return list(found.values())


def held_by(package: Package) -> tuple[str, str]:
    """Return what tells a package from others of its name: its version, and its hash or commit."""
    commit = (package.get("origin") or "").split("#")[0].rpartition("@")[2]
    return package["version"], package["sha256"] or commit


def shown(package: Package) -> str:
    """Return a package as messages name it."""
    version, digest = held_by(package)
    return str(package["name"]) + " " + version + " (" + digest[:12] + ")"


def packages(report: dict[str, Any]) -> list[Package]:
    """Return the packages of pip's report (version 1), sorted by name.

    Of a package that a requirement names by its address or repository, ``origin`` is that.
    """
    found = []
    for item in report["install"]:
        download = item["download_info"]
        made = {"name": canonical(item["metadata"]["name"]), "version": item["metadata"]["version"]}
        # pip tells the folder of the package in its source apart from the address.
        folder = "#subdirectory=" + download["subdirectory"] if download.get("subdirectory") else ""
        if "vcs_info" in download:
            vcs = download["vcs_info"]
            origin = vcs["vcs"] + "+" + download["url"] + "@" + vcs["commit_id"] + folder
            made.update(file="", sha256="", origin=origin)
        else:
            path = urllib.parse.urlsplit(download["url"]).path
            made["file"] = urllib.parse.unquote(path.rsplit("/", 1)[-1])
            made["sha256"] = download.get("archive_info", {}).get("hashes", {}).get("sha256", "")
            if item.get("is_direct"):
                made["origin"] = download["url"] + folder
        found.append(made)
    return sorted(found, key=lambda item: (item["name"], item["version"]))


def canonical(name: str) -> str:
    """Return the name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


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


def line(package: Package) -> str:
    """Return the requirement that stands for exactly one package."""
    origin = package.get("origin")
    where = package["name"] + (" @ " + origin if origin else "==" + package["version"])
    return str(where + (" --hash=sha256:" + package["sha256"] if package["sha256"] else ""))


def resolve(place: str, python: str, arguments: list[str]) -> None:
    """Write and print what is to be installed."""
    words = words_of(arguments)
    told, record = read("locked.json"), read("recorded.json")
    if told is not None:
        found = locked(place, words, told)
    elif record is not None:
        found = recorded(place, python, words, record)
    else:
        found = ask(python, words, read("preferred.json")) if any(map(name_of, words)) else []
    os.makedirs(RESOLVED, exist_ok=True)
    text = "".join(line(item) + "\n" for item in found)
    with open(os.path.join(RESOLVED, place + ".txt"), "w", encoding="utf-8") as stream:
        stream.write(text)
    with open(os.path.join(RESOLVED, place + ".json"), "w", encoding="utf-8") as stream:
        json.dump({"requirements": sorted(set(words)), "packages": found}, stream, indent=1)
    print(text, end="")


def install(place: str, python: str, options: list[str]) -> None:
    """Install what was resolved, and nothing else.

    Raises:
        SystemExit: pip failed, and said why.
    """
    with open(os.path.join(RESOLVED, place + ".txt"), encoding="utf-8") as stream:
        lines = stream.readlines()
    # pip wants a hash of every package or of none; what comes from a repository is held by its commit.
    hashed = [item for item in lines if " --hash=" in item]
    others = [item for item in lines if item not in hashed]
    other = [] if python == sys.executable else ["--python", python]
    for more, chosen in ((["--require-hashes"], hashed), ([], others)):
        if chosen:
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as stream:
                stream.writelines(chosen)
                stream.flush()
                command = [sys.executable, "-m", "pip", *other, "install", "--no-deps", *more, *options]
                run([*command, "-r", stream.name])


def wheel(python: str, files: list[str]) -> None:
    """Install wheels; with a lock only where it holds all that they require.

    Raises:
        SystemExit: pip failed, and said why.
    """
    told = read("locked.json")
    alone = ["--no-index"] if told is not None else []
    done = subprocess.run([python, "-m", "pip", "install", *alone, *files], check=False)
    if done.returncode:
        said = "bakery: the wheel requires what bakery.lock does not hold (above): name it in test.requirements,\n"
        sys.exit(said + "bakery: then run `bakery lock`" if alone else done.returncode)


def run(command: list[str]) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    """Do what the first word says."""
    words = sys.argv[1:]
    if len(words) >= 3 and words[0] in ("resolve", "install"):
        (resolve if words[0] == "resolve" else install)(words[1], words[2], words[3:])
    elif len(words) >= 3 and words[0] == "wheel":
        wheel(words[1], words[2:])
    else:
        sys.exit((__doc__ or "").split("\n\n")[1])


if __name__ == "__main__":
    main()
