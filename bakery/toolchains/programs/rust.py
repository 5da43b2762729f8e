"""Install the Rust that a project asks for: what the image has, else its package manager's, else Rust's own release.

Usage: rust.py FILE

FILE is what cargo_project.py wrote: 1.85 or 1.85.1 (exactly that), >=1.78, stable, beta, nightly, nightly-2026-01-31.
Releases come from https://static.rust-lang.org, or from the mirror that RUSTUP_DIST_SERVER names, as for rustup. Their
SHA-256 is in the channel's manifest there.
"""

from __future__ import annotations

import glob
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types

if not __package__:
    # Bakery's programs are in one folder, and nothing else of it is imported.
    __package__ = "programs"
    folder = types.ModuleType(__package__)
    folder.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules[__package__] = folder

from .packages import download
from .packages.unpack import save_tar

SERVER = "https://static.rust-lang.org"
HOME = "/opt/rust"
LINKS = "/usr/local/bin"
PROGRAMS = ("cargo", "rustc", "rustdoc")
COMPONENTS = ("rustc", "cargo", "rust-std")
LARGEST_MANIFEST, MANIFEST_S = 16 << 20, 120
LARGEST_ARCHIVE, ARCHIVE_S = 1 << 30, 3600
"""What a file of the server may have (bytes), and may take (seconds): many times what real ones do."""

_LEFT_OUT = ("share", "manifest.in")


def number(text: str) -> tuple[int, ...]:
    """Return the version in a text as numbers: ``rustc 1.85.1 (4eb161250)`` → (1, 85, 1)."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(map(int, match.group().split("."))) if match else ()


def fits(version: str, wanted: str) -> bool:
    """Whether a stable release is what is wanted."""
    if not number(version):
        return False
    if wanted == "stable":
        return True
    if wanted.startswith(">="):
        return number(version) >= number(wanted)
    exact = number(wanted)
    return bool(re.match(r"\d", wanted)) and number(version)[: len(exact)] == exact


def is_right(version: str, wanted: str) -> bool:
    """Whether an installed release is what is wanted; of a channel of a day, whatever its manifest has."""
    return fits(version, wanted) or bool(re.match(r"beta|nightly|stable-\d", wanted))


def output(*words: str) -> str:
    """Return what a command prints; empty if it is missing or fails."""
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return ""
    return "" if done.returncode else done.stdout.decode("utf-8", "replace")


def in_image() -> str:
    """Return the stable version of the Rust that the image has; empty if it has none."""
    version = output("rustc", "--version")
    is_stable = shutil.which("cargo") and not re.search(r"-(?:beta|nightly)", version)
    return version if is_stable else ""


def candidates() -> list[tuple[str, list[str]]]:
    """Return version → packages that the package manager offers, newest first."""
    found: list[tuple[str, list[str]]] = []
    if shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        # Debian's updates of browsers bring rustc-web, Ubuntu has packages such as rustc-1.85.
        names = output("apt-cache", "search", "--names-only", r"^rustc(-web|-[0-9]+\.[0-9]+)?$").split("\n")
        for name in sorted(line.split(" ")[0] for line in names if line):
            match = re.search(r"(?m)^ *Candidate: *(\S+)$", output("apt-cache", "policy", name))
            found += [(match.group(1), [name, name.replace("rustc", "cargo")])] if match else []
    elif shutil.which("dnf"):
        certificate = os.environ.get("SSL_CERT_FILE")
        options = ["--setopt=sslcacert=" + certificate] if certificate else []
        version = output("dnf", "-q", *options, "repoquery", "--latest-limit=1", "--qf", "%{version}\n", "rust")
        found += [(line, ["rust", "cargo"]) for line in version.split()]
    return sorted((item for item in found if number(item[0])), key=lambda item: number(item[0]), reverse=True)


def link(folder: str, suffix: str = "") -> None:
    """Put the programs of a toolchain on PATH."""
    for name in PROGRAMS:
        path = os.path.join(folder, name + suffix)
        target = os.path.join(LINKS, name)
        if os.path.exists(path) and os.path.abspath(path) != target:
            if os.path.lexists(target):
                os.remove(target)
            os.symlink(path, target)


def install_packages(packages: list[str]) -> None:
    """Install packages of the package manager."""
    subprocess.run(["install-packages", *packages], check=True)
    # rustc-1.85 has its programs as /usr/bin/rustc-1.85.
    match = re.match(r"rustc(-\d+\.\d+)$", packages[0])
    if match:
        link("/usr/bin", match.group(1))


def triple() -> str:
    """Return the platform of this image as Rust names it."""
    return platform.machine() + "-unknown-linux-" + ("musl" if glob.glob("/lib/ld-musl-*") else "gnu")


def fetch(address: str, to: str = "") -> bytes:
    """Return the content of an address, or write it to a file and return its SHA-256; exit if it is not there."""
    try:
        if to:
            return download.save(address, to, LARGEST_ARCHIVE, ARCHIVE_S).encode()
        return download.content(address, LARGEST_MANIFEST, MANIFEST_S)[0]
    except download.FAILURES as error:
        sys.exit("bakery: cannot download " + address + ": " + str(getattr(error, "reason", error)))


def manifest(server: str, wanted: str) -> str:
    """Return the manifest of the channel that has what is wanted."""
    channel = "stable" if wanted.startswith(">=") else wanted
    dated = re.match(r"(.+)-(\d{4}-\d\d-\d\d)$", channel)
    folder = server + "/dist" + ("/" + dated.group(2) if dated else "")
    address = folder + "/channel-rust-" + (dated.group(1) if dated else channel) + ".toml"
    data = fetch(address)
    words = fetch(address + ".sha256").decode("ascii", "replace").split()
    if not words or words[0] != hashlib.sha256(data).hexdigest():
        sys.exit("bakery: " + address + " has not the SHA-256 that the server names for it")
    return data.decode("utf-8")


def archive(text: str, component: str, target: str) -> tuple[str, str]:
    """Return the address and the SHA-256 of a component in a manifest; exit if it has none for the platform."""
    section = re.search(
        r"(?m)^\[pkg\." + component + r"\.target\." + re.escape(target) + r"\]\n((?:\w+ = .*\n?)*)", text
    )
    fields = dict(re.findall(r'(?m)^(\w+) = "(.*)"$', section.group(1))) if section else {}
    for prefix in ("xz_", ""):
        if prefix + "url" in fields and re.match(r"[0-9a-f]{64}$", fields.get(prefix + "hash", "")):
            return fields[prefix + "url"], fields[prefix + "hash"]
    return sys.exit("bakery: this release of Rust has no " + component + " for " + target)


def unpack(path: str, to: str) -> None:
    """Unpack the components of an archive of Rust's installer, without documentation."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as scratch:
        with tarfile.open(path) as stream:
            save_tar(stream, scratch)
        (top,) = os.listdir(scratch)
        with open(os.path.join(scratch, top, "components"), encoding="utf-8") as stream:
            components = stream.read().split()
        for component in components:
            folder = os.path.join(scratch, top, component)
            for where, _, names in os.walk(folder):
                relative = os.path.relpath(where, folder)
                if relative.split(os.sep)[0] in _LEFT_OUT:
                    continue
                os.makedirs(os.path.join(to, relative), exist_ok=True)
                for name in names:
                    if name not in _LEFT_OUT:
                        shutil.move(os.path.join(where, name), os.path.join(to, relative, name))


