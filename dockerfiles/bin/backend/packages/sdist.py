"""Download source archives from the configured package index.

The index is that of pip (configuration file, environment, default). The hash of an archive is from the index or from a
lock (/lock). /requirements/source.json lists the download.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Iterator, NamedTuple

from . import download, pip_alone
from .unpack import unpack

SUFFIXES = (".tar.gz", ".zip", ".tar.bz2")
"""Archives that are understood, the best first."""

LOCK = "/lock/locked.json"
TOLD = "/requirements/source.json"

LARGEST_LISTING, LISTING_S = 24 << 20, 120
LARGEST_ARCHIVE, ARCHIVE_S = 2 << 30, 3600
"""What a list of files and an archive may have (bytes), and may take (seconds): many times what real ones do."""

MOST_TABLES = 1_000_000


class Entry(NamedTuple):
    """A file of the index: its absolute URL, its name, its hashes by algorithm, and the Pythons that it is for."""

    url: str
    filename: str
    hashes: dict[str, str]
    python: str = ""
    yanked: bool = False


@functools.lru_cache(maxsize=None)
def pip_configuration() -> dict[str, str]:
    """Return the values of pip's configuration."""
    # `pip config get` of pip 23.0 does not find what PIP_CONFIG_FILE names.
    command = [*pip_alone.command(), "config", "list"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return dict(re.findall(r"(?m)^(\S+?)='(.*)'$", done.stdout.decode()))


def pip_config(key: str) -> str:
    """Return a value of pip's configuration; empty when there is none."""
    given = os.environ.get("PIP_" + key.upper().replace("-", "_"))
    if given:
        return given
    values = pip_configuration()
    text = values.get("install." + key) or values.get("global." + key, "")
    return " ".join(text.replace("\\n", " ").split())


def default_index() -> str:
    """Return the index that pip uses when nothing is configured."""
    pip_alone.make_importable()
    try:
        from pip._internal.models.index import PyPI
    except ImportError:
        sys.exit("sdist: no package index is configured, and there is no pip to ask for its default")
    return PyPI.simple_url


def indexes() -> list[str]:
    """Return the indexes that pip asks."""
    if pip_config("no-index").lower() in ("1", "true", "yes", "on"):
        return []
    return [pip_config("index-url") or default_index(), *pip_config("extra-index-url").split()]


def add_index(url: str) -> None:
    """Let pip also ask an index, with the user and password that it has for an index of the same host."""
    if not url:
        return
    parts = urllib.parse.urlsplit(url)
    for known in map(urllib.parse.urlsplit, indexes()):
        credentials, _, host = known.netloc.rpartition("@")
        if credentials and (known.scheme, host) == (parts.scheme, parts.netloc):
            url = parts._replace(netloc=known.netloc).geturl()
    os.environ["PIP_EXTRA_INDEX_URL"] = " ".join([*pip_config("extra-index-url").split(), url])


class Anchors(html.parser.HTMLParser):
    """Collects the files of an index page in HTML (PEP 503)."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take one anchor: its address, and the hash in its fragment."""
        attributes = dict(attrs)
        href = attributes.get("href")
        if tag == "a" and href:
            url, _, fragment = href.partition("#")
            name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1])
            algorithm, _, digest = fragment.partition("=")
            hashes = {algorithm: digest} if digest else {}
            self.entries.append(
                Entry(url, name, hashes, attributes.get("data-requires-python") or "", "data-yanked" in attributes)
            )


