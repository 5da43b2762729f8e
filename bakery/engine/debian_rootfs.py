"""Makes Debian base images on this machine from its own Debian mirror, for machines without a registry.

Such a stand-in is used only if the engine has no image of that name and no registry answers. It stays in the cache as
an OCI tar, so another engine can load it in seconds. To get a newer one, delete that file.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path

from bakery.core import child
from bakery.core.cell_ids import MACHINES
from bakery.core.environment import for_tool
from bakery.core.errors import UnavailableError
from bakery.engine import debian_packages, oci_archive
from bakery.engine.client import ClientError, Engine, strings
from bakery.engine.debian_packages import Bundle, Mirror, Progress
from bakery.engine.paths import EnginePaths, engine_paths, made_once
from bakery.engine.qemu import HINT as EMULATION_HINT
from bakery.engine.qemu import emulated
from bakery.plan.cells import Image

SUITES = ("bullseye", "bookworm", "trixie", "forky")
ARCHITECTURES = tuple(platform.removeprefix("linux/") for platform in MACHINES if platform.startswith("linux/"))
"""As Debian and Docker call them."""

REPOSITORY = "bakery.local/debian"
RECIPE = 1
"""Part of the file name of a cached image; raise it when the content of images changes."""

MMDEBSTRAP = Bundle(name="mmdebstrap", packages=("mmdebstrap",))
REGISTRY_TIMEOUT_S = 8
PULL_TIMEOUT_S = 600
LOAD_TIMEOUT_S = 300
MAKE_TIMEOUT_S = 3600
_LATE = 124
"""Exit code of timeout(1)."""
HINT = "load the image into the engine (`docker load` or `docker pull`), or run as root on Debian 12 or newer"

# What Debian's slim images leave out, and how Debian's images set up apt and dpkg.
_LEFT_OUT = ("doc", "groff", "info", "linda", "lintian", "locale", "man")
_FILES = {
    "etc/apt/apt.conf.d/docker-clean": (
        'DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/archives/partial/*.deb || true"; };\n'
        'APT::Update::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb || true"; };\n'
        'Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";\n'
    ),
    "etc/apt/apt.conf.d/docker-no-languages": 'Acquire::Languages "none";\n',
    "etc/apt/apt.conf.d/docker-gzip-indexes": 'Acquire::GzipIndexes "true";\n',
    "etc/dpkg/dpkg.cfg.d/docker-apt-speedup": "force-unsafe-io\n",
}
# What would differ from one run or machine to the next. Not /tmp: mmdebstrap keeps its apt configuration there
# until it has cleaned up, and without it that apt would clean up the machine's own package lists instead.
_VOLATILE = (
    "etc/hostname",
    "etc/resolv.conf",
    "var/cache/apt/*.bin",
    "var/cache/debconf/*-old",
    "var/cache/ldconfig/aux-cache",
    "var/lib/dpkg/*-old",
    "var/log/*.log",
    "var/log/apt/*",
)


@dataclass(frozen=True)
class ImageInfo:
    """An image that the engine has, its id (``sha256:…``), and whether bakery made it.

    The name differs from the requested tag if that tag belongs to an image of another architecture.
    """

    name: str
    digest: str
    stand_in: bool


class Bases:
    """The Debian base images of one engine: each is checked once in a process, several in parallel."""

    def __init__(self, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._environment = environment
        self._say = say
        self._names: dict[tuple[str, str], str] = {}

    def ensure(self, images: Iterable[Image]) -> dict[tuple[str, str], str]:
        """Make the Debian images that the engine lacks; return (name in the files, platform) → name to build from.

        The two names differ for a stand-in of another platform. buildx pulls all other images itself. Raises
        UnavailableError if an image is not available here, OSError if the cache cannot be written.
        """
        debian = {(image.ref, image.platform): image for image in images if image.suite}
        missing = [image for key, image in debian.items() if key not in self._names]
        if missing:
            with ThreadPoolExecutor() as pool:
                for image, name in zip(missing, pool.map(self._ensure, missing), strict=True):
                    self._names[image.ref, image.platform] = name
        return {key: self._names[key] for key in debian}

    def _ensure(self, image: Image) -> str:
        arch = image.platform.partition("/")[2]
        return ensure_debian(self._environment, image.suite, arch, image.ref, self._say).name


def ensure_debian(engine_env: Mapping[str, str], suite: str, arch: str, tag: str, progress: Progress) -> ImageInfo:
    """Pull a Debian image that the engine lacks, or make a stand-in if no registry has it.

    ``engine_env`` is added to the environment of the process. An existing image named ``tag`` is never replaced. Raises
    UnavailableError if the suite or architecture is unknown, or the image is not available here; OSError if the cache
    cannot be written.
    """
    if suite not in SUITES or arch not in ARCHITECTURES:
        raise UnavailableError(
            f"no Debian base for {suite} {arch}",
            hint=f"suites: {', '.join(SUITES)}; architectures: {', '.join(ARCHITECTURES)}",
        )
    env = {**os.environ, **engine_env}
    if image := inspect(env, tag, arch):
        return image
    engine = Engine(env)
    if in_registry(env, tag):
        progress(f"pulling {tag}")
        with _needed(f"pull {tag}"), engine.docker(timeout_s=PULL_TIMEOUT_S) as docker:
            docker.image.pull(tag, quiet=True, platform=f"linux/{arch}")
    else:
        name = _load_stand_in(env, suite, arch, progress)
        if not engine.has_image(tag):
            with _needed(f"tag {name} {tag}"), engine.docker() as docker:
                docker.image.tag(name, tag)
        else:
            tag = name
    if image := inspect(env, tag, arch):
        return image
    raise UnavailableError(f"the engine has no {tag} for {arch}", hint=HINT)


def inspect(env: Mapping[str, str], name: str, arch: str) -> ImageInfo | None:
    """Return an image of the engine for an architecture; None if it has none. Raises EngineError without docker."""
    image = Engine(env).image(name, f"linux/{arch}")
    if image.get("Architecture") != arch:
        return None
    stand_in = any(str(other).startswith(f"{REPOSITORY}:") for other in strings(image.get("RepoTags")))
    return ImageInfo(name, str(image["Id"]), stand_in)


def in_registry(env: Mapping[str, str], tag: str) -> bool:
    """Whether a registry answers and has the image."""
    words = ["buildx", "imagetools", "inspect", "--raw", tag]
    return bool(Engine(env).run_or_empty(*words, timeout_s=REGISTRY_TIMEOUT_S))


def _load_stand_in(env: Mapping[str, str], suite: str, arch: str, progress: Progress) -> str:
    """Load a stand-in into the engine, unless it has it; return its name."""
    image = _image_file(engine_paths(env), suite, arch, progress)
    try:
        name = oci_archive.read_name(image)
    except (OSError, tarfile.TarError, ValueError, KeyError) as error:
        raise UnavailableError(f"{image} is damaged: {error}", hint="delete it and try again") from error
    if not inspect(env, name, arch):
        with _needed(f"load --input {image}"):
            Engine(env).run("image", "load", "--quiet", "--input", str(image), timeout_s=LOAD_TIMEOUT_S)
    return name


def _image_file(paths: EnginePaths, suite: str, arch: str, progress: Progress) -> Path:
    """Return the image of a suite in the cache; make it if there is none."""
    final = paths.cache / "bases" / f"debian-{suite}-{arch}-{RECIPE}.tar"
    if not final.is_file():
        _require_means(arch)
    return made_once(final, lambda scratch: make_image(paths, scratch, suite, arch, progress))


def _require_means(arch: str) -> None:
    """Raise UnavailableError unless this machine can make an image for an architecture."""
    if os.geteuid() != 0:
        raise UnavailableError("making a Debian base needs root", hint=HINT)
    try:
        debian_packages.machine_suite()
    except UnavailableError as error:
        raise UnavailableError(error.message, hint=HINT) from error
    platform = f"linux/{arch}"
    if arch != debian_packages.architecture() and not emulated(platform):
        raise UnavailableError(
            f"this machine cannot run {arch} programs",
            hint=f"`wheel-bakery engine emulate {platform}`; where bakery cannot: {EMULATION_HINT}",
        )


def make_image(paths: EnginePaths, scratch: Path, suite: str, arch: str, progress: Progress) -> Path:
    """Make an image of a suite from the machine's mirror; the same mirror state gives the same bytes.

    The image is a file in ``scratch``, an empty folder on a filesystem that allows device files. Raises OSError, or
    UnavailableError if the mirror does not have the suite, or mmdebstrap fails.
    """
    tool = debian_packages.unpack_bundle(paths, MMDEBSTRAP, progress, lambda _root, _final: None)
    mirror = debian_packages.machine_mirror(debian_packages.machine_suite())
    takes = "about half a minute" if arch == debian_packages.architecture() else "some minutes, by emulation"
    progress(f"making a Debian {suite} base for {arch} ({takes})")
    dates = release_dates(scratch, mirror, suite)
    epoch = max(dates.values())
    sources, rootfs, image = (scratch / name for name in ("debian.sources", "rootfs.tar", "image.tar"))
    sources.write_text(sources_text(mirror, suite, list(dates)))
    tree = _extra_files(scratch)
    _mmdebstrap(tool, scratch, [*_arguments(tool, arch, sources, tree), suite, str(rootfs), str(sources)], epoch)
    oci_archive.write_image(rootfs, image, repository=REPOSITORY, tag=f"{suite}-{arch}", arch=arch, epoch=epoch)
    return image


def release_dates(scratch: Path, mirror: Mirror, suite: str) -> dict[str, int]:
    """Return suffix of a part of the suite → date of its Release file, in seconds since 1970.

    The apt that reads the same files later checks their signatures. Raises UnavailableError without the main part.
    """
    dates = {}
    for suffix, address in mirror.items():
        text = debian_packages.fetch(f"{address}/dists/{suite}{suffix}/InRelease", scratch / f"InRelease{suffix}")
        date = next((line[5:] for line in (text or "").splitlines() if line.startswith("Date:")), None)
        if date is not None:
            dates[suffix] = int(parsedate_to_datetime(date.strip()).timestamp())
    if "" not in dates:
        raise UnavailableError(f"this machine's mirror does not have {suite}", hint=HINT)
    return dates


def sources_text(mirror: Mirror, suite: str, suffixes: Sequence[str]) -> str:
    """Return the image's apt sources, in the form that Debian's images have."""
    stanzas = [
        f"Types: deb\nURIs: {mirror[suffix]}\nSuites: {suite}{suffix}\nComponents: main\nSigned-By: {debian_packages.KEYRING}\n"
        for suffix in suffixes
    ]
    return "\n".join(stanzas)


def _extra_files(scratch: Path) -> Path:
    tree = scratch / "files"
    for name, text in _FILES.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tree


def _arguments(tool: Path, arch: str, sources: Path, tree: Path) -> list[str]:
    volatile = " ".join(f'"$1"/{pattern}' for pattern in _VOLATILE)
    left_out = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT]
    return [
        "--mode=root",
        "--variant=minbase",
        "--format=tar",
        f"--architectures={arch}",
        "--include=ca-certificates",
        *left_out,
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        # A mirror that stands still needs these on the machine, so it needs them in the image as well.
        *(f'--aptopt={name} "false"' for name in debian_packages.disabled_checks()),
        # /bin is a link from bookworm on, as in Debian's images; without the hook that pulls in all of perl.
        f"--hook-dir={tool / 'usr/share/mmdebstrap/hooks/maybe-merged-usr'}",
        f'--customize-hook=mv "$1"/etc/apt/sources.list.d/*{sources.name} "$1"/etc/apt/sources.list.d/{sources.name}',
        f'--customize-hook=cp -r --no-preserve=all {tree}/. "$1"/',
        f"--customize-hook=rm -rf {volatile}",
        "--skip=output/dev",
        # It would run arch-test, which looks for its parts below /usr/lib; `_require_means` has checked this.
        "--skip=check/qemu",
    ]


def _mmdebstrap(tool: Path, scratch: Path, arguments: Sequence[str], epoch: int) -> None:
    """Run mmdebstrap from its private folder. Raises UnavailableError if it fails or exceeds MAKE_TIMEOUT_S."""
    variables = {
        "PATH": f"{tool / 'usr/bin'}:{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin",
        "TMPDIR": str(scratch),
        "SOURCE_DATE_EPOCH": str(epoch),
        "LC_ALL": "C.UTF-8",
    }
    try:
        # coreutils' timeout ends the whole group by a signal that mmdebstrap unmounts its file systems at.
        command = ["timeout", "--kill-after=60", str(MAKE_TIMEOUT_S), "mmdebstrap", *arguments]
        done = child.completed(command, env=for_tool(more=variables), cwd=scratch)
    except OSError as error:
        raise UnavailableError(f"mmdebstrap cannot be run: {error}", hint=HINT) from error
    if done.returncode == _LATE:
        raise UnavailableError(
            f"mmdebstrap was not done within {MAKE_TIMEOUT_S} s", hint="try again on an idle machine"
        )
    if done.returncode != 0:
        raise UnavailableError("mmdebstrap failed", hint=HINT, details=done.stderr.splitlines()[-20:])


@contextmanager
def _needed(what: str) -> Iterator[None]:
    """Raise UnavailableError if docker does not do ``what``."""
    try:
        yield
    except ClientError as error:
        raise UnavailableError(f"`docker {what}` failed: {error.reason}", hint=HINT) from error
