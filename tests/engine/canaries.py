"""A random value for every credential that a machine may have, a search for all of them, and code that tells what it sees."""

from __future__ import annotations

import base64
import gzip
import io
import os
import secrets
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import re2

DIGITS = 24
"""Hexadecimal digits at the end of each value: every spelling of the rest, such as percent-encoding, leaves them."""


@dataclass
class Spellings:
    """Finds values in data: plain, in any quotes or escapes, in hexadecimal, and in base64 with anything around them.

    ``values``: name → text that ends in `DIGITS` random hexadecimal digits.
    """

    values: Mapping[str, str]

    @cached_property
    def _names(self) -> dict[bytes, str]:
        found: dict[bytes, str] = {}
        for name, value in self.values.items():
            part = value[-DIGITS:].encode()
            # Wherever a line ends, one of two pieces is whole.
            pieces = [part[start : start + 9] for start in (*range(3), *range(12, 15))]
            digits = [part[start : start + 12].hex().encode() for start in (0, 12)]
            forms = (part, *map(base64.b64encode, pieces), *digits, *(text.upper() for text in digits))
            found |= dict.fromkeys(forms, name)
        return found

    @cached_property
    def _pattern(self) -> Any:
        # One pass over hundreds of megabytes.
        return re2.compile(b"|".join(map(re2.escape, self._names)))

    def found(self, data: bytes) -> set[str]:
        """Return the names of the values in data: also in what is packed there (gzip, tar, zip)."""
        return {self._names[match.group()] for part in unpacked(data) for match in self._pattern.finditer(part)}

    def in_data(self, data: bytes) -> bool:
        """Say whether data holds one."""
        return bool(self.found(data))

    def holders(self, folder: Path, but: tuple[str, ...] = ()) -> list[str]:
        """Return the files below a folder that hold one, or have it in their names; ``but``: names of those left out."""
        paths = [path for path in folder.rglob("*") if path.name not in but]
        plain = [path for path in paths if path.is_file() and not path.is_symlink()]
        found = [f"{path}: {sorted(names)}" for path in plain if (names := self.found(path.read_bytes()))]
        return [*found, *(str(path) for path in paths if self.in_data(os.fsencode(path.name)))]


def unpacked(data: bytes) -> Iterator[bytes]:
    """Yield data, and what is in it if it is an archive."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    yield data
    if data[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                yield from unpacked(archive.read(info))
    elif data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isfile() else None
                if stream and stream.read(2) in (b"\x1f\x8b", b"PK"):
                    stream.seek(0)
                    yield from unpacked(stream.read())


class Processes(threading.Thread):
    """Looks at the arguments of every process, again and again, until the context ends."""

    def __init__(self, spellings: Spellings) -> None:
        super().__init__(daemon=True)
        self.spellings, self.ended, self.found, self.seen = spellings, threading.Event(), set[bytes](), set[bytes]()

    def __enter__(self) -> Processes:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.join()

    def run(self) -> None:
        """Look until told to end."""
        while not self.ended.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = path.read_bytes()
                except OSError:
                    continue
                if line not in self.seen and self.spellings.in_data(line):
                    self.found.add(line)
                self.seen.add(line)


NAMES = (
    *("index", "extra-index", "pip-conf", "uv-index", "twine"),
    *("cargo-config", "cargo-credentials", "cargo-variable"),
    *("store", "store-read", "aws-key", "aws-token", "cache-key"),
    *("env", "file", "command"),
    *("netrc", "netrc-variable", "docker", "runner", "runner-identity", "github"),
    *("git-instead", "git-remote", "git-store"),
    *("docker-proxy",),
)
"""Every credential that a machine may have."""

MARK = "cnry"
"""How each value begins; the number of its name follows."""


def made() -> dict[str, str]:
    """Return name → a new value for each of `NAMES`."""
    return {name: f"{MARK}{number:02d}{secrets.token_hex(DIGITS // 2)}" for number, name in enumerate(NAMES)}


LOOKS = r'''
def looks(place, told="/var/tmp/told", everywhere=True):
    """Read what this process can see, print the files with a canary, and note which canaries these were.

    Not ``everywhere``: its own variables and arguments, its home and its folder. Number 99 is the network.
    """
    import glob, os, re, socket
    mark = re.compile(rb"MARK(\d\d)[0-9a-f]{DIGITS}")
    tops = ("/run", "/etc", "/root", "/home", "/opt/bakery", "/tmp", "/var/tmp", "/src", "/native", "/host/root", "/host/tmp", os.path.expanduser("~"))
    process = "[0-9]*" if everywhere else "self"
    tops = tops if everywhere else (os.path.expanduser("~"), os.getcwd(), "/run/secrets")
    paths = [*glob.glob("/proc/%s/environ" % process), *glob.glob("/proc/%s/cmdline" % process)]
    paths += [os.path.join(folder, name) for top in tops for folder, _, names in os.walk(top) for name in names]
    seen, codes = [], set()
    for path in paths:
        try:
            with open(path, "rb", buffering=0) as file:
                data = file.read(1 << 20) if path != told else b""
        except OSError:
            continue
        found = {match.decode() for match in mark.findall(data)}
        codes |= found
        if found or path.startswith(("/proc", "/run")):
            seen.append(path.encode() + b"\n" + data)
        if found:
            print("DUMP", path, data.replace(b"\0", b"\n").decode("latin-1"), flush=True)
    try:
        socket.create_connection(ADDRESS, timeout=3).close()
        codes.add("99")
    except OSError:
        pass
    line = "SAW %s: %s." % (place, " ".join(sorted(codes)))
    print("\x1b]52;c;eA==\x07" + line, flush=True)
    try:
        with open(told, "a") as file:
            file.write(line + "\n")
    except OSError:
        pass
    return b"\n".join([*seen, line.encode()])
'''.replace("MARK", MARK).replace("{DIGITS}", "{%d}" % DIGITS)  # noqa: UP031
"""Code of a hostile project or package; ``ADDRESS`` is to be replaced by a place that answers."""
