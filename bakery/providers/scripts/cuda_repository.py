"""Install CUDA from NVIDIA's own package repository, or from a mirror of it.

Usage: cuda_repository.py ADDRESS RELEASE PACKAGE...

ADDRESS is the folder of one distribution and machine (``…/rhel8/x86_64``), RELEASE a CUDA release. Packages are named
as in RPM repositories and without the release: ``libcublas-devel`` is there ``libcublas-devel-12-8``, and in Debian's
``libcublas-dev-12-8``. The key that signed the repository lies in its folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

KEYS = ("D42D0685.pub", "CDF6BA43.pub", "3bf863cc.pub", "8793F200.pub", "1940C73E.pub")
"""Names of NVIDIA's keys: RHEL 8 and 9, RHEL 10, Debian 12 and Ubuntu, Debian 13, Fedora 43 (README of
NVIDIA/cuda-repo-management and the repositories' own files, read 2026-11-21)."""

KEY_FILES = {"deb": "/usr/share/keyrings/bakery-cuda.asc", "rpm": "/etc/pki/rpm-gpg/RPM-GPG-KEY-bakery-cuda"}
LISTS = {"deb": "/etc/apt/sources.list.d/bakery-cuda.list", "rpm": "/etc/yum.repos.d/bakery-cuda.repo"}

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


def key(address: str) -> bytes:
    """Return the public key in the repository's folder.

    Raises:
        SystemExit: there is none, or it cannot be reached.
    """
    said = ""
    for name in KEYS:
        try:
            with urllib.request.urlopen(address + "/" + name, timeout=60) as reply:
                return bytes(reply.read())
        except (OSError, ValueError) as error:
            said = str(error)
            # A server that does not answer has no other key, either.
            if not isinstance(error, urllib.error.HTTPError) and not address.startswith("file:"):
                break
    sys.exit(
        "bakery: no key of NVIDIA's can be had from " + address + ": " + said + "\n"
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
    if len(arguments) < 3:
        sys.exit("usage: cuda_repository.py ADDRESS RELEASE PACKAGE...")
    address, release = arguments[0].rstrip("/"), arguments[1]
    family = "deb" if shutil.which("apt-get") else "rpm"
    write(KEY_FILES[family], key(address))
    write(LISTS[family], listing(address, family).encode())
    wanted = packages(arguments[2:], release, family)
    try:
        done = subprocess.run(["install-packages", *wanted], check=False)
    finally:
        os.unlink(LISTS[family])
    if done.returncode:
        sys.exit("bakery: " + address + " does not give " + " ".join(wanted) + " (above is why)")
    print("installed " + " ".join(wanted))


if __name__ == "__main__":
    main(sys.argv[1:])
