"""The package index that pip is configured to use on this machine."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import chain, islice, pairwise
from pathlib import Path

from packaging.utils import canonicalize_name, parse_sdist_filename
from packaging.version import Version

from bakery.core.addresses import hidden, is_address
from bakery.core.connections import Deadline, fetch, open_url
from bakery.core.errors import UnavailableError
from bakery.core.files import write_file
from bakery.plan.cells import Need
from wheel_audit.readers import json_of, read_json
from wheel_audit.wheel_names import parse_wheel_name

TIMEOUT_S = 60
"""Seconds for a page of an index."""

LARGEST_PAGE = 24 << 20
"""Bytes of a page: PyPI's largest ones have 15 MB."""

LARGEST_FILE = 4 << 30
"""Bytes of a file."""

_DOWNLOAD_S = 1800.0
_MOST_FILES = 200_000
_LONGEST_TAG = 10_000
_HREF = re.compile(r"""(?:^|[\s"'])href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_YANKED = re.compile(r"\sdata-yanked(?:[\s=>]|\Z)", re.IGNORECASE)

_LARGEST_MEMORY = 1 << 20
REMEMBER_S = 24 * 3600
"""Seconds that a release counts as available after it was found. A missing one is queried every time."""

_SHARED = ("index-url", "extra-index-url", "trusted-host", "timeout", "default-timeout", "retries")
"""Settings of pip that are also valid in containers."""


@dataclass(frozen=True, slots=True)
class Index:
    """A package index: the URL of the first simple index, and pip's settings that are also valid in containers.

    Raises UnavailableError, without the value, if an address is malformed.
    """

    url: str = field(repr=False)
    settings: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        """Check the addresses: programs would show a part of a password as the port."""
        if not all(map(is_address, (self.url, *self.settings.values()))):
            raise UnavailableError(
                "the address of the package index is malformed; it is not shown, as it may have a password",
                hint="in users and passwords, write / ? # and @ as %2F %3F %23 and %40: see `pip config list`",
            )

    @property
    def address(self) -> str:
        """The URL without its credentials, for messages and records."""
        return hidden(self.url)

    def pip_conf(self) -> str:
        """Return a pip configuration file for containers; empty if pip's defaults suffice."""
        if not self.settings:
            return ""
        return "[global]\n" + "".join(f"{key} = {value}\n" for key, value in self.settings.items())


def cargo_config(environ: Mapping[str, str]) -> Path | None:
    """Return cargo's configuration file of this machine, which has its registries; None if there is none."""
    folder = Path(environ.get("CARGO_HOME") or Path(environ.get("HOME", "/"), ".cargo"))
    return next((path for name in ("config.toml", "config") if (path := folder / name).is_file()), None)


def configured() -> Index:
    """Return the index that pip uses here. Raises UnavailableError if pip's configuration cannot be read, or has no
    address of an index.

    Folders of this machine (``file:``) are left out, because containers do not have them.
    """
    # pip has no public interface for its configuration and its default; these names have stood since pip 10.
    from pip._internal.configuration import Configuration
    from pip._internal.exceptions import PipError
    from pip._internal.models.index import PyPI

    configuration = Configuration(isolated=False)
    try:
        configuration.load()
    except PipError as error:
        raise UnavailableError(
            "pip's configuration cannot be read",
            hint="`pip config debug` lists its files",
            details=[hidden(str(error))],
        ) from error
    merged = _merge(configuration.items())
    # A value may have several lines, which would have to be indented in a file.
    settings = {
        key: " ".join(word for word in value.split() if not word.startswith("file:")) for key, value in merged.items()
    }
    settings = {key: value for key, value in settings.items() if value}
    return Index(settings.get("index-url", PyPI.simple_url), settings)


def _merge(items: Iterable[tuple[str, object]]) -> dict[str, str]:
    """Merge the values of pip's `Configuration` as ``pip install`` does.

    The environment wins over sections, ``install`` over ``global``, and in each section a later file over an earlier
    one. Empty values count only within a section. From pip 25.1 on, the items are a dictionary for each file and ``:env:``.
    """
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for source, content in items:
        values = content if isinstance(content, dict) else {source: content}
        for key, value in values.items():
            section, _, name = str(key).partition(".")
            if section in sections and name in _SHARED:
                sections[section][name] = str(value)
    return {name: value for section in sections.values() for name, value in section.items() if value}


def releases(
    index: Index, name: str, *, sdist: bool, ca_bundle: str, timeout_s: float = TIMEOUT_S, yanked: bool = True
) -> list[Version]:
    """Return the versions of a distribution that the index offers, oldest first; with ``sdist``, only those with one.

    The rest is as in `files_of`.
    """
    files = files_of(index, name, ca_bundle=ca_bundle, timeout_s=timeout_s, yanked=yanked)
    return sorted({version for file in files if (version := _version(file, sdist=sdist))})


@dataclass(frozen=True, slots=True)
class Link:
    """A file on a page of an index: its name, its address as the page has it, and its SHA-256, empty if none is given.

    A ``yanked`` one (PEP 592) is installed only by those who ask for exactly its version.
    """

    name: str
    address: str = field(repr=False)
    sha256: str
    yanked: bool = False


def files_of(
    index: Index, name: str, *, ca_bundle: str, timeout_s: float = TIMEOUT_S, yanked: bool = True
) -> list[str]:
    """Return the names of the files that the index has of a distribution, also of ``yanked`` ones, or without them.

    The rest is as in `links_of`.
    """
    links = links_of(index, name, ca_bundle=ca_bundle, timeout_s=timeout_s)
    return [link.name for link in links if yanked or not link.yanked]


def links_of(index: Index, name: str, *, ca_bundle: str, timeout_s: float = TIMEOUT_S) -> list[Link]:
    """Return the files that the index has of a distribution; none if it does not know it.

    ``ca_bundle`` is a PEM file, empty for the system's certificates; ``timeout_s`` applies to the whole answer.
    Raises UnavailableError if the index cannot be reached, or its answer is malformed.
    """
    request = _request(index, name)
    try:
        context = ssl.create_default_context(cafile=ca_bundle or None) if request.type == "https" else None
        return links_on(*fetch(request, most=LARGEST_PAGE, seconds=timeout_s, tls=context))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return []
        raise UnavailableError(f"the package index answered {error.code} for {name}", hint=_REACH) from error
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        raise UnavailableError(
            f"cannot reach the package index for {name}", hint=_REACH, details=[str(error)]
        ) from error


def _request(index: Index, name: str, link: str = "") -> urllib.request.Request:
    """Return a request for the page of a distribution, or for what a link on it names.

    Only the server of the index gets its password. Raises ValueError for a malformed link.
    """
    accept = "*/*" if link else "application/vnd.pypi.simple.v1+json, text/html;q=0.1"
    parts = urllib.parse.urlsplit(index.url)
    login, _, host = parts.netloc.rpartition("@")
    base = parts._replace(netloc=host).geturl().rstrip("/")
    address = urllib.parse.urljoin(f"{base}/{canonicalize_name(name)}/", link)
    request = urllib.request.Request(address, headers={"Accept": accept, "User-Agent": "wheel-bakery"})
    user, _, password = login.partition(":")
    asked = urllib.parse.urlsplit(address)
    if user and (asked.scheme, asked.netloc) == (parts.scheme, host):
        # urllib does not read user and password from a URL. A redirect must not send them to another host.
        both = f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}".encode()
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(both).decode()}")
    return request


