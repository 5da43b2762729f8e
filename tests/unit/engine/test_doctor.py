"""The doctor: every check with a machine that is made up, what it prints, and that it never waits or fails."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar

import pytest
from packaging.version import Version
from rich.console import Console

from bakery.cli.tables import engine as tables
from bakery.core.errors import BakeryError, EngineError, UnavailableError
from bakery.engine import debian_packages, discover, package_index, qemu
from bakery.engine import doctor as diagnose
from bakery.engine.client import ClientError, Engine, EngineInfo
from bakery.engine.discover import EngineAddress
from bakery.engine.doctor import Diagnosis, State
from bakery.engine.package_index import Index

T = TypeVar("T")
Golden = Callable[[Path, str], None]
DATA = Path(__file__).parents[2] / "data" / "doctor"
ADDRESS = EngineAddress("private", "unix:///run/test.sock", "28.5.2", "0.29.1", {})
TARGETS = "Packages|http://me:secret@mirror.test/debian/|bookworm|bookworm|Debian\n"


class Usage(NamedTuple):
    total: int
    used: int
    free: int


class Machine:
    """A machine on which everything is fine; tests change what they are about."""

    def __init__(self, folder: Path) -> None:
        self.engine: EngineAddress | EngineError = ADDRESS
        self.info = EngineInfo("28.5.2", "containerd", 4, int(64e9), str(folder), "x86_64")
        self.nodes: list[dict[str, object]] = [{"Platforms": ["linux/amd64*", "linux/arm64"]}]
        self.driver = "docker"
        self.registry = True
        self.free = int(50e9)
        self.releases: list[Version] | BakeryError = [Version("25.0")]
        self.suite: str | UnavailableError = "bookworm"
        self.targets = TARGETS

    def find(self, environ: object, *, timeout_s: float) -> EngineAddress:
        return self._give(self.engine)

    def run(self, words: tuple[str, ...], timeout_s: float) -> str:
        if "imagetools" in words and not self.registry:
            raise ClientError(words, f"no answer within {timeout_s} s")
        other = {"Name": "other", "Current": False}
        current = {"Name": "default", "Driver": self.driver, "Current": True, "Nodes": self.nodes}
        return f"{json.dumps(other)}\n{json.dumps(current)}\n"

    def list_releases(self, *_: object, **__: object) -> list[Version]:
        return self._give(self.releases)

    def machine_suite(self) -> str:
        return self._give(self.suite)

    @staticmethod
    def _give(answer: T | BakeryError) -> T:
        if isinstance(answer, BakeryError):
            raise answer
        return answer


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)

    def run(_self: Engine, *words: str, timeout_s: float) -> str:
        return found.run(words, timeout_s)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(discover, "find", found.find)
    monkeypatch.setattr(Engine, "info", lambda _self: found.info)
    monkeypatch.setattr(Engine, "run", run)
    monkeypatch.setattr(debian_packages, "_run", lambda _command, timeout_s: found.targets)
    monkeypatch.setattr(package_index, "configured", lambda: Index("https://me:secret@index.test/simple", {}))
    monkeypatch.setattr(package_index, "releases", found.list_releases)
    monkeypatch.setattr(debian_packages, "machine_suite", found.machine_suite)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: Usage(int(99e9), 0, found.free))
    monkeypatch.setattr(qemu, "BINFMT", tmp_path / "binfmt")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return found


def look(ca_bundle: Path | None = None, **environ: str) -> dict[str, Diagnosis]:
    return {item.name: item for item in diagnose.diagnose(environ, ca_bundle)}


def states(found: dict[str, Diagnosis], *but: State) -> dict[str, State]:
    return {name: item.state for name, item in found.items() if item.state not in but}


def test_a_good_machine(machine: Machine) -> None:
    found = look()
    assert list(found) == list(diagnose.CHECKS)
    assert states(found, State.OK) == {"CA bundle": State.SKIP}
    assert not any(item.advice for item in found.values())
    assert found["engine"].found == "bakery's private engine, version 28.5.2, at unix:///run/test.sock"
    assert found["memory"].found == "64.0 GB, 4 cores: room for 10 nvcc jobs of 5 GB"


def test_credentials_are_never_told(machine: Machine) -> None:
    found = look()
    assert found["package index"].found == "https://index.test/simple has pip 25.0"
    assert found["package mirror"].found == "bookworm from http://mirror.test/debian"
    assert "secret" not in str(found)


def test_no_engine(machine: Machine) -> None:
    machine.engine = EngineError("no engine that can bake", hint="install one", details=["docker: not\nthere"])
    found = look()
    assert found["engine"] == Diagnosis(
        "engine", State.FAIL, "no engine that can bake (docker: not there)", "install one"
    )
    needing = {"buildx", "builder", "image store", "emulation", "engine's disk", "memory", "image registry"}
    assert {name for name, item in found.items() if item.found == "needs an engine"} == needing
    assert found["package index"].state is State.OK


def test_a_builder_that_cannot_be_told(machine: Machine) -> None:
    machine.nodes = [{"Err": "rpc error:\n deadline"}]
    found = look()["builder"]
    assert (found.state, found.found) == (
        State.FAIL,
        "default, driver docker: no platform known yet (rpc error: deadline)",
    )


@pytest.mark.parametrize(
    ("store", "driver", "state", "said"),
    [
        ("containerd", "docker", State.OK, "gha, inline, local, registry caches"),
        ("overlay2", "docker", State.WARN, "overlay2, driver docker: exports inline caches"),
        ("overlay2", "docker-container", State.OK, "exports gha, inline, local, registry, s3 caches"),
    ],
)
def test_image_stores(machine: Machine, store: str, driver: str, state: State, said: str) -> None:
    machine.info = EngineInfo("28", store, 4, int(64e9), "/", "x86_64")
    machine.driver = driver
    found = look()
    assert found["image store"].state is state
    assert said in found["image store"].found
    assert found["builder"].state is (State.OK if driver == "docker" else State.WARN)


@pytest.mark.parametrize(("architecture", "other"), [("x86_64", "arm64"), ("aarch64", "amd64")])
def test_emulation(machine: Machine, tmp_path: Path, architecture: str, other: str) -> None:
    machine.nodes = [{"Platforms": ["linux/386"]}]
    machine.info = EngineInfo("28", "containerd", 4, int(64e9), "/", architecture)
    found = look()["emulation"]
    assert found.state is State.WARN
    assert found.found == f"linux/{other}: this machine cannot run its programs"
    assert f"--install {other}" in found.advice
    (tmp_path / "binfmt").mkdir()
    for name in ("qemu-aarch64", "qemu-x86_64"):
        (tmp_path / "binfmt" / name).touch()
    assert look()["emulation"].state is State.OK


@pytest.mark.parametrize(("free", "state"), [(11e9, State.OK), (9.9e9, State.WARN), (1.9e9, State.FAIL)])
def test_disks(machine: Machine, free: float, state: State) -> None:
    machine.free = int(free)
    found = look()
    for name in ("engine's disk", "project's disk"):
        assert found[name].state is state
        assert bool(found[name].advice) == (state is not State.OK)


def test_an_engine_far_away(machine: Machine) -> None:
    machine.engine = EngineAddress("user", "tcp://far.test:2376", "28", "0.29.1", {})
    assert look()["engine's disk"].state is State.SKIP


def test_little_memory(machine: Machine) -> None:
    machine.info = EngineInfo("28", "containerd", 16, int(24e9), "/", "x86_64")
    found = look()["memory"]
    assert found.state is State.WARN
    assert "MAX_JOBS to 4" in found.advice


@pytest.mark.parametrize(("suite", "state"), [("bookworm", State.SKIP), (None, State.WARN)])
def test_no_registry(machine: Machine, suite: str | None, state: State) -> None:
    machine.registry = False
    machine.suite = suite or UnavailableError("this is not a Debian machine but macOS")
    found = look()
    assert found["image registry"].state is state
    assert found["package mirror"].state is (State.OK if suite else State.SKIP)


@pytest.mark.parametrize(
    ("details", "advice"),
    [
        (["[SSL: CERTIFICATE_VERIFY_FAILED]"], "--ca-bundle FILE"),
        (["timed out"], "pip config list"),
        ([], "pip config list"),
    ],
)
def test_no_index(machine: Machine, details: list[str], advice: str) -> None:
    machine.releases = UnavailableError("cannot reach the package index for pip", details=details)
    found = look()["package index"]
    assert found.state is State.FAIL
    assert advice in found.advice


def test_an_index_without_pip(machine: Machine) -> None:
    machine.releases = []
    assert look()["package index"].state is State.WARN


def test_apt_without_lists(machine: Machine) -> None:
    machine.targets = ""
    assert look()["package mirror"].state is State.WARN


def test_a_ca_bundle_that_is_none(machine: Machine, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n")
    found = look(bundle, PIP_CERT=str(bundle), SSL_CERT_FILE="/nowhere")["CA bundle"]
    assert found.state is State.FAIL
    assert found.found.startswith(f"{bundle}, named by PIP_CERT: cannot be read (")
    assert "--ca-bundle FILE" in found.advice
    assert look(bundle)["CA bundle"].found.startswith(f"{bundle}, named by --ca-bundle: ")


def test_nobody_is_waited_for(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()

    def wait(*_: object, **__: object) -> NoReturn:
        never.wait(20)
        raise OSError

    monkeypatch.setattr(diagnose, "LIMIT_S", 0.3)
    monkeypatch.setattr(discover, "find", wait)
    monkeypatch.setattr(package_index, "releases", wait)
    began = time.monotonic()
    found = look()
    assert time.monotonic() - began < 5
    never.set()
    assert found["engine"].state is State.FAIL
    assert found["package index"].state is found["memory"].state is State.WARN
    assert found["package mirror"].state is State.OK


def test_a_check_that_breaks(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_folder: Path) -> NoReturn:
        raise OSError("stale file handle")

    monkeypatch.setattr(shutil, "disk_usage", broken)
    found = look()["project's disk"]
    assert (found.state, found.found) == (State.WARN, "cannot be checked: stale file handle")


# --- what is printed

FOUND = (
    Diagnosis("engine", State.OK, "this user's engine, version 28.5.2"),
    Diagnosis("emulation", State.WARN, "linux/arm64: this machine cannot run its programs", "install `[qemu]`"),
    Diagnosis("image registry", State.SKIP, "needs an engine"),
    Diagnosis("project's disk", State.FAIL, "1.0 GB free at /home/\x1b[31mme", "make room on this disk"),
)


@pytest.mark.parametrize("width", [40, 100])
def test_render(golden: Golden, width: int) -> None:
    console = Console(width=width, highlight=False, soft_wrap=True, no_color=True)
    with console.capture() as capture:
        console.print(tables.findings_report(FOUND))
    text = "\n".join(line.rstrip() for line in capture.get().splitlines())
    assert all(len(line) <= width for line in text.splitlines())
    golden(DATA / f"{width}.txt", text + "\n")


@pytest.mark.parametrize(("count", "said"), [(1, "can bake wheels"), (3, "see the advice"), (4, "cannot bake wheels")])
def test_the_last_line(count: int, said: str) -> None:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(tables.findings_report(FOUND[:count]))
    assert said in capture.get().splitlines()[-1]


def test_json() -> None:
    document = tables.findings_json(FOUND)
    assert document["version"] == 1
    assert document["checks"][1] == {
        "name": "emulation",
        "state": "warn",
        "found": "linux/arm64: this machine cannot run its programs",
        "advice": "install `[qemu]`",
    }
