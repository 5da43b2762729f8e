"""The package index: what pip's settings say of it, how its pages are read, and what a person is told."""

from __future__ import annotations

import base64
import email.message
import io
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import pytest
from packaging.version import Version
from pip._internal import configuration

from bakery.core.errors import UnavailableError
from bakery.engine import package_index
from bakery.engine.package_index import REMEMBER_S, Index
from bakery.plan.cells import Need

Golden = Callable[[Path, str], None]
DATA = Path(__file__).parents[2] / "data" / "index"
PLACE = Index("https://index.test/simple", {})
JSON = "application/vnd.pypi.simple.v1+json"


class Reply:
    """What urlopen returns."""

    def __init__(self, body: bytes, kind: str) -> None:
        self.body = body
        self.headers = email.message.Message()
        self.headers["Content-Type"] = kind

    def read(self) -> bytes:
        return self.body

    def __enter__(self) -> Reply:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Web:
    """Answers every request with pages by name, and remembers the requests."""

    def __init__(self) -> None:
        self.pages: dict[str, Reply | Exception] = {}
        self.asked: list[urllib.request.Request] = []

    def open(self, request: urllib.request.Request, timeout: float, context: object = None) -> Reply:
        self.asked.append(request)
        page = self.pages.get(request.full_url.rstrip("/").rpartition("/")[2])
        if page is None:
            raise urllib.error.HTTPError(request.full_url, 404, "Not Found", email.message.Message(), io.BytesIO())
        if isinstance(page, Exception):
            raise page
        return page

    def offer(self, name: str, *files: str) -> None:
        body = json.dumps({"files": [{"filename": file} for file in files]})
        self.pages[name] = Reply(body.encode(), JSON)


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Web:
    found = Web()
    monkeypatch.setattr(urllib.request, "urlopen", found.open)
    return found


def told(error: UnavailableError) -> str:
    return "\n".join([error.message, *error.details, f"hint: {error.hint}"]) + "\n"


def find(name: str, *, sdist: bool = False, place: Index = PLACE) -> list[str]:
    return [str(version) for version in package_index.releases(place, name, sdist=sdist, ca_bundle="")]


# --- pages


def test_json_page(web: Web) -> None:
    web.offer("demo", "demo-1.10-py3-none-any.whl", "demo-1.9.tar.gz", "demo-1.9-py3-none-any.whl", "demo-x.exe")
    assert find("Demo") == ["1.9", "1.10"]
    assert find("Demo", sdist=True) == ["1.9"]


def test_html_page(web: Web) -> None:
    page = b"""<html><a>no address</a><a href="../../d/demo-1.0%2Bcu128-py3-none-any.whl#sha256=00">x</a>
    <a href="https://files.test/demo_pkg-2.0rc1.tar.gz?x=1#sha256=00">y</a><a href="demo-broken.tar.gz">z</a></html>"""
    web.pages["demo-pkg"] = Reply(page, "text/html; charset=utf-8")
    assert find("demo_pkg") == ["1.0+cu128", "2.0rc1"]


def test_unknown_name_has_no_releases(web: Web) -> None:
    assert find("nothing") == []


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"files": 1}', b'{"files": [{}]}', b"\xff"])
def test_a_broken_answer_is_no_traceback(web: Web, body: bytes) -> None:
    web.pages["demo"] = Reply(body, JSON)
    with pytest.raises(UnavailableError, match="cannot reach the package index for demo"):
        find("demo")


def test_credentials_go_into_a_header_and_nowhere_else(web: Web) -> None:
    web.offer("demo", "demo-1.0.tar.gz")
    place = Index("https://me:p%40ss@index.test:8443/simple/", {})
    assert find("demo", place=place) == ["1.0"]
    (request,) = web.asked
    assert request.full_url == "https://index.test:8443/simple/demo/"
    wanted = base64.b64encode(b"me:p@ss").decode()
    assert request.unredirected_hdrs == {"Authorization": f"Basic {wanted}"}
    assert place.address == "https://index.test:8443/simple/"


