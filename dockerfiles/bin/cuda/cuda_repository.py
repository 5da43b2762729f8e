"""Install CUDA from NVIDIA's package repository, or from a mirror.

Usage: cuda_repository.py ADDRESS RELEASE FINGERPRINT,... PACKAGE...

ADDRESS is the folder for one distribution and architecture (``…/rhel8/x86_64``), RELEASE a CUDA release. Packages have
their names in RPM repositories, without the release: ``libcublas-devel`` is ``libcublas-devel-12-8`` there, and
``libcublas-dev-12-8`` in Debian's. The key of the repository is in its folder and must have one of the fingerprints.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import shutil
import subprocess
import sys
import types
import urllib.error

if not __package__:
    # Bakery's programs are in one folder, and nothing else of it is imported.
    __package__ = "programs"
    folder = types.ModuleType(__package__)
    folder.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules[__package__] = folder

from .packages import download

KEYS = ("D42D0685.pub", "CDF6BA43.pub", "3bf863cc.pub", "8793F200.pub", "1940C73E.pub")
"""Names of NVIDIA's keys: RHEL 8 and 9, RHEL 10, Debian 12 and Ubuntu, Debian 13, Fedora 43 (README of
NVIDIA/cuda-repo-management and the repositories' own files, read 2026-11-21)."""

KEY_FILES = {"deb": "/usr/share/keyrings/bakery-cuda.asc", "rpm": "/etc/pki/rpm-gpg/RPM-GPG-KEY-bakery-cuda"}
LISTS = {"deb": "/etc/apt/sources.list.d/bakery-cuda.list", "rpm": "/etc/yum.repos.d/bakery-cuda.repo"}

LARGEST_KEY, KEY_S = 1 << 20, 120
PUBLIC_KEY = 6
PACKETS = (2, PUBLIC_KEY, 13, 14, 17)
"""What a file with a public key holds: signatures, keys, user IDs, subkeys, images of users."""

