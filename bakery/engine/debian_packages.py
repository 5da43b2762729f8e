"""Debian packages, unpacked into private folders: nothing is installed, the machine's apt stays as it is.

The mirror is the one that the machine itself uses, read from ``apt-get indextargets``. Lists and downloads
live in a private apt state; apt verifies signatures with the machine's own Debian keyring. That is enough for the
newer suite too: its Release file is signed by the keys of released versions (bookworm's among them), so no newer
keyring has to be fetched, which would need trust of its own. Where a keyring is too old, apt refuses, and says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery.core.errors import UnavailableError
from bakery.core.file_locks import locked_file
from bakery.engine.paths import EnginePaths

Progress = Callable[[str], None]

NEWER_SUITE = "forky"
"""The Debian suite that carries a current engine whose programs still run on bookworm's glibc."""

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
APT_HELPER = Path("/usr/lib/apt/apt-helper")
APT_TIMEOUT_S = 600
_TARGETS = ("apt-get", "indextargets", "--format", "$(CREATED_BY)|$(REPO_URI)|$(RELEASE)|$(CODENAME)|$(LABEL)")


@dataclass(frozen=True)
class Mirror:
    """The machine's Debian mirror.

    Attributes:
        main: base address of the archive.
        security: base address of the security archive; None when the machine has none configured.
    """

    main: str
    security: str | None


@dataclass(frozen=True)
class Bundle:
    """A set of packages that is unpacked together.

    Attributes:
        name: folder name under the cache.
        packages: from the machine's suite.
        newer: from NEWER_SUITE.
    """

    name: str
    packages: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()


def machine_suite(os_release: str | None = None) -> str:
    """Return the Debian code name of this machine, e.g. ``bookworm``.

    Raises UnavailableError if this is not a Debian machine with apt.

    Args:
        os_release: text of an os-release file; the machine's own when None.
    """
    try:
        release = _fields(os_release) if os_release is not None else platform.freedesktop_os_release()
    except OSError:
        release = {}
    if release.get("ID") != "debian" or not release.get("VERSION_CODENAME"):
        raise UnavailableError(
            f"this is not a Debian machine but {release.get('PRETTY_NAME', platform.system())}",
            hint="bakery can fetch Debian packages only on Debian 12 or newer",
        )
    if os_release is None and not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise UnavailableError("this machine has no apt-get and dpkg-deb", hint="install apt and dpkg")
    return release["VERSION_CODENAME"]


def _fields(text: str) -> dict[str, str]:
    """Read the KEY=value lines of an os-release file."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: value.strip("\"'") for key, value in pairs}


def machine_mirror(suite: str) -> Mirror:
    """Return the mirror that this machine is configured to use.

    Raises UnavailableError if apt names no mirror for the machine's suite.
    """
    targets = _run(_TARGETS)
    if not targets.strip():
        # A machine whose package lists were deleted names no targets: read them into a folder of our own.
        with tempfile.TemporaryDirectory(prefix="bakery-lists-") as lists:
            (Path(lists) / "partial").mkdir()
            option = f"Dir::State::Lists={lists}"
            _run(["apt-get", "-o", option, "-o", "APT::Sandbox::User=root", "update"])
            targets = _run([*_TARGETS, "-o", option])
    return parse_targets(targets, suite)


def configured_mirror(suite: str, timeout_s: float) -> Mirror:
    """Return the mirror that apt's package lists name; unlike `machine_mirror`, this never downloads lists.

    Raises UnavailableError if they name none, or apt does not answer in time.
    """
    return parse_targets(_run(_TARGETS, timeout_s=timeout_s), suite)


def parse_targets(text: str, suite: str) -> Mirror:
    """Find the mirrors of a suite in the output of ``apt-get indextargets``.

    A source may call the suite by an alias (``stable``): then its Release file's code name counts. The label keeps out
    third parties that name their own releases after Debian's. Raises UnavailableError if none of the targets belongs to
    the suite.
    """
    uris: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != 5 or fields[0] != "Packages":
            continue
        _, uri, release, codename, label = fields
        expected = {"Debian": suite, "Debian-Security": f"{suite}-security"}.get(label)
        if expected in (release, codename):
            uris.setdefault(label, uri.rstrip("/"))
    if "Debian" not in uris:
        raise UnavailableError(
            f"apt names no mirror for {suite}",
            hint="add a Debian source for this release under /etc/apt/sources.list.d and run `apt-get update`",
        )
    return Mirror(main=uris["Debian"], security=uris.get("Debian-Security"))


def addresses(mirror: Mirror) -> dict[str, str]:
    """Return where each part of a suite is, by the suffix of its name."""
    main = {"": mirror.main, "-updates": mirror.main}
    return main | ({"-security": mirror.security} if mirror.security else {})


def source_lines(mirror: Mirror, suite: str, suffixes: Iterable[str]) -> list[str]:
    """Return one-line apt sources of the named parts of a suite."""
    signed_by = f"[signed-by={KEYRING}] " if KEYRING.is_file() else ""
    where = addresses(mirror)
    return [f"deb {signed_by}{where[suffix]} {suite}{suffix} main" for suffix in suffixes]


def disabled_checks() -> list[str]:
    """Return which of apt's checks of a mirror's dates this machine has switched off."""
    names = ("Acquire::Check-Valid-Until", "Acquire::Check-Date")
    return [name for name in names if _run(["apt-config", "shell", "value", f"{name}/b"]).strip() == "value='false'"]


def fetch(address: str, target: Path) -> str | None:
    """Download a small text file the way apt would, proxies included; None if the mirror does not have it."""
    command = [str(APT_HELPER), "-o", "APT::Sandbox::User=root", "download-file", address, str(target)]
    try:
        _run(command)
    except UnavailableError:
        return None
    return target.read_text(errors="replace")


def architecture() -> str:
    """Return the machine's Debian architecture, e.g. ``amd64``."""
    return _run(["dpkg", "--print-architecture"]).strip()


