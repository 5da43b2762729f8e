"""The package index: what pip's settings say of it, how its pages are read, and what a person is told."""

from __future__ import annotations

import base64
import email.message
import io
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_servers import FAST, SLOW, serving
from packaging.version import Version
from pip._internal import configuration
from sample import sampled

from bakery.core.errors import UnavailableError
from bakery.engine import package_index
from bakery.engine.package_index import REMEMBER_S, Index, Link
from bakery.plan.cells import Need
from bakery.release.adopt import release_on

Golden = Callable[[Path, str], None]
DATA = Path(__file__).parents[1] / "data" / "index"
PLACE = Index("https://index.test/simple", {})
JSON = "application/vnd.pypi.simple.v1+json"


Reply = tuple[str, bytes]
"""The media type and the content of a page."""


class Web:
    """Answers every request with pages by name, and remembers the requests."""

    def __init__(self) -> None:
        self.pages: dict[str, Reply | Exception] = {}
        self.asked: list[urllib.request.Request] = []

    def fetch(self, request: urllib.request.Request, *, most: int, seconds: float, tls: object = None) -> Reply:
        self.asked.append(request)
        page = self.pages.get(request.full_url.rstrip("/").rpartition("/")[2])
        if page is None:
            raise urllib.error.HTTPError(request.full_url, 404, "Not Found", email.message.Message(), io.BytesIO())
        if isinstance(page, Exception):
            raise page
        return page

    def offer(self, name: str, *files: str) -> None:
        body = json.dumps({"files": [{"filename": file} for file in files]})
        self.pages[name] = JSON, body.encode()


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Web:
    found = Web()
    monkeypatch.setattr(package_index, "fetch", found.fetch)
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
    web.pages["demo-pkg"] = "text/html", page
    assert find("demo_pkg") == ["1.0+cu128", "2.0rc1"]


def test_unknown_name_has_no_releases(web: Web) -> None:
    assert find("nothing") == []


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"files": 1}', b'{"files": [{}]}', b"\xff"])
def test_a_broken_answer_is_no_traceback(web: Web, body: bytes) -> None:
    web.pages["demo"] = JSON, body
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


@pytest.mark.parametrize("name", sampled([*FAST, *SLOW], 6))
def test_no_index_holds_a_command(name: str) -> None:
    """Most of these took all memory, or did not end: `coverage`, `doctor`, and each bake asks an index."""
    began = time.monotonic()
    with serving(name) as (port, _):
        place = Index(f"http://127.0.0.1:{port}/simple", {})
        with pytest.raises(UnavailableError):
            package_index.files_of(place, "demo", ca_bundle="", timeout_s=0.5)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("<![<![<![" * 1000 + '<a href="demo-1.0.tar.gz">x</a>', ["demo-1.0.tar.gz"]),
        ("<!--<a " * 100_000, []),
        ("<a href=" * 100_000, ["<a"] * 99_999),
        ("<a href='" + "x" * 3_000_000, []),
        ("<a " + "&" * 3_000_000 + " href=a/demo-1.0.tar.gz>", []),
        ("<A title='1' HREF='x/demo-1.0&#46;tar.gz#sha256=1'>", ["demo-1.0.tar.gz"]),
    ],
)
def test_hostile_pages(page: str, names: list[str]) -> None:
    began = time.process_time()
    assert [link.name for link in package_index.links_on("text/html", page.encode())] == names
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("in_json", "in_html", "yanked"),
    [
        ("true", "data-yanked", True),
        ('"a > b"', 'data-yanked="a > b"', True),
        ('""', "DATA-YANKED=''", True),
        ("false", "", False),
        ("null", "data-yanked-by='x'", False),
    ],
)
def test_what_is_yanked(in_json: str, in_html: str, yanked: bool) -> None:
    page = f'{{"files": [{{"filename": "demo-1.0.tar.gz", "yanked": {in_json}}}, {{"filename": "demo-2.0.tar.gz"}}]}}'
    html = f'<a href="demo-1.0.tar.gz" {in_html}>demo</a><a href="demo-2.0.tar.gz">demo</a>'
    for kind, text in ((JSON, page), ("text/html", html)):
        assert [link.yanked for link in package_index.links_on(kind, text.encode())] == [yanked, False]