def download(index: Index, name: str, link: Link, target: Path, *, ca_bundle: str) -> None:
    """Write a file of a distribution to ``target``. Raises UnavailableError, also if its hash is not that of the page."""
    digest, size = hashlib.sha256(), 0
    try:
        request = _request(index, name, link.address)
        context = ssl.create_default_context(cafile=ca_bundle or None) if request.type == "https" else None
        with open_url(request, Deadline(_DOWNLOAD_S), context) as reply, target.open("wb") as stream:
            while chunk := reply.read(1 << 20):
                size += len(chunk)
                if size > LARGEST_FILE:
                    raise ValueError(f"it has more than {LARGEST_FILE:,} bytes")
                digest.update(chunk)
                stream.write(chunk)
        if digest.hexdigest() != link.sha256:
            what = f"its page says {link.sha256}" if link.sha256 else "its page gives none to compare with"
            raise ValueError(f"it has sha256 {digest.hexdigest()}, and {what}")
    except (OSError, HTTPException, ValueError) as error:
        raise UnavailableError(f"cannot download {link.name}", hint=_REACH, details=[hidden(str(error))]) from error


_REACH = "see `wheel-bakery doctor`; behind a company proxy, give its certificates with --ca-bundle FILE"


def links_on(kind: str, body: bytes) -> list[Link]:
    """Return the files on a page of an index; ``kind`` is its media type, JSON (PEP 691) or HTML (PEP 503).

    Raises ValueError, LookupError or TypeError for another text.
    """
    if kind.endswith("+json"):
        links = [_entry(item) for item in json_of(body)["files"]]
    else:
        # One that links to no file counts, too: there may be millions.
        links = [_linked(tag) for tag in _tags(body.decode("utf-8", "replace"))]
    if len(links) > _MOST_FILES:
        raise ValueError(f"it lists more than {_MOST_FILES:,} files")
    return [link for link in links if link.name]