def install_release(wanted: str, offers: list[str]) -> None:
    """Install a release of Rust's own."""
    server = os.environ.get("RUSTUP_DIST_SERVER", SERVER).rstrip("/")
    print("bakery: Rust " + wanted + " is not in this image or its packages (" + (", ".join(offers) or "none") + ")")
    print("bakery: installing it from " + server)
    text = manifest(server, wanted)
    with tempfile.TemporaryDirectory() as scratch:
        for component in COMPONENTS:
            address, expected = archive(text, component, triple())
            path = os.path.join(scratch, os.path.basename(address))
            if (
                fetch(server + address[len(SERVER) :] if address.startswith(SERVER) else address, path).decode()
                != expected
            ):
                sys.exit("bakery: " + address + " has not the SHA-256 of the manifest")
            print(expected + "  " + os.path.basename(address))
            unpack(path, HOME)
    link(HOME + "/bin")


def main() -> None:
    """Install what the file asks for."""
    if len(sys.argv) != 2:
        sys.exit((__doc__ or "").split("\n\n")[1])
    with open(sys.argv[1], encoding="utf-8") as stream:
        wanted = stream.read().strip()
    if not fits(in_image(), wanted):
        offers = candidates()
        packages = next((packages for version, packages in offers if fits(version, wanted)), [])
        if packages:
            install_packages(packages)
        else:
            install_release(wanted, [version for version, _ in offers])
    version = output("rustc", "--version").strip()
    if not version or not output("cargo", "--version"):
        sys.exit("bakery: rustc and cargo do not run in this image")
    if not is_right(version, wanted):
        sys.exit("bakery: " + version + " is installed, and the project asks for " + wanted)
    print(version)


if __name__ == "__main__":
    main()
