"""The private engine for real: needs root on Debian, and a mirror."""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bakery.core.errors import EngineError
from bakery.engine import debian_rootfs, discover, private_engine
from bakery.engine.paths import engine_paths
from bakery.engine.private_engine import RunningEngine
from bakery.engine.private_engine_files import Prefix

pytestmark = [pytest.mark.engine, pytest.mark.skipif(os.geteuid() != 0, reason="a private engine needs root")]


def quiet(_message: str) -> None:
    """Ignore progress."""


@pytest.fixture(scope="module")
def engine() -> RunningEngine:
    """Return the machine's private engine; it is left running."""
    return private_engine.start(private_engine.install(quiet), quiet)


@pytest.fixture
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Give an environment of an engine of this test's own."""
    # The folder's name stays short: a unix socket's path has at most 107 bytes.
    folder = tmp_path_factory.mktemp("e")
    environ = {**os.environ, "BAKERY_ENGINE_DIR": str(folder)}
    yield environ
    private_engine.remove(environ)


def docker(environ: dict[str, str], *arguments: str) -> str:
    """Run the docker client and return what it prints."""
    done = subprocess.run(
        ["docker", *arguments], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_start_again_returns_the_running_one(engine: RunningEngine) -> None:
    assert private_engine.start(private_engine.install(quiet), quiet) == engine
    assert private_engine.status() == engine


def test_find_finds_it(engine: RunningEngine) -> None:
    address = discover.find(os.environ | private_engine.environment(engine))
    assert address.source == "private"
    assert address.host == engine.host


CHOICES = ("DOCKER_HOST", "DOCKER_CONTEXT", "BUILDX_BUILDER")
"""Who runs the tests may have chosen, too."""


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("DOCKER_HOST", "unix:///nonexistent", "DOCKER_HOST is unix:///nonexistent"),
        ("DOCKER_HOST", "tcp://127.0.0.1:1", "DOCKER_HOST is tcp://127.0.0.1:1"),
        ("DOCKER_CONTEXT", "nowhere", "DOCKER_CONTEXT is nowhere"),
        ("BUILDX_BUILDER", "nowhere", "buildx has no builder 'nowhere'"),
    ],
)
def test_a_broken_choice_is_an_error(
    engine: RunningEngine, tmp_path: Path, variable: str, value: str, said: str
) -> None:
    """The private engine runs, and is not used instead; the commands say why."""
    (tmp_path / "bakery.toml").write_text('name = "demo"\n[matrix]\npython = ["3.11"]\n')
    (tmp_path / "setup.py").write_text("from setuptools import setup\nsetup(name='demo', version='1')\n")
    for words in (("engine", "status"), ("wheel",)):
        done = subprocess.run(
            [sys.executable, "-m", "bakery", *words],
            cwd=tmp_path,
            env={**{name: text for name, text in os.environ.items() if name not in CHOICES}, variable: value},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == EngineError.exit_code, done.stderr
        assert done.stderr.startswith(f"engine: {said}"), done.stderr


def test_engine_has_what_bakery_needs(engine: RunningEngine) -> None:
    environ = os.environ | private_engine.environment(engine)
    assert docker(environ, "info", "--format", "{{.Driver}}") == "overlayfs"
    # Layers have a limit of their own, so compiler caches stay longer.
    assert re.search(r"Filters: +type==regular\n", docker(environ, "buildx", "inspect"))
    docker(environ, "compose", "version")


def test_second_ensure_does_nothing(engine: RunningEngine) -> None:
    environ = private_engine.environment(engine)
    first = debian_rootfs.ensure_debian(environ, "bookworm", "amd64", "debian:bookworm-slim", quiet)
    said: list[str] = []
    assert debian_rootfs.ensure_debian(environ, "bookworm", "amd64", "debian:bookworm-slim", said.append) == first
    assert said == []


def test_container_installs_from_the_mirror(engine: RunningEngine) -> None:
    environ = private_engine.environment(engine)
    debian_rootfs.ensure_debian(environ, "bookworm", "amd64", "debian:bookworm-slim", quiet)
    script = "apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-minimal >&2"
    full = os.environ | environ
    said = docker(full, "run", "--rm", "debian:bookworm-slim", "sh", "-c", f"{script} && python3 -V")
    assert said.startswith("Python 3.11")


def created(image: Path) -> str:
    """Return the creation time of an image that bakery made: the date of the mirror that it was made from."""
    with tarfile.open(image) as archive:
        names = json.load(archive.extractfile("manifest.json") or io.BytesIO())
        return str(json.load(archive.extractfile(names[0]["Config"]) or io.BytesIO())["created"])


@pytest.mark.proof
def test_same_mirror_gives_the_same_image(tmp_path: Path) -> None:
    """The image that this machine keeps may be of a day on which its mirror had fewer suites."""
    made = []
    for name in ("first", "again"):
        (tmp_path / name).mkdir()
        made.append(debian_rootfs.make_image(engine_paths(), tmp_path / name, "bookworm", "amd64", quiet))
    first, again = made
    if created(again) != created(first):
        pytest.skip("the mirror moved on between the two")
    assert again.read_bytes() == first.read_bytes()


def test_failed_start_shows_the_log(second: dict[str, str], tmp_path: Path) -> None:
    daemon = tmp_path / "usr" / "sbin" / "dockerd"
    daemon.parent.mkdir(parents=True)
    daemon.write_text("#!/bin/sh\necho no such kernel\nexit 1\n")
    daemon.chmod(0o755)
    with pytest.raises(EngineError) as caught:
        private_engine.start(Prefix(tmp_path), quiet, second)
    assert "ended" in caught.value.message
    assert caught.value.details[-1] == "no such kernel"
    assert private_engine.status(second) is None


def test_the_daemon_keeps_no_token_of_the_shell_that_started_it(second: dict[str, str], tmp_path: Path) -> None:
    daemon, seen = tmp_path / "usr" / "sbin" / "dockerd", tmp_path / "seen"
    daemon.parent.mkdir(parents=True)
    daemon.write_text(f"#!/bin/sh\nenv > '{seen}'\nexit 1\n")
    daemon.chmod(0o755)
    tokens = {"HF_TOKEN": "canary", "PIP_INDEX_URL": "https://me:canary@h", "BAKERY_CACHE_KEY": "canary"}
    with pytest.raises(EngineError):
        private_engine.start(Prefix(tmp_path), quiet, {**second, **tokens, "HTTPS_PROXY": "http://p.example"})
    assert "canary" not in seen.read_text()
    assert "HTTPS_PROXY=http://p.example\n" in seen.read_text()


@pytest.mark.proof
def test_a_containerd_that_is_slow_to_start_is_waited_for(second: dict[str, str]) -> None:
    started = private_engine.start(private_engine.install(quiet, second), quiet, second)
    private_engine.stop(second)
    said: list[str] = []
    (database,) = started.paths.data.rglob("io.containerd.metadata.v1.bolt/meta.db")
    with database.open("rb") as held:
        # A lock keeps containerd from its database as a cold disk does; it goes once dockerd gave up.
        fcntl.flock(held, fcntl.LOCK_EX)

        def progress(message: str) -> None:
            said.append(message)
            if "again" in message:
                fcntl.flock(held, fcntl.LOCK_UN)

        assert private_engine.start(started.prefix, progress, second).pid != started.pid
    assert [message for message in said if "again" in message] == [
        "dockerd did not wait for its containerd; starting it again"
    ]


def test_second_engine_loads_the_kept_base_and_survives_a_kill(engine: RunningEngine, second: dict[str, str]) -> None:
    started = private_engine.start(private_engine.install(quiet, second), quiet, second)
    environ = private_engine.environment(started, second)
    image = debian_rootfs.ensure_debian(environ, "bookworm", "amd64", "debian:bookworm-slim", quiet)
    assert image.stand_in
    os.kill(started.pid, signal.SIGKILL)
    restarted = private_engine.start(started.prefix, quiet, second)
    assert restarted.pid != started.pid
    assert debian_rootfs.inspect(second | environ, "debian:bookworm-slim", "amd64") == image
    assert private_engine.stop(second) is True
    assert private_engine.stop(second) is False
    assert private_engine.status(second) is None
    # The first engine and its network are as they were.
    assert private_engine.status() == engine
    docker(os.environ | private_engine.environment(engine), "run", "--rm", "debian:bookworm-slim", "true")