def request(url: str, index: str) -> urllib.request.Request:
    """Return a request; the user and the password in the index's address are for its own host only."""
    parts, index_parts = urllib.parse.urlsplit(url), urllib.parse.urlsplit(index)
    credentials, _, host = index_parts.netloc.rpartition("@")
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.1, */*;q=0.01"
    http_request = urllib.request.Request(bare.geturl(), headers={"Accept": accept})
    if credentials and (bare.scheme, bare.netloc) == (index_parts.scheme, host):
        plain = urllib.parse.unquote(credentials).encode()
        # Unredirected: another host is not told.
        http_request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(plain).decode())
    return http_request


def listing(index: str, name: str) -> list[Entry]:
    """Return the files of a project as the index lists them."""
    http_request = request(index.rstrip("/") + "/" + canonical(name) + "/", index)
    body, kind, base = download.content(http_request, LARGEST_LISTING, LISTING_S)
    try:
        with download.within(LISTING_S):
            entries = parsed(body, kind)
    except (AssertionError, RecursionError):
        raise ValueError("its list of files is damaged") from None
    return [entry._replace(url=urllib.parse.urljoin(base, entry.url)) for entry in entries]


def parsed(body: bytes, kind: str) -> list[Entry]:
    """Return the files on a page of an index."""
    if kind.endswith("+json"):
        if body.count(b"[") + body.count(b"{") > MOST_TABLES:
            raise ValueError("its list of files has more than " + str(MOST_TABLES) + " tables")
        return [
            Entry(
                item["url"],
                item["filename"],
                item.get("hashes") or {},
                item.get("requires-python") or "",
                bool(item.get("yanked")),
            )
            for item in json.loads(body)["files"]
        ]
    page = Anchors()
    page.feed(body.decode("utf-8", "replace"))
    return page.entries


def canonical(name: str) -> str:
    """Return the name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def version(text: str) -> Any:
    """Return a version as pip reads it; None where the text is none."""
    pip_alone.make_importable()
    from pip._vendor.packaging.version import InvalidVersion, Version

    try:
        return Version(text)
    except InvalidVersion:
        return None


def same_version(left: str, right: str) -> bool:
    """Say whether two texts are the same version (1.0rc1 and 1.0.RC1 are)."""
    if left == right:
        return True
    try:
        parsed = version(left)
        return parsed is not None and bool(parsed == version(right))
    except ImportError:
        return False


def versions_in(stem: str, name: str) -> Iterator[str]:
    """Yield what may be the version of a project in the name of its archive, without the suffix.

    Old archives have the project's own spelling, so a dash may be a part of the name or of the version.
    """
    for match in re.finditer("-", stem):
        if canonical(stem[: match.start()]) == canonical(name):
            yield stem[match.end() :]


def rank(filename: str, name: str, version: str) -> int | None:
    """Return how well a file name fits the source archive of a version, 0 for the best; None for other files."""
    for number, suffix in enumerate(SUFFIXES):
        if filename.endswith(suffix):
            fits = (same_version(text, version) for text in versions_in(filename[: -len(suffix)], name))
            return number if any(fits) else None
    return None


def version_of(filename: str, name: str) -> Any:
    """Return the version of a source archive of a project; None where a file is none, or its version is not one."""
    stem = next((filename[: -len(suffix)] for suffix in SUFFIXES if filename.endswith(suffix)), "")
    return next(filter(None, map(version, versions_in(stem, name))), None)


def offered(index: str, name: str) -> list[Entry]:
    """Return the files of a project in the index; exit if it cannot be reached."""
    try:
        return listing(index, name)
    except urllib.error.HTTPError as error:
        sys.exit("sdist: the package index answered " + str(error.code) + " for " + name)
    except download.FAILURES as error:
        sys.exit("sdist: cannot read " + name + " in the package index: " + str(error))


def find(index: str, name: str, version: str) -> Entry:
    """Return the source archive of a version; exit if the index has none, or cannot be reached."""
    entries = offered(index, name)
    ranked = [(rank(entry.filename, name, version), number) for number, entry in enumerate(entries)]
    usable = [(place, number) for place, number in ranked if place is not None]
    if not usable:
        sys.exit("sdist: no source archive of " + name + "==" + version + " in the package index")
    return entries[min(usable)[1]]


def fetch(entry: Entry, index: str, archive: str) -> str:
    """Download an archive into a file and return its SHA-256; exit if this fails, or if the hash is another one."""
    try:
        sha256 = download.save(request(entry.url, index), archive, LARGEST_ARCHIVE, ARCHIVE_S)
    except download.FAILURES as error:
        sys.exit("sdist: cannot fetch " + entry.filename + ": " + str(error))
    for algorithm, expected in entry.hashes.items():
        if algorithm in hashlib.algorithms_guaranteed and digest(archive, algorithm) != expected.lower():
            sys.exit("sdist: the " + algorithm + " of " + entry.filename + " is not the one in the index")
    return sha256


def digest(path: str, algorithm: str) -> str:
    """Return the hash of a file."""
    value = hashlib.new(algorithm)
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            value.update(block)
    return value.hexdigest()


def locked(index: str, name: str, pinned: str) -> tuple[Entry, str] | None:
    """Return the locked archive and its hash; None without a lock.

    Exit if another one is locked, or if the index does not have it.
    """
    if not os.path.exists(LOCK):
        return None
    with open(LOCK, encoding="utf-8") as stream:
        lock = json.load(stream)
    package = lock["packages"][0]
    if lock["requirements"] != [pinned]:
        message = "bakery: bakery.lock holds the source of " + " ".join(lock["requirements"]) + ", and " + pinned
        sys.exit(message + " is asked for\nbakery: run `wheel-bakery lock`")
    entries = [entry for entry in offered(index, name) if entry.filename == package["file"]]
    if not entries:
        sys.exit("sdist: the package index does not have " + package["file"] + ", which bakery.lock names")
    return entries[0], package["sha256"]


def fetch_source(wanted: str, folder: str) -> None:
    """Download, verify and unpack the source archive NAME==VERSION; exit if this fails, or if another one is locked."""
    if wanted.count("==") != 1:
        sys.exit("sdist: expected NAME==VERSION, got " + wanted)
    name, version = wanted.split("==")
    index = pip_config("index-url") or default_index()
    pinned = locked(index, name, wanted)
    entry = pinned[0] if pinned else find(index, name, version)
    with tempfile.TemporaryDirectory() as scratch:
        archive = os.path.join(scratch, entry.filename)
        sha256 = fetch(entry, index, archive)
        if pinned and pinned[1] != sha256:
            sys.exit("sdist: " + entry.filename + " is locked as sha256 " + pinned[1] + ", and the index has " + sha256)
        unpacked = os.path.join(scratch, "unpacked")
        unpack(archive, unpacked)
        entries = os.listdir(unpacked) if os.path.isdir(unpacked) else []
        root = os.path.join(unpacked, entries[0]) if len(entries) == 1 else unpacked
        try:
            shutil.copytree(root, folder, symlinks=True)
        except OSError as error:
            sys.exit("sdist: cannot write " + folder + ": " + str(error))
    package = {"name": canonical(name), "version": version, "file": entry.filename, "sha256": sha256}
    os.makedirs(os.path.dirname(TOLD), exist_ok=True)
    with open(TOLD, "w", encoding="utf-8") as stream:
        json.dump({"requirements": [wanted], "packages": [package]}, stream, indent=1)
    print("unpacked " + entry.filename + " sha256:" + sha256)