def _entry(item: Mapping[str, object]) -> Link:
    name, hashes = str(item["filename"]), item.get("hashes")
    return Link(
        name,
        str(item.get("url", "")),
        str(hashes.get("sha256", "")) if isinstance(hashes, Mapping) else "",
        # The reason may be empty.
        item.get("yanked", False) not in (False, None),
    )


def _tags(text: str) -> Iterator[str]:
    """Yield what follows each ``<a``, of a few more than `_MOST_FILES`.

    The library's parser needs quadratic time for some pages, and fails for others.
    """
    found = islice(re.finditer(r"<a\s", text, re.IGNORECASE), _MOST_FILES + 2)
    for start, end in pairwise(chain((match.end() for match in found), [len(text)])):
        yield text[start : min(end, start + _LONGEST_TAG)]


def _linked(tag: str) -> Link:
    """Return the file that the address in a tag names; one without a name if there is none."""
    match = _HREF.search(tag)
    address = html.unescape(next(filter(None, match.groups()), "")) if match else ""
    name = urllib.parse.unquote(re.split("[?#]", address, maxsplit=1)[0].rpartition("/")[2])
    place, _, fragment = address.partition("#")
    sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
    return Link(name, place, sha256, _YANKED.search(tag) is not None)


def _version(file: str, *, sdist: bool) -> Version | None:
    try:
        if file.endswith(".whl"):
            return None if sdist else parse_wheel_name(file)[1]
        return parse_sdist_filename(file)[1]
    except ValueError:
        return None


def check(needs: Iterable[Need], index: Index, *, ca_bundle: str, memory: Path) -> None:
    """Check that the index has every release that a plan needs; ``memory`` is a JSON file with those of earlier checks.

    Raises UnavailableError if releases are missing; the details have the nearest ones, and alternatives.
    """
    seen = _recall(memory)
    now = time.time()
    problems: list[str] = []
    for need in dict.fromkeys(needs):
        key = f"{index.address} {need.name}=={need.version}{' sdist' if need.sdist else ''}"
        if _is_fresh(seen.get(key, 0.0), now):
            continue
        offered = releases(index, need.name, sdist=need.sdist, ca_bundle=ca_bundle)
        if Version(need.version) in offered:
            seen[key] = now
        else:
            problems += _missing(need, offered)
    if problems:
        raise UnavailableError("the package index does not have what the plan needs", details=problems)
    _remember(memory, seen)


def _is_fresh(at: float, now: float) -> bool:
    """Whether a time is recent. A time in the future means that the clock has jumped."""
    return 0 <= now - at < REMEMBER_S


def _missing(need: Need, offered: Sequence[Version]) -> list[str]:
    what = f"{need.why}: {need.name}=={need.version} is not in the package index"
    if not offered:
        return [what, f"  it has no {'source archive of ' if need.sdist else ''}{need.name} at all"]
    lines = [what, f"  nearest: {', '.join(nearest(Version(need.version), offered))}"]
    if need.alternatives:
        lines.append(f"  other toolkits: {', '.join(need.alternatives)}; or an image with its own CUDA as the base")
    return lines


def nearest(target: Version, offered: Sequence[Version], count: int = 4) -> list[str]:
    """Return the versions that are closest to ``target``, the closest first."""

    def distance(version: Version) -> tuple[int, ...]:
        pairs = zip(_three(target), _three(version), strict=True)
        return tuple(abs(ours - theirs) for ours, theirs in pairs)

    usable = [version for version in offered if not version.is_prerelease] or list(offered)
    return [_release(version) for version in sorted(usable, key=distance)[:count]]


def _release(version: Version) -> str:
    """Write a version the way CUDA does: without the fourth part that the index adds."""
    return ".".join(map(str, _three(version))) if version.release[3:] == (0,) else str(version)


def _three(version: Version) -> tuple[int, int, int]:
    return version.major, version.minor, version.micro


def _recall(memory: Path) -> dict[str, float]:
    try:
        data = read_json(memory, _LARGEST_MEMORY)
        return {str(key): float(value) for key, value in data.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _remember(memory: Path, seen: Mapping[str, float]) -> None:
    fresh = {key: value for key, value in seen.items() if _is_fresh(value, time.time())}
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        write_file(memory, json.dumps(fresh).encode())
    except OSError:
        return  # this is only a cache: the next run queries again
