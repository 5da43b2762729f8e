"""Source archives as data: reads their metadata and runs none of their code.

`packages` uses this if a requirement has no wheel. A stub wheel with the metadata of the source replaces it while pip
resolves. Another step, without network and secrets, builds the source.
"""

from __future__ import annotations

import email
import glob
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import zipfile
from typing import Any, Dict, List, NamedTuple

from . import download, pip_alone, sdist
from .requirements import shown
from .unpack import inside, unpack

BUILT_WITH = ["setuptools", "wheel"]
"""What a source without a [build-system] table is built with."""

FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!~-]*\Z")
"""Names of archives: none leads to another folder."""

UNKNOWN = "0"
"""The version of a source that only its build knows."""


class Source(NamedTuple):
    """A package that must be built.

    Attributes:
        version: its version; UNKNOWN if only its build can tell.
        origin: the URL in a requirement; empty for an archive of the index.
        folder: where it is unpacked.
        requires: its requirements.
        python: the Python versions that it supports.
        extras: the names of its extras.
        builds_with: the requirements of its build.
    """

    name: str
    version: str
    file: str
    sha256: str
    origin: str
    folder: str
    requires: List[str]
    python: str
    extras: List[str]
    builds_with: List[str]

    def package(self) -> Dict[str, Any]:
        """Return it as a lock names it."""
        fields: Dict[str, Any] = {"name": self.name, "version": self.version, "file": self.file, "sha256": self.sha256}
        return {**fields, "origin": self.origin} if self.origin else fields


def of_index(requirement: Any, folder: str) -> Source | None:
    """Return the newest source archive of the index that satisfies a requirement; None where there is none."""
    # As pip has it (PEP 592): a range of versions is no pin.
    pinned = any(
        item.operator == "===" or (item.operator == "==" and not item.version.endswith(".*"))
        for item in requirement.specifier
    )
    candidates: dict[Any, tuple[sdist.Entry, str]] = {}
    for entry, index in offered(requirement.name):
        version = sdist.version_of(entry.filename, requirement.name)
        if version and is_for_python(entry.python) and (pinned or not entry.yanked):
            candidates.setdefault(version, (entry, index))
    chosen = max(requirement.specifier.filter(candidates), default=None)
    if chosen is None:
        return None
    entry, index = candidates[chosen]
    found_source = archive(entry, index, requirement.name, folder)
    if not sdist.same_version(found_source.version, str(chosen)):
        sys.exit("bakery: " + entry.filename + " of the package index says that it is " + found_source.version)
    return found_source


def is_for_python(wanted: str) -> bool:
    """Say whether a file is for this Python by its Requires-Python; one that is not valid counts for nothing, as in pip."""
    from pip._vendor.packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(wanted).contains(".".join(map(str, sys.version_info[:3])), prereleases=True)
    except InvalidSpecifier:
        return True


def offered(name: str) -> list[tuple[sdist.Entry, str]]:
    """Return the files that the configured indexes have of a project, each with its index; none of one out of reach."""
    files = []
    for index in sdist.indexes():
        try:
            files += [(entry, index) for entry in sdist.listing(index, name)]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                sys.stderr.write("sdist: the package index answered " + str(error.code) + " for " + name + "\n")
        except download.FAILURES as error:
            sys.stderr.write("sdist: cannot read " + name + " in the package index: " + str(error) + "\n")
    return files


def locked(package: dict[str, Any], folder: str) -> Source:
    """Return the source in a lock; exit if no index has it, or if its hash is another one."""
    if package.get("origin"):
        return of_address(package["name"], package["origin"], folder, package["sha256"])
    for entry, index in offered(package["name"]):
        if entry.filename == package["file"]:
            return archive(entry, index, package["name"], folder, package["sha256"])
    sys.exit("sdist: the package index does not have " + package["file"] + ", which bakery.lock names")


def archive(entry: sdist.Entry, index: str, name: str, folder: str, sha256: str = "", origin: str = "") -> Source:
    """Download and unpack a source archive; exit if this fails, or if its hash is not the locked one."""
    fragment = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(origin).fragment))
    if not FILE.match(entry.filename):
        sys.exit("bakery: " + repr(entry.filename) + " is no name of an archive of " + name)
    with tempfile.TemporaryDirectory() as scratch:
        file = os.path.join(scratch, entry.filename)
        digest = sdist.fetch(entry, index, file)
        if sha256 and sha256 != digest:
            sys.exit("sdist: " + entry.filename + " is locked as sha256 " + sha256 + ", and the index has " + digest)
        unpack(file, folder)
    inner = within(root(folder), fragment.get("subdirectory", ""))
    return described(name, entry.filename, digest, origin, inner)