BLOCK = re.compile(rb"-----BEGIN PGP PUBLIC KEY BLOCK-----\s*\n(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.DOTALL)

_DEB_NAMES = {"cuda-cupti": "cuda-cupti-dev"}
"""Packages that Debian's repositories name in a way of their own."""


def packages(names: list[str], release: str, family: str) -> list[str]:
    """Return the names of packages as a repository of the family (``deb`` or ``rpm``) writes them."""
    suffix = "-" + "-".join(release.split(".")[:2])
    if family == "deb":
        names = [_DEB_NAMES.get(name, re.sub(r"-devel\Z", "-dev", name)) for name in names]
    return [name + suffix for name in names]


def listing(address: str, family: str) -> str:
    """Return the text of the file that tells the package manager of the repository."""
    key = KEY_FILES[family]
    if family == "deb":
        return "deb [signed-by=" + key + "] " + address + "/ /\n"
    lines = ("[bakery-cuda]", "name=CUDA", "baseurl=" + address, "enabled=1", "gpgcheck=1", "gpgkey=file://" + key)
    return "\n".join(lines) + "\n"


def key(address: str, accepted: list[str]) -> bytes:
    """Return the public key in the repository's folder as text; exit if none has an accepted fingerprint."""
    fetched = fetched_key(address)
    try:
        data = b"".join(map(unarmored, BLOCK.findall(fetched))) if b"-----BEGIN" in fetched else fetched
        key_fingerprints = fingerprints(data)
    except (ValueError, IndexError) as error:
        sys.exit("bakery: the key in " + address + " cannot be read: " + str(error))
    if not key_fingerprints or not set(key_fingerprints) <= set(accepted):
        message = (", ".join(key_fingerprints) or "of no key") + ", and not " + " or ".join(accepted)
        sys.exit(
            "bakery: the key in " + address + " has the fingerprint " + message + "\n"
            "bakery: compare it with what the repository's owner publishes, then name it: builder.cuda-repository-key"
        )
    return armored(data)


def fingerprints(data: bytes) -> list[str]:
    """Return the fingerprints of keys (RFC 4880: 4.2, 12.2), without subkeys; ValueError or IndexError if damaged."""
    result = []
    while data:
        tag, body, data = packet(data)
        if tag not in PACKETS:
            raise ValueError("it holds a packet of kind " + str(tag))
        if tag == PUBLIC_KEY:
            if body[0] != 4:
                raise ValueError("its version is " + str(body[0]) + ", and not 4")
            framed = b"\x99" + len(body).to_bytes(2, "big") + body
            result.append(hashlib.sha1(framed).hexdigest().upper())
    return result


def unarmored(block: bytes) -> bytes:
    """Return the bytes of a key in text form; ValueError if it is not base64."""
    lines = [line.strip() for line in block.splitlines()]
    # Headers come first, a checksum last.
    text = b"".join(line for line in lines if b": " not in line and not line.startswith(b"="))
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("it is no base64") from error


def armored(data: bytes) -> bytes:
    """Return a key as text: what was read here, and nothing that another program may read in another way."""
    check = 0xB704CE
    for byte in data:
        check ^= byte << 16
        for _ in range(8):
            check = (check << 1) ^ (0x1864CFB if check & 0x800000 else 0)
    lines = [b"-----BEGIN PGP PUBLIC KEY BLOCK-----", b"", base64.encodebytes(data).strip()]
    lines += [b"=" + base64.b64encode((check & 0xFFFFFF).to_bytes(3, "big")), b"-----END PGP PUBLIC KEY BLOCK-----"]
    return b"\n".join([*lines, b""])


def packet(data: bytes) -> tuple[int, bytes, bytes]:
    """Return tag and body of the first packet, and the rest; ValueError or IndexError if it is damaged."""
    first = data[0]
    if not first & 0x80:
        raise ValueError("it is no OpenPGP key")
    if first & 0x40:
        tag, size, start = first & 0x3F, data[1], 2
        if 192 <= size < 224:
            size, start = ((size - 192) << 8) + data[2] + 192, 3
        elif size == 255:
            size, start = int.from_bytes(data[2:6], "big"), 6
        elif size >= 224:
            raise ValueError("a part of it has no known length")
    else:
        width = (1, 2, 4, 0)[first & 3]
        if not width:
            raise ValueError("a part of it has no known length")
        tag, size, start = (first >> 2) & 0xF, int.from_bytes(data[1 : 1 + width], "big"), 1 + width
    if len(data) < start + size:
        raise IndexError("it is cut off")
    return tag, data[start : start + size], data[start + size :]


def fetched_key(address: str) -> bytes:
    """Return the file with the key in the repository's folder; exit if it cannot be downloaded."""
    if not address.startswith(("https://", "file://")):
        sys.exit("bakery: " + address + " starts with neither https: nor file:")
    reason = ""
    for name in KEYS:
        try:
            return download.content(address + "/" + name, LARGEST_KEY, KEY_S)[0]
        except download.FAILURES as error:
            reason = str(error)
            # A server that does not answer has no other key, either.
            if not isinstance(error, urllib.error.HTTPError) and not address.startswith("file:"):
                break
    sys.exit(
        "bakery: no key of NVIDIA's can be had from " + address + ": " + reason + "\n"
        "bakery: builder.cuda-repository is the folder of one distribution and machine, such as …/rhel8/x86_64"
    )


def write(path: str, text: bytes) -> None:
    """Write a file that everybody may read."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(text)
    os.chmod(path, 0o644)


def main(arguments: list[str]) -> None:
    """Tell the package manager of the repository, install, and let it forget the repository again."""
    if len(arguments) < 4:
        sys.exit("usage: cuda_repository.py ADDRESS RELEASE FINGERPRINT,... PACKAGE...")
    address, release = arguments[0].rstrip("/"), arguments[1]
    family = "deb" if shutil.which("apt-get") else "rpm"
    write(KEY_FILES[family], key(address, arguments[2].split(",")))
    write(LISTS[family], listing(address, family).encode())
    names = packages(arguments[3:], release, family)
    try:
        done = subprocess.run(["install-packages", *names], check=False)
    finally:
        os.unlink(LISTS[family])
    if done.returncode:
        sys.exit("bakery: " + address + " does not give " + " ".join(names) + " (above is why)")
    print("installed " + " ".join(names))


if __name__ == "__main__":
    main(sys.argv[1:])