def test_nearest_versions() -> None:
    offered = [Version(text) for text in ("12.6.0", "12.8.57", "12.8.93", "12.9.1", "13.0.0", "12.8.1rc1")]
    assert package_index.nearest(Version("12.8.61"), offered) == ["12.8.57", "12.8.93", "12.9.1", "12.6.0"]
    assert package_index.nearest(Version("2.0"), [Version("1.0rc1")]) == ["1.0rc1"]


# --- the memory


def check(needs: list[Need], memory: Path, place: Index = PLACE) -> None:
    package_index.check(needs, place, ca_bundle="", memory=memory)


NEED = Need("demo", "1.0", sdist=False, why="the test")


def test_what_was_seen_is_not_asked_again(web: Web, tmp_path: Path) -> None:
    web.offer("demo", "demo-1.0.tar.gz")
    memory = tmp_path / "new" / "index.json"
    check([NEED, NEED], memory)
    check([NEED], memory)
    assert len(web.asked) == 1
    assert [path.name for path in memory.parent.iterdir()] == ["index.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"a": "b"}', '{"a": null}', "\0"])
def test_a_corrupt_memory_is_forgotten(web: Web, tmp_path: Path, text: str) -> None:
    web.offer("demo", "demo-1.0.tar.gz")
    memory = tmp_path / "index.json"
    memory.write_text(text)
    check([NEED], memory)
    assert len(json.loads(memory.read_text())) == 1


@pytest.mark.parametrize("later", [REMEMBER_S + 1, -60], ids=["old", "the-clock-went-back"])
def test_an_old_memory_is_asked_again(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: float) -> None:
    web.offer("demo", "demo-1.0.tar.gz")
    memory = tmp_path / "index.json"
    monkeypatch.setattr("time.time", lambda: 1e9)
    check([NEED], memory)
    monkeypatch.setattr("time.time", lambda: 1e9 + later)
    check([NEED], memory)
    assert len(web.asked) == 2


def test_the_memory_holds_no_credentials(web: Web, tmp_path: Path) -> None:
    web.offer("demo", "demo-1.0.tar.gz")
    check([NEED], tmp_path / "index.json", Index("https://me:secret@index.test/simple", {}))
    assert "secret" not in (tmp_path / "index.json").read_text()


def test_a_memory_that_cannot_be_written_is_no_failure(web: Web, tmp_path: Path) -> None:
    web.offer("demo", "demo-1.0.tar.gz")
    (tmp_path / "file").touch()
    check([NEED], tmp_path / "file" / "index.json")


# --- what a person is told


def test_unknown_release(web: Web, tmp_path: Path, golden: Golden) -> None:
    web.offer("nvidia-cuda-nvcc", "nvidia_cuda_nvcc-13.0.48-py3-none-any.whl", "nvidia_cuda_nvcc-13.1.2.tar.gz")
    web.offer("ujson", "ujson-5.10.0-py3-none-any.whl")
    needs = [
        Need("nvidia-cuda-nvcc", "13.0.99", sdist=False, why="toolkit wheels", alternatives=("clang",)),
        Need("no-such-name", "1.0", sdist=False, why="builder.requirements"),
        Need("ujson", "5.10.0", sdist=True, why="source.sdist"),
    ]
    with pytest.raises(UnavailableError) as caught:
        check(needs, tmp_path / "index.json")
    golden(DATA / "missing.txt", told(caught.value))


@pytest.mark.parametrize(
    ("case", "answer"),
    [
        ("silent", urllib.error.URLError(ConnectionRefusedError(111, "Connection refused"))),
        ("slow", TimeoutError("The read operation timed out")),
        ("forbidden", urllib.error.HTTPError("u", 403, "Forbidden", email.message.Message(), io.BytesIO())),
    ],
)
def test_unreachable(web: Web, tmp_path: Path, golden: Golden, case: str, answer: Exception) -> None:
    web.pages["demo"] = answer
    with pytest.raises(UnavailableError) as caught:
        check([NEED], tmp_path / "index.json")
    golden(DATA / f"{case}.txt", told(caught.value))
    assert not (tmp_path / "index.json").exists()


# --- pip's settings

Settings = Callable[..., Index]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return what `configured` makes of the machine's, the user's and a chosen file, and of variables."""
    names = {"global": tmp_path / "machine.conf", "user": tmp_path / "user.conf"}
    kinds = configuration.get_configuration_files()
    files = {kind: [str(names[str(kind)])] if str(kind) in names else [] for kind in kinds}
    monkeypatch.setattr(configuration, "get_configuration_files", lambda: files)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)

    def read(*, machine: str = "", user: str = "", chosen: str | None = None, **variables: str) -> Index:
        names["global"].write_text(machine)
        names["user"].write_text(user)
        if chosen is not None:
            (tmp_path / "chosen.conf").write_text(chosen)
            monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "chosen.conf"))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return package_index.configured()

    return read


def at(name: str, section: str = "global") -> str:
    return f"[{section}]\nindex-url = https://{name}.test/simple\n"


def test_without_settings_pip_has_a_default(settings: Settings) -> None:
    found = settings()
    assert found.url.endswith("/simple")
    assert found.settings == {}
    assert found.pip_conf() == ""


def test_the_user_beats_the_machine(settings: Settings) -> None:
    found = settings(machine=at("machine") + "retries = 1\n", user=at("user"))
    assert found.settings == {"index-url": "https://user.test/simple", "retries": "1"}


def test_a_chosen_file_beats_the_machine_and_replaces_the_users(settings: Settings) -> None:
    found = settings(machine=at("machine"), user=at("user") + "retries = 1\n", chosen=at("chosen"))
    assert found.settings == {"index-url": "https://chosen.test/simple"}


def test_the_environment_beats_every_file(settings: Settings) -> None:
    files = {"machine": at("machine"), "user": at("user", "install"), "chosen": at("chosen", "install")}
    assert settings(**files, PIP_INDEX_URL="https://env.test/simple").url == "https://env.test/simple"


def test_an_empty_variable_says_nothing(settings: Settings) -> None:
    assert settings(user=at("user"), PIP_INDEX_URL="").url == "https://user.test/simple"


def test_the_section_of_install_beats_global_in_a_later_file(settings: Settings) -> None:
    assert settings(machine=at("machine", "install"), chosen=at("chosen")).url == "https://machine.test/simple"


def test_sections_of_other_commands_do_not_count(settings: Settings) -> None:
    assert settings(user=at("user") + at("search", "search")).url == "https://user.test/simple"


def test_pip_before_25_gave_its_values_without_files() -> None:
    found = [("global.index-url", "a"), (":env:.index-url", ""), ("install.retries", "3"), ("list.retries", "4")]
    assert package_index._merge(found) == {"index-url": "a", "retries": "3"}


def test_pip_conf_for_containers(settings: Settings) -> None:
    text = (
        "[global]\nindex-url = https://me:secret@index.test/simple\nextra-index-url =\n    file:///opt/wheels\n"
        "    https://more.test/simple\ntrusted-host =\n    one.test\n    two.test\nfind-links = /opt/wheels\n"
        "cert = /etc/company.pem\ntimeout = 9\n"
    )
    found = settings(chosen=text)
    assert found.pip_conf() == (
        "[global]\n"
        "index-url = https://me:secret@index.test/simple\n"
        "extra-index-url = https://more.test/simple\n"
        "trusted-host = one.test two.test\n"
        "timeout = 9\n"
    )


def test_folders_of_this_machine_are_left_out(settings: Settings) -> None:
    found = settings(chosen="[global]\nindex-url = file:///opt/simple\nextra-index-url = file:///opt/more\n")
    assert found.pip_conf() == ""
    assert found.url.startswith("https://")


def test_a_broken_configuration_is_no_traceback(settings: Settings) -> None:
    with pytest.raises(UnavailableError, match="pip's configuration cannot be read") as caught:
        settings(user="index-url = before any section\n")
    assert "user.conf" in caught.value.details[0]
