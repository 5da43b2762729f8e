"""Debian packages, unpacked into private folders: nothing is installed, the machine's apt stays as it is.

The mirror is the machine's own, read from ``apt-get indextargets``. Lists and downloads are in a private apt state; apt
checks signatures with the machine's Debian keyring. That suffices for the newer suite, whose Release file is signed by
the keys of released versions too (bookworm's among them). If a keyring is too old, apt refuses.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from bakery.core import child
from bakery.core.environment import for_tool
from bakery.core.errors import UnavailableError
from bakery.engine.paths import EnginePaths, made_once
from wheel_audit.plain_files import file_sha256

Progress = Callable[[str], None]

NEWER_SUITE = "forky"
"""The Debian suite that carries a current engine whose programs still run on bookworm's glibc."""

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
APT_HELPER = Path("/usr/lib/apt/apt-helper")
APT_TIMEOUT_S = 600
PACKAGES = "packages.json"
"""The file in the folder of an unpacked bundle that maps the file name of each package to its SHA-256."""
_TARGETS = ("apt-get", "indextargets", "--format", "$(CREATED_BY)|$(REPO_URI)|$(RELEASE)|$(CODENAME)|$(LABEL)")


Mirror: TypeAlias = Mapping[str, str]
"""Suffix of a part of a suite (empty, ``-updates``, ``-security``) → its address; the last is not on every machine."""


@dataclass(frozen=True)
class Bundle:
    """Packages of the machine's suite, and newer ones of NEWER_SUITE, for the folder `name` below the cache."""

    name: str
    packages: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()


def machine_suite() -> str:
    """Return the Debian code name of this machine: ``bookworm``. Raises UnavailableError if it has none."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    if release.get("ID") != "debian" or not release.get("VERSION_CODENAME"):
        raise UnavailableError(
            f"this is not a Debian machine but {release.get('PRETTY_NAME', platform.system())}",
            hint="bakery can fetch Debian packages only on Debian 12 or newer",
        )
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise UnavailableError("this machine has no apt-get and dpkg-deb", hint="install apt and dpkg")
    return release["VERSION_CODENAME"]


def can_make_bases() -> bool:
    """Whether this process can make the images of base ``debian``: it is root's, on Debian."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    try:
        machine_suite()
    except UnavailableError:
        return False
    return True


def machine_mirror(suite: str) -> Mirror:
    """Return the mirror that this machine is configured to use. Raises UnavailableError if it has none for the suite."""
    targets = _run(_TARGETS)
    if not targets.strip():
        # A machine whose package lists were deleted names no targets: read them into a temporary folder.
        with tempfile.TemporaryDirectory(prefix="bakery-lists-") as lists:
            (Path(lists) / "partial").mkdir()
            option = f"Dir::State::Lists={lists}"
            _run(["apt-get", "-o", option, "-o", "APT::Sandbox::User=root", "update"])
            targets = _run([*_TARGETS, "-o", option])
    return parse_targets(targets, suite)


def configured_mirror(suite: str, timeout_s: float) -> Mirror:
    """Return the mirror in apt's package lists, without a download as in `machine_mirror`. Raises UnavailableError."""
    return parse_targets(_run(_TARGETS, timeout_s=timeout_s), suite)


def parse_targets(text: str, suite: str) -> Mirror:
    """Find the mirrors of a suite in the output of ``apt-get indextargets``. Raises UnavailableError if there is none.

    A source may call the suite by an alias (``stable``): then its Release file's code name counts. The label keeps out
    third parties that name their own releases after Debian's.
    """
    uris: dict[str, str] = {}
    names = {"Debian": suite, "Debian-Security": f"{suite}-security"}
    for line in text.splitlines():
        match line.split("|"):
            case ["Packages", uri, release, codename, label] if names.get(label) in (release, codename):
                uris.setdefault(label, uri.rstrip("/"))
    if "Debian" not in uris:
        raise UnavailableError(
            f"apt names no mirror for {suite}",
            hint="add a Debian source for this release under /etc/apt/sources.list.d and run `apt-get update`",
        )
    main = {"": uris["Debian"], "-updates": uris["Debian"]}
    return main | ({"-security": security} if (security := uris.get("Debian-Security")) else {})


def source_lines(mirror: Mirror, suite: str) -> list[str]:
    """Return one-line apt sources of all parts of a suite that the mirror has."""
    signed_by = f"[signed-by={KEYRING}] " if KEYRING.is_file() else ""
    return [f"deb {signed_by}{address} {suite}{suffix} main" for suffix, address in mirror.items()]