def of_address(name: str, address: str, folder: str, sha256: str = "") -> Source:
    """Return the source at a URL: an archive or a git repository; exit if it cannot be downloaded."""
    parts = urllib.parse.urlsplit(address)
    # Over ssh a user is no secret; over https one alone is often a token.
    if parts.password or (parts.username and parts.scheme != "git+ssh"):
        sys.exit(
            "bakery: the address of " + name + " holds a user or a password, which a lock and logs would show: "
            "use a netrc file"
        )
    if parts.scheme in ("git+https", "git+http", "git+ssh"):
        return clone(name, address, folder)
    if parts.scheme not in ("http", "https"):
        sys.exit("bakery: cannot fetch " + name + " @ " + shown(address) + ": expected https or git+https")
    hashes = {key: value for key, value in urllib.parse.parse_qsl(parts.fragment) if key != "subdirectory"}
    file = urllib.parse.unquote(parts.path.rsplit("/", 1)[-1])
    entry = sdist.Entry(parts._replace(fragment="").geturl(), file, hashes)
    return archive(entry, address, name, folder, sha256, address)


def clone(name: str, address: str, folder: str) -> Source:
    """Clone a git repository at the commit, branch or tag in the URL; exit if this fails."""
    parts = urllib.parse.urlsplit(address)
    path, ref = parts.path.rsplit("@", 1) if "@" in parts.path else (parts.path, "HEAD")
    if ref.startswith("-"):
        sys.exit("bakery: cannot fetch " + name + " @ " + shown(address) + ": " + ref + " is no commit, branch or tag")
    subdirectory = dict(urllib.parse.parse_qsl(parts.fragment)).get("subdirectory", "")
    url = parts._replace(scheme=parts.scheme[4:], path=path, fragment="").geturl()
    settings = ["core.hooksPath=/dev/null", "advice.detachedHead=false", "protocol.allow=never"]
    settings += ["protocol." + kind + ".allow=always" for kind in ("https", "http", "ssh")]
    git = ["git", *(word for item in settings for word in ("-c", item)), "-C", folder]
    os.makedirs(folder)

    def run(*words: str) -> None:
        if subprocess.run([*git, *words], check=False).returncode:
            sys.exit("bakery: cannot fetch " + name + " @ " + shown(address) + ": git says why above")

    run("clone", "--quiet", "--no-checkout", "--", url, ".")
    # The clone has one branch of its own, the default one. As for pip, a branch comes before a tag of its name.
    branch = "refs/remotes/origin/" + ref
    is_branch = subprocess.run(
        [*git, "rev-parse", "--verify", "--quiet", branch], stdout=subprocess.DEVNULL, check=False
    )
    run("checkout", "--quiet", "--detach", ref if is_branch.returncode else branch)
    run("submodule", "--quiet", "update", "--init", "--recursive")
    commit = subprocess.run([*git, "rev-parse", "HEAD"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    origin = "git+" + url + "@" + commit + ("#subdirectory=" + subdirectory if subdirectory else "")
    return described(name, "", "", origin, within(folder, subdirectory))


def root(folder: str) -> str:
    """Return the only folder of an unpacked archive, or else all of it."""
    entries = os.listdir(folder)
    return os.path.join(folder, entries[0]) if len(entries) == 1 else folder


def within(folder: str, path: str) -> str:
    """Return a path inside a folder; exit if it leads out, also through a link."""
    if not inside(path, folder):
        sys.exit("bakery: " + path + " leads out of the source")
    return os.path.join(folder, path)


def described(name: str, file: str, sha256: str, origin: str, folder: str) -> Source:
    """Return a source with the metadata in PKG-INFO, or else in pyproject.toml; exit if that is not valid."""
    table = toml(within(folder, "pyproject.toml"))
    system = table.get("build-system")
    builds_with = system.get("requires") if isinstance(system, dict) else None
    version, requires, python, extras = UNKNOWN, [], "", []
    info = within(folder, "PKG-INFO")
    project = table.get("project", {})
    if os.path.isfile(info):
        with open(info, encoding="utf-8", errors="replace") as stream:
            fields = email.message_from_file(stream)
        version, python = fields.get("Version", UNKNOWN), fields.get("Requires-Python", "")
        requires, extras = fields.get_all("Requires-Dist", []), fields.get_all("Provides-Extra", [])
        if not requires:
            requires, extras = of_egg(folder)
    elif isinstance(project, dict):
        version, python = project.get("version", UNKNOWN), project.get("requires-python", "")
        optional = project.get("optional-dependencies", {})
        extras = list(optional)
        requires = [
            *project.get("dependencies", []),
            *(with_extra(item, key) for key in extras for item in optional[key]),
        ]
    if not isinstance(builds_with, list):
        builds_with = BUILT_WITH
    # A value of several lines would be several values in the stub.
    one_line = [[" ".join(str(item).split()) for item in items] for items in (requires, extras, builds_with)]
    python = " ".join(python.split())
    return Source(
        sdist.canonical(name), valid(name, version), file, sha256, origin, folder, one_line[0], python, *one_line[1:]
    )


def valid(name: str, version: str) -> str:
    """Return a version as pip writes it; exit if it is not valid."""
    parsed = sdist.version(version)
    if parsed is None:
        sys.exit("bakery: the source of " + name + " says that its version is " + repr(version))
    return str(parsed)


def of_egg(folder: str) -> tuple[list[str], list[str]]:
    """Return the requirements and extras in the form that old releases of setuptools wrote them."""
    for pattern in ("*.egg-info", os.path.join("*", "*.egg-info")):
        for path in glob.glob(os.path.join(glob.escape(folder), pattern)):
            if all(inside(os.path.join(path, file), folder) for file in ("PKG-INFO", "METADATA", "requires.txt")):
                metadata = importlib.metadata.Distribution.at(path)
                return list(metadata.requires or []), list(metadata.metadata.get_all("Provides-Extra") or [])
    return [], []


def with_extra(requirement: str, extra: str) -> str:
    """Return a requirement of an extra."""
    plain, _, marker = requirement.partition(";")
    # Without the space, the semicolon would belong to an address.
    return plain.rstrip() + " ; " + ("(" + marker.strip() + ") and " if marker else "") + 'extra == "' + extra + '"'


def toml(path: str) -> dict[str, Any]:
    """Return the data of a TOML file, empty if there is none; exit if it is not valid."""
    if not os.path.isfile(path):
        return {}
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        from pip._vendor import tomli as tomllib
    try:
        with open(path, "rb") as stream:
            table: dict[str, Any] = tomllib.load(stream)
            return table
    except (OSError, ValueError) as error:
        sys.exit("bakery: cannot read " + path + ": " + str(error))


def stub(source: Source, folder: str) -> str:
    """Write a wheel that has nothing but the source's metadata, for pip to resolve with; return its path."""
    name = re.sub(r"[-_.]+", "_", source.name)
    info = name + "-" + source.version + ".dist-info/"
    lines = ["Metadata-Version: 2.1", "Name: " + source.name, "Version: " + source.version]
    lines += ["Requires-Python: " + source.python] if source.python else []
    lines += ["Requires-Dist: " + item for item in source.requires]
    lines += ["Provides-Extra: " + item for item in source.extras]
    path = os.path.join(folder, name + "-" + source.version + "-py3-none-any.whl")
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(info + "METADATA", "\n".join(lines) + "\n")
        wheel.writestr(
            info + "WHEEL", "Wheel-Version: 1.0\nGenerator: bakery\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(info + "RECORD", "")
    return path


def build(source: Source, wheels: str, out: str) -> None:
    """Build a source with the wheels in a folder, which runs its code; exit if it fails or has other metadata."""
    runner = os.path.join(pip_alone.home(), "pip", "__pip-runner__.py")
    words = ["wheel", "--no-index", "--no-deps", "--no-cache-dir", "--disable-pip-version-check"]
    before = set(os.listdir(out))
    command = [sys.executable, runner, *words, "--find-links", wheels, "--wheel-dir", out, source.folder]
    done = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    output = done.stderr.decode(errors="replace")
    sys.stderr.write(output)
    named = source.name + " " + source.version
    if done.returncode:
        lacking = re.search(r"No matching distribution found for (.+)", output)
        why = (
            ": its build asks for " + lacking.group(1) + ", which [build-system] in its pyproject.toml does not require"
            if lacking
            else ": above is why; a source is built without network and without secrets"
        )
        sys.exit("bakery: " + named + " has no wheel here, and cannot be built" + why)
    built = sorted(set(os.listdir(out)) - before)
    if len(built) != 1 or not is_of(built[0], source):
        sys.exit("bakery: the source of " + named + " builds " + (", ".join(built) or "nothing"))


def is_of(file: str, source: Source) -> bool:
    """Say whether a wheel's name is that of what a source says it is."""
    name, _, rest = file.partition("-")
    version = urllib.parse.unquote(rest.partition("-")[0])
    is_same = source.version == UNKNOWN or sdist.same_version(version, source.version)
    return file.endswith(".whl") and sdist.canonical(name) == source.name and is_same


def required(wheel: str) -> list[str]:
    """Return what a wheel requires."""
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [name for name in opened.namelist() if re.match(r"[^/]+\.dist-info/METADATA\Z", name)]
        fields = email.message_from_bytes(opened.read(name))
    return [str(item) for item in fields.get_all("Requires-Dist", [])]