def test_a_yanked_release_is_the_newest_for_nobody() -> None:
    links = [
        Link(f"demo-{version}-py3-none-any.whl", "", "", yanked)
        for version, yanked in (("1.0", False), ("1.1", False), ("1.1+cu128", True), ("2.0", True))
    ]
    assert [(release_on(links, "demo", wanted).version, len(release_on(links, "demo", wanted).wheels)) for wanted in ("", "1.1", "2.0")] == [
        ("1.1", 1), ("1.1", 2), ("2.0", 1)
    ]  # fmt: skip


def test_a_page_lists_a_limited_number_of_files() -> None:
    page = json.dumps({"files": [{"filename": "a"}] * 200_001}).encode()
    with pytest.raises(ValueError, match="more than 200,000 files"):
        package_index.links_on("application/vnd.pypi.simple.v1+json", page)


def test_a_page_has_a_limited_number_of_links_whatever_they_lead_to() -> None:
    """Eight million of them took ten seconds and 560 MB."""
    with pytest.raises(ValueError, match="more than 200,000 files"):
        package_index.links_on("text/html", b"<a " * 200_001)


def test_a_token_in_the_path_of_an_index_is_sent_and_not_shown(web: Web) -> None:
    web.offer("demo", "demo-1.0.tar.gz")
    place = Index("https://index.test/AbCd1234EfGh5678/simple/", {})
    assert find("demo", place=place) == ["1.0"]
    (request,) = web.asked
    assert request.full_url == "https://index.test/AbCd1234EfGh5678/simple/demo/"
    assert place.address == "https://index.test/***/simple/"


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


ENV = "https://env.test/simple"


def test_without_settings_pip_has_a_default(settings: Settings) -> None:
    found = settings()
    assert found.url.endswith("/simple")
    assert found.settings == {}
    assert found.pip_conf() == ""


@pytest.mark.parametrize(
    ("places", "winner", "more"),
    [
        ({"machine": at("machine") + "retries = 1\n", "user": at("user")}, "user", {"retries": "1"}),
        # A chosen file replaces the user's.
        ({"machine": at("machine"), "user": at("user") + "retries = 1\n", "chosen": at("chosen")}, "chosen", {}),
        ({"user": at("user", "install"), "chosen": at("chosen", "install"), "PIP_INDEX_URL": ENV}, "env", {}),
        ({"user": at("user"), "PIP_INDEX_URL": ""}, "user", {}),
        # The section of install beats global in a later file; those of other commands do not count.
        ({"machine": at("machine", "install"), "chosen": at("chosen")}, "machine", {}),
        ({"user": at("user") + at("search", "search")}, "user", {}),
    ],
)
def test_which_place_of_a_setting_wins(
    settings: Settings, places: dict[str, str], winner: str, more: dict[str, str]
) -> None:
    assert settings(**places).settings == {"index-url": f"https://{winner}.test/simple", **more}


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
    # pip shows the line.
    with pytest.raises(UnavailableError, match="pip's configuration cannot be read") as caught:
        settings(user="index-url = https://me:hunter2@index.test/simple\n")
    assert "hunter2" not in str(caught.value.details)
    assert "https://index.test/simple" in caught.value.details[0]


@pytest.mark.parametrize(
    "url", ["https://me:hunter2#x@h/simple", "https://me:x/hunter2@h/simple", "https://me:hunter2@[h/simple"]
)
@pytest.mark.parametrize("key", ["index-url", "extra-index-url"])
def test_a_malformed_address_is_refused_and_not_shown(settings: Settings, url: str, key: str) -> None:
    with pytest.raises(UnavailableError, match="malformed") as caught:
        settings(user=f"[global]\n{key} = {url}\n")
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint} {caught.value.details}"
    with pytest.raises(UnavailableError, match="malformed"):
        Index(url, {})
