"""What the engine tests share: an engine, and a root file system small enough to send with every bake."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from command import shell
from gitserver import repository as served_repository
from registry import NEEDED, Pushed, push

from bakery.core.errors import UnavailableError
from bakery.engine import debian_rootfs
from bakery.engine.ca_bundle import find_ca_bundle
from bakery.engine.qemu import emulated, enable

collect_ignore = ["shaped"]
"""Projects with tests of their own."""

OTHER = {"x86_64": "linux/arm64", "aarch64": "linux/amd64"}
"""Machine → the platform that it runs by emulation only."""

PROGRAMS = ("dash", "sleep", "cat", "mkdir", "ln", "mkfifo", "seq", "touch")


@pytest.fixture(scope="session")
def emulation() -> None:
    """Let this machine run programs of the other architecture."""
    other = OTHER[platform.machine()]
    if not emulated(other):
        if os.geteuid() != 0:
            pytest.skip("registering an emulator needs root")
        try:
            enable(other, print)
        except UnavailableError as error:
            pytest.fail(f"{error.message}: {error.hint}", pytrace=False)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[str]:
    """Give the URL of a git repository whose tag v1.5 is an older version than its branch."""
    with served_repository(tmp_path) as url:
        yield url


@pytest.fixture(scope="session")
def tiny_rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a root file system with a shell, made of this machine's programs: no image is needed."""
    root = tmp_path_factory.mktemp("rootfs")
    for folder in ("bin", "tmp"):
        (root / folder).mkdir()
    for name in PROGRAMS:
        program = shutil.which(name)
        assert program, f"this machine has no {name}"
        shutil.copy(program, root / "bin" / name)
        needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"/\S+", needed):
            target = root / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
    (root / "bin" / "sh").symlink_to("dash")
    return root


@pytest.fixture(scope="session")
def ca_bundle() -> Path | None:
    """Give the CA bundle that build steps need on this machine; None where they need none."""
    return find_ca_bundle(None, os.environ)


@pytest.fixture(scope="session")
def debian(engine_environment: Mapping[str, str]) -> str:
    """Give the name of a Debian image that the engine has."""
    return debian_rootfs.ensure_debian(engine_environment, "bookworm", "amd64", "debian:bookworm-slim", print).name


@pytest.fixture(scope="session")
def manylinux_image(debian: str, engine_environment: Mapping[str, str]) -> Iterator[str]:
    """Give the name of a local image in manylinux layout.

    It has no index, only a manifest: the kind of image that BuildKit takes for any platform that is asked for.
    """
    name = f"bakery-test/own-base:{os.getpid()}"
    folder = Path(__file__).parent
    build = ("docker", "build", "--provenance=false", "--tag", name, "-f", f"{folder}/manylinux.Dockerfile")
    shell(engine_environment, *build, str(folder))
    yield name
    shell(engine_environment, "docker", "rmi", "--force", name)


@pytest.fixture(scope="session")
def docker_compose_file() -> str:
    """Give the file of the services that the tests need."""
    return str(Path(__file__).parent / "docker-compose.yml")


@pytest.fixture(scope="session")
def docker_compose_command(engine_environment: Mapping[str, str]) -> str:
    """Give the command that reaches the engine, whatever this process' own environment says."""
    known = [f"{name}={engine_environment[name]}" for name in NEEDED if name in engine_environment]
    return shlex.join(["env", *known, "docker", "compose"])


@pytest.fixture(scope="session")
def docker_cleanup() -> list[str]:
    """Give what removes the services: also their images, but not the layers in the build cache."""
    return ["down -v --rmi local"]


@pytest.fixture(scope="session")
def registry(debian: str, docker_ip: str, docker_services: Any) -> str:
    """Give host and port of a registry that answers."""
    address = f"{docker_ip}:{docker_services.port_for('registry', 5000)}"

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://{address}/v2/", timeout=2) as reply:
                return bool(reply.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    docker_services.wait_until_responsive(check=answers, timeout=30, pause=0.2)
    return address


@pytest.fixture(scope="session")
def pushed(registry: str, manylinux_image: str, engine_environment: Mapping[str, str]) -> Pushed:
    """Give the image in manylinux layout as only the registry has it."""
    return push(engine_environment, manylinux_image, f"{registry}/{manylinux_image.removeprefix('bakery-test/')}")