def disabled_checks() -> list[str]:
    """Return which of apt's checks of a mirror's dates this machine has switched off."""
    names = ("Acquire::Check-Valid-Until", "Acquire::Check-Date")
    return [name for name in names if _run(["apt-config", "shell", "value", f"{name}/b"]).strip() == "value='false'"]


def fetch(address: str, target: Path) -> str | None:
    """Download a small text file as apt does, proxies included; None if the mirror does not have it."""
    try:
        _run([str(APT_HELPER), "-o", "APT::Sandbox::User=root", "download-file", address, str(target)])
    except UnavailableError:
        return None
    return target.read_text(errors="replace")


def architecture() -> str:
    """Return the machine's Debian architecture, e.g. ``amd64``."""
    return _run(["dpkg", "--print-architecture"]).strip()


def unpack_bundle(paths: EnginePaths, bundle: Bundle, progress: Progress, finish: Callable[[Path, Path], None]) -> Path:
    """Download and unpack a bundle once; later calls return the same folder at once.

    ``finish`` may add files: it gets the unpacked folder and its final path. The folder is renamed when it is complete.
    Raises UnavailableError if this is no Debian machine, or the packages cannot be fetched; OSError if the cache cannot
    be written.
    """
    suite = machine_suite()
    final = paths.cache / bundle.name / bundle_key(bundle, suite, platform.machine())

    def unpack(scratch: Path) -> Path:
        root = scratch / "root"
        root.mkdir()
        debs = _download(scratch, bundle, suite, progress)
        for deb in debs:
            _run(["dpkg-deb", "-x", str(deb), str(root)])
        digests = {deb.name: file_sha256(deb) for deb in debs}
        (root / PACKAGES).write_text(json.dumps(digests, indent=2, sort_keys=True) + "\n")
        finish(root, final)
        return root

    return made_once(final, unpack)


def bundle_key(bundle: Bundle, suite: str, machine: str) -> str:
    """Return the name of a bundle's folder: it depends on what decides the content, and needs no network."""
    text = json.dumps([bundle.packages, bundle.newer, suite, NEWER_SUITE, machine, 1])
    return f"{suite}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _download(scratch: Path, bundle: Bundle, suite: str, progress: Progress) -> list[Path]:
    first, *others = (*bundle.newer, *bundle.packages)
    progress(f"downloading {first}" + (f" and {len(others)} more packages" if others else ""))
    mirror = machine_mirror(suite)
    options = _private_state(scratch, mirror, suite, newer=bool(bundle.newer))
    _run(["apt-get", *options, "--error-on=any", "update"])
    packages = [f"{name}/{NEWER_SUITE}" for name in bundle.newer] + list(bundle.packages)
    _run(["apt-get", *options, "download", *packages], cwd=scratch / "debs")
    return sorted(scratch.glob("debs/*.deb"))


def _private_state(scratch: Path, mirror: Mirror, suite: str, *, newer: bool) -> list[str]:
    """Make a private apt state; return the options that select it."""
    for folder in ("debs", "lists/partial", "archives/partial"):
        (scratch / folder).mkdir(parents=True)
    lines = source_lines(mirror, suite)
    if newer and suite != NEWER_SUITE:
        lines.append(source_lines(mirror, NEWER_SUITE)[0])
    sources = scratch / "sources.list"
    sources.write_text("\n".join(lines) + "\n")
    # Without this pin the newer suite would win for every package, and its runc needs a newer glibc.
    preferences = scratch / "preferences"
    if suite != NEWER_SUITE:
        preferences.write_text(f"Package: *\nPin: release n={NEWER_SUITE}\nPin-Priority: 100\n")
    settings = {
        "Dir::Etc::SourceList": str(sources),
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": str(preferences),
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State::Lists": str(scratch / "lists"),
        "Dir::Cache": str(scratch),
        "Dir::Cache::Archives": str(scratch / "archives"),
        # apt's download user cannot enter a private cache folder; hashes and signatures are checked anyway.
        "APT::Sandbox::User": "root",
        "Acquire::AllowInsecureRepositories": "false",
        "APT::Get::AllowUnauthenticated": "false",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _run(command: Sequence[str], cwd: Path | None = None, timeout_s: float = APT_TIMEOUT_S) -> str:
    """Return a package tool's output. Raises UnavailableError if it is missing, fails or exceeds ``timeout_s``."""
    try:
        environment = for_tool(more={"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"})
        done = child.completed(command, env=environment, cwd=cwd, seconds=timeout_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"cannot run {command[0]}: {error}") from error
    if done.returncode != 0:
        raise UnavailableError(
            f"{command[0]} failed with exit code {done.returncode}",
            hint="check the machine's apt sources with `apt-get update`",
            details=(done.stderr or done.stdout).strip().splitlines()[-20:],
        )
    return done.stdout