def unpack_bundle(paths: EnginePaths, bundle: Bundle, progress: Progress, finish: Callable[[Path, Path], None]) -> Path:
    """Download and unpack a bundle once; later calls return the same folder at once.

    Raises UnavailableError if not a Debian machine, or the packages cannot be fetched; OSError if the cache cannot be
    written.

    Args:
        finish: called with the unpacked folder and with the path it will have; may add files.

    Returns:
        The folder, complete: it is renamed into place when everything is in it.
    """
    suite = machine_suite()
    parent = paths.cache / bundle.name
    final = parent / bundle_key(bundle, suite, platform.machine())
    if final.is_dir():
        return final
    with locked_file(parent / ".lock"):
        if final.is_dir():
            return final
        with tempfile.TemporaryDirectory(prefix=".unpack-", dir=parent) as scratch:
            root = Path(scratch) / "root"
            root.mkdir()
            debs = _download(Path(scratch), bundle, suite, progress)
            progress(f"unpacking {len(debs)} packages")
            for deb in debs:
                _run(["dpkg-deb", "-x", str(deb), str(root)])
            _record(root, debs)
            finish(root, final)
            root.rename(final)
    return final


def bundle_key(bundle: Bundle, suite: str, machine: str) -> str:
    """Name a bundle's folder by what decides its content, without asking the network."""
    text = json.dumps([bundle.packages, bundle.newer, suite, NEWER_SUITE, machine, 1])
    return f"{suite}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _download(scratch: Path, bundle: Bundle, suite: str, progress: Progress) -> list[Path]:
    """Download a bundle's packages; return their files, sorted."""
    progress("reading package lists")
    mirror = machine_mirror(suite)
    options = _private_state(scratch, mirror, suite, newer=bool(bundle.newer))
    _run(["apt-get", *options, "--error-on=any", "update"])
    progress("downloading " + " ".join((*bundle.newer, *bundle.packages)))
    packages = [f"{name}/{NEWER_SUITE}" for name in bundle.newer] + list(bundle.packages)
    target = scratch / "debs"
    target.mkdir()
    _run(["apt-get", *options, "download", *packages], cwd=target)
    return sorted(target.glob("*.deb"))


def _private_state(scratch: Path, mirror: Mirror, suite: str, *, newer: bool) -> list[str]:
    """Make a private apt state; return the options that select it."""
    for folder in ("lists/partial", "archives/partial"):
        (scratch / folder).mkdir(parents=True)
    lines = source_lines(mirror, suite, addresses(mirror))
    if newer and suite != NEWER_SUITE:
        lines += source_lines(mirror, NEWER_SUITE, ("",))
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


def _record(root: Path, debs: Sequence[Path]) -> None:
    """Write which package files an unpacked folder came from."""
    digests = {deb.name: hashlib.sha256(deb.read_bytes()).hexdigest() for deb in debs}
    (root / "packages.json").write_text(json.dumps(digests, indent=2, sort_keys=True) + "\n")


def _run(command: Sequence[str], cwd: Path | None = None, timeout_s: float = APT_TIMEOUT_S) -> str:
    """Run a package tool and return its output.

    Raises UnavailableError if it fails, is missing or takes longer than ``timeout_s``.
    """
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            env=os.environ | {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"cannot run {command[0]}: {error}") from error
    if done.returncode != 0:
        raise UnavailableError(
            f"{command[0]} failed with exit code {done.returncode}",
            hint="check the machine's apt sources with `apt-get update`",
            details=(done.stderr or done.stdout).strip().splitlines()[-20:],
        )
    return done.stdout
