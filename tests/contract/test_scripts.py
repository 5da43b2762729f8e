"""The Python programs that run inside images: everything but the processes that they start."""

from __future__ import annotations

import ast
import contextlib
import email.message
import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import pytest
from elfs import shared_object
from file_trees import write_files
from hostile_servers import FAST, SLOW, serving
from sample import sampled
from wheels import write_wheel

from bakery.core.inside import LONGEST_NAME
from bakery.toolchains.programs import cuda_repository, finish, materials, requires, rust, smoke
from bakery.toolchains.programs.packages import __main__ as packages
from bakery.toolchains.programs.packages import download, requirements, sdist, unpack
from bakery.toolchains.programs.packages import resolve as resolving

PROGRAMS = sorted(Path(requires.__file__).parent.rglob("*.py"))


@contextlib.contextmanager
def fails(said: str) -> Iterator[None]:
    """Expect an end with what a person sees: always one line, never a number; … stands for any text."""
    with pytest.raises(SystemExit) as caught:
        yield
    assert isinstance(caught.value.code, str)
    assert re.fullmatch(".*".join(map(re.escape, said.split("…"))), caught.value.code), caught.value.code


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_python_38_can_read_it(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


# --- requires


def test_a_project_without_pyproject(tmp_path: Path) -> None:
    assert requires.requirements(str(tmp_path)) == ["setuptools", "wheel"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ["setuptools", "wheel"]),
        ("[project]\nname = 'demo'\n", ["setuptools", "wheel"]),
        ("[build-system]\nrequires = ['nanobind>=2', 'a; python_version > \"3\"']\n", None),
        ("[build-system]\nrequires = []\n", []),
    ],
)
def test_what_pyproject_requires(tmp_path: Path, text: str, wanted: list[str] | None) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    expected = ["nanobind>=2", 'a; python_version > "3"'] if wanted is None else wanted
    assert requires.requirements(str(tmp_path)) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[build-system\n", "cannot read FILE…"),
        ("a = '\xff'\n", "cannot read FILE…"),
        ("[build-system]\nbuild-backend = 'x'\n", "FILE has no list named requires…"),
        ("[build-system]\nrequires = 'nanobind'\n", "FILE has no list named requires…"),
        ("[build-system]\nrequires = [1]\n", "FILE has no list named requires…"),
        ("build-system = 1\n", "FILE has no list named requires…"),
    ],
)
def test_a_pyproject_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(text.encode("latin-1"))
    with fails(f"…{said.replace('FILE', str(tmp_path / 'pyproject.toml'))}"):
        requires.requirements(str(tmp_path))


def test_requirements_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extras = "[project.optional-dependencies]\nCuda_12 = ['jax[cuda12]', 'Demo[test]']\n"
    text = f"[project]\nname = 'demo'\ndependencies = ['numpy>=2', 'Torch', 'x']\n{extras}"
    (tmp_path / "pyproject.toml").write_text(text)
    into = tmp_path / "lists"
    sys_argv = ["requires.py", str(tmp_path), str(into), "--extra=cuda-12", "--extra=none", "torch"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", sys_argv)
        requires.main()
        patch.setattr(sys, "argv", sys_argv[:2])
        with pytest.raises(SystemExit, match=r"Usage: requires\.py FOLDER INTO"):
            requires.main()
    assert (into / "build.txt").read_text() == "setuptools\nwheel\n"
    assert (into / "run.txt").read_text() == "numpy>=2\nx\n"
    assert (into / "run-cuda-12.txt").read_text() == "jax[cuda12]\n"
    said = [
        "build.txt: setuptools, wheel",
        "run.txt: numpy>=2, x",
        "run-cuda-12.txt: jax[cuda12]",
        "run-none.txt: none",
    ]
    assert capsys.readouterr().out.splitlines() == said


# --- sdist: the index

INDEX = "https://index.test/simple"
CONTENT = b"an archive"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Reply(io.BytesIO):
    """An answer."""

    def __init__(self, url: str, body: bytes, kind: str) -> None:
        super().__init__(body)
        self.url = url
        self.headers = email.message.Message()
        self.headers["Content-Type"] = kind

    def geturl(self) -> str:
        return self.url

    def __enter__(self) -> Reply:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Web:
    """Answers requests by URL, and remembers them."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[bytes, str] | Exception] = {}
        self.asked: list[urllib.request.Request] = []

    def open(self, request: urllib.request.Request) -> Reply:
        self.asked.append(request)
        page = self.pages.get(request.full_url)
        if isinstance(page, Exception):
            raise page
        if page is None:
            raise urllib.error.HTTPError(request.full_url, 404, "Not Found", email.message.Message(), io.BytesIO())
        return Reply(request.full_url, *page)

    def list(self, name: str, *files: str, hashes: dict[str, str] | None = None) -> None:
        entries = [{"filename": file, "url": f"../../files/{file}", "hashes": hashes or {}} for file in files]
        page = json.dumps({"files": entries}).encode()
        self.pages[f"{INDEX}/{name}/"] = (page, "application/vnd.pypi.simple.v1+json")


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Web:
    found = Web()
    monkeypatch.setattr(download, "opened", found.open)
    return found


def test_index_in_json(web: Web) -> None:
    web.list("demo", "demo-1.0-py3-none-any.whl", "demo-1.0.zip", "demo-1.0.tar.gz", hashes={"sha256": SHA256})
    wanted = sdist.Entry("https://index.test/files/demo-1.0.tar.gz", "demo-1.0.tar.gz", {"sha256": SHA256})
    assert sdist.find(INDEX, "Demo", "1.0") == wanted


def test_index_in_html(web: Web) -> None:
    page = (
        f'<a>none</a><a href="../../f/demo-1.0%2Bcu12.tar.gz?x=1#sha256={SHA256}">x</a><a href="/demo-2.tar.gz">y</a>'
    )
    web.pages[f"{INDEX}/demo/"] = (page.encode(), "text/html; charset=utf-8")
    entry = sdist.find(INDEX, "demo", "1.0+cu12")
    assert entry.url == "https://index.test/f/demo-1.0%2Bcu12.tar.gz?x=1"
    assert entry.filename == "demo-1.0+cu12.tar.gz"
    assert entry.hashes == {"sha256": SHA256}
    assert sdist.find(INDEX, "demo", "2").hashes == {}


@pytest.mark.parametrize(
    ("file", "name", "version"),
    [
        ("causal_conv1d-1.5.tar.gz", "causal-conv1d", "1.5"),
        ("causal-conv1d-1.5.tar.gz", "causal_conv1d", "1.5"),
        ("Causal.Conv1D-1.5.zip", "causal--conv1d", "1.5"),
        ("demo-1.0rc1.tar.gz", "demo", "1.0.RC1"),
        ("demo-1.0-rc1.tar.gz", "demo", "1.0rc1"),
        ("demo-1.0.tar.gz", "demo", "1.0.0"),
        ("demo-1.0+cu128.tar.gz", "demo", "1.0+cu128"),
        ("demo-1.0+cu12.8.tar.bz2", "demo", "1.0+CU12-8"),
        ("demo-2-2.tar.gz", "demo", "2.post2"),
        ("demo-2-2.tar.gz", "demo-2", "2"),
    ],
)
def test_names_of_archives(file: str, name: str, version: str) -> None:
    assert sdist.rank(file, name, version) is not None


@pytest.mark.parametrize(
    "file",
    [
        "demo-1.0.tar.xz", "demo-1.0-py3-none-any.whl", "demo-1.0rc1.tar.gz", "demo-1.0+cu128.tar.gz",
        "demo-extra-1.0.tar.gz", "extra-demo-1.0.tar.gz", "demo-11.0.tar.gz", "demo.tar.gz", "../demo-1.0.tar.gz",
        "demo-/../1.0.tar.gz", "",
    ],
)  # fmt: skip
def test_other_archives(file: str) -> None:
    assert sdist.rank(file, "demo", "1.0") is None


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (None, "the package index answered 404 for demo"),
        (urllib.error.URLError("no route"), "cannot read demo in the package index: <urlopen error no route>"),
        ((b"{", "x/y+json"), "cannot read demo in the package index"),
        ((b'{"files": [{}]}', "x/y+json"), "cannot read demo in the package index"),
        ((b"<a href='demo-2.0.tar.gz'>", "text/html"), "no source archive of demo==1.0 in the package index"),
    ],
)
def test_an_index_without_it(web: Web, page: tuple[bytes, str] | Exception | None, said: str) -> None:
    if page is not None:
        web.pages[f"{INDEX}/demo/"] = page
    with fails(f"…{said}…"):
        sdist.find(INDEX, "demo", "1.0")


@pytest.mark.parametrize(
    ("what", "name"),
    sampled([(what, name) for name in (*FAST, *SLOW) for what in ("list", "archive", "rust", "key")], 9),
)
def test_no_server_holds_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, name: str) -> None:
    """A step waited for ever, or took all memory or the disk."""
    for module, limits in (
        (sdist, ("LISTING_S", "ARCHIVE_S")),
        (rust, ("MANIFEST_S", "ARCHIVE_S")),
        (cuda_repository, ("KEY_S",)),
    ):
        for limit in limits:
            monkeypatch.setattr(module, limit, 0.5)
    monkeypatch.setattr(sdist, "LARGEST_ARCHIVE", 1 << 20)
    monkeypatch.setattr(cuda_repository, "KEYS", cuda_repository.KEYS[:1])
    began = time.monotonic()
    with serving(name) as (port, sent):
        server = f"http://127.0.0.1:{port}"
        work: dict[str, Callable[[], object]] = {
            "list": lambda: sdist.find(server, "demo", "1.0"),
            "archive": lambda: sdist.fetch(sdist.Entry(server, "demo", {}), server, str(tmp_path / "demo")),
            "rust": lambda: rust.manifest(server, "stable"),
            "key": lambda: cuda_repository.fetched_key(server.replace("http:", "https:")),
        }
        with pytest.raises(SystemExit):
            work[what]()
        assert sent.bytes < 400 << 20
    assert time.monotonic() - began < 4
    assert not (tmp_path / "demo").exists() or (tmp_path / "demo").stat().st_size <= 1 << 20


@pytest.mark.parametrize("page", [b"[" * 100_000, b'{"files": [' + b"[]," * 1_100_000 + b"[]]}", b"<![<![<!["])
def test_a_page_that_is_a_bomb(web: Web, page: bytes) -> None:
    web.pages[f"{INDEX}/demo/"] = page, "text/html" if page[:1] == b"<" else "x/y+json"
    with pytest.raises(SystemExit):
        sdist.find(INDEX, "demo", "1.0")


def test_credentials_are_for_the_index_only(web: Web) -> None:
    index = "https://me:p%40ss@index.test/simple"
    web.list("demo", "demo-1.0.tar.gz")
    sdist.find(index, "demo", "1.0")
    own, other = sdist.request("https://index.test/x", index), sdist.request("https://files.test/x", index)
    assert web.asked[0].full_url == f"{INDEX}/demo/"
    assert own.unredirected_hdrs == web.asked[0].unredirected_hdrs == {"Authorization": "Basic bWU6cEBzcw=="}
    assert other.unredirected_hdrs == {}


# --- sdist: the archive


@pytest.mark.parametrize("hashes", [{}, {"sha256": SHA256}, {"sha256": SHA256.upper()}, {"md99": "00"}])
def test_an_archive_with_the_right_hash(web: Web, tmp_path: Path, hashes: dict[str, str]) -> None:
    web.pages["https://files.test/demo"] = (CONTENT, "application/gzip")
    entry = sdist.Entry("https://files.test/demo", "demo", hashes)
    assert sdist.fetch(entry, INDEX, str(tmp_path / "demo")) == SHA256
    assert (tmp_path / "demo").read_bytes() == CONTENT


@pytest.mark.parametrize("hashes", [{"sha256": "00"}, {"sha512": "00"}, {"sha256": SHA256, "md5": "00"}])
def test_another_hash_is_refused(web: Web, tmp_path: Path, hashes: dict[str, str]) -> None:
    web.pages["https://files.test/demo"] = (CONTENT, "application/gzip")
    with fails("…of demo is not the one in the index…"):
        sdist.fetch(sdist.Entry("https://files.test/demo", "demo", hashes), INDEX, str(tmp_path / "demo"))


def test_an_archive_that_cannot_be_had(web: Web, tmp_path: Path) -> None:
    with fails("sdist: cannot fetch demo: HTTP Error 404: Not Found"):
        sdist.fetch(sdist.Entry("https://files.test/demo", "demo", {}), INDEX, str(tmp_path / "demo"))


def write_tar(path: Path, *members: tarfile.TarInfo) -> str:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return str(path)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, link
    found.size = 1 if kind == tarfile.REGTYPE else 0
    return found


@pytest.fixture(params=["today's Python", "Python without filters"])
def _both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "Python without filters":
        monkeypatch.delattr(tarfile, "data_filter")


@pytest.mark.usefixtures("_both")
def test_a_good_tar(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "demo-1.0.tar.gz", member("demo-1.0/setup.py"), member("demo-1.0/src/a..b.c"))
    unpack.unpack(archive, str(tmp_path / "out"))
    assert (tmp_path / "out/demo-1.0/setup.py").read_bytes() == b"x"
    assert (tmp_path / "out/demo-1.0/src/a..b.c").is_file()


@pytest.mark.usefixtures("_both")
@pytest.mark.parametrize(
    "bad",
    [
        member("../evil"),
        member("demo/../../evil"),
        member("/evil-of-bakery"),
        member("demo/link", tarfile.SYMTYPE, "/etc/passwd"),
        member("demo/link", tarfile.SYMTYPE, "../../evil"),
        member("demo/link", tarfile.LNKTYPE, "/etc/passwd"),
        member("demo/null", tarfile.CHRTYPE),
        member("demo/disk", tarfile.BLKTYPE),
        member("demo/pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda bad: f"{bad.name}-{bad.type!r}-{bad.linkname}",
)
def test_bad_members_are_refused(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    archive = write_tar(tmp_path / "demo-1.0.tar.gz", member("demo/good"), bad)
    with fails(f"sdist: cannot unpack demo-1.0.tar.gz: …{bad.linkname if bad.islnk() else bad.name}…"):
        unpack.unpack(archive, str(tmp_path / "out"))
    assert not (tmp_path / "evil").exists()


def test_a_link_that_stays_inside(tmp_path: Path) -> None:
    link = member("demo/link", tarfile.SYMTYPE, "good")
    unpack.unpack(write_tar(tmp_path / "demo.tar.gz", member("demo/good"), link), str(tmp_path / "out"))
    assert (tmp_path / "out/demo/link").read_bytes() == b"x"


def chain(depth: int = 200) -> list[tarfile.TarInfo]:
    """Return members whose links resolve to a path longer than PATH_MAX, and then lead out (CVE-2025-4517)."""
    members, folder = [], "demo"
    for letter in "abcdefghijklmnopqrst":
        members.append(member(f"{folder}/{letter * depth}", tarfile.DIRTYPE))
        members.append(member(f"{folder}/{letter}", tarfile.SYMTYPE, letter * depth))
        folder += f"/{letter * depth}"
    short = "demo/" + "/".join("abcdefghijklmnopqrst")
    members.append(member(f"{short}/out", tarfile.SYMTYPE, "../" * 20))
    return [*members, member("demo/escape", tarfile.SYMTYPE, f"{short[5:]}/out/../../evil"), member("demo/escape")]


@pytest.mark.parametrize(
    "members",
    [
        chain(),
        [member("d/l", tarfile.SYMTYPE, "."), member("d/l/x")],
        [member("d/l", tarfile.SYMTYPE, "."), member("d/L/../../x")],
        [member("d/l", tarfile.SYMTYPE, "."), member("d/L/x")],
        [member("d/l", tarfile.SYMTYPE, "x"), member("d/l")],
        [member("d/a", tarfile.SYMTYPE, "../b"), member("b", tarfile.SYMTYPE, "."), member("d/c", tarfile.SYMTYPE, "a/../..")],
        [member("d/l", tarfile.SYMTYPE, ".."), member("d/l/e", tarfile.SYMTYPE, "../evil")],
        [member("d/s", tarfile.SYMTYPE, "x"), member("d/h", tarfile.LNKTYPE, "d/s")],
        [member("d/" + "x/" * 600 + "y")],
        [member("d/x\0y")],
    ],
    ids=["chain", "below", "dots", "case", "twice", "behind", "link-below", "hard", "long", "null"],
)  # fmt: skip
def test_nothing_leaves_the_folder_whatever_python_does(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    path, out = tmp_path / "in" / "demo.tar.gz", tmp_path / "out"
    path.parent.mkdir()
    write_tar(path, *members)
    with tarfile.open(path) as archive, contextlib.suppress(tarfile.TarError, OSError):
        unpack.save_tar(archive, str(out))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name not in ("in", "out")) == before
    for link in (path for path in out.rglob("*") if path.is_symlink()):
        assert link.resolve().is_relative_to(out), link


@pytest.mark.parametrize("name", ["..\\..\\evil", "C:\\evil", "C:evil", "a/file:stream"])
def test_names_of_windows_leave_no_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """cibuildwheel's sources are unpacked on the machine itself."""
    assert unpack.parts_of(name)
    assert unpack.stays(["a", "link"], name)
    with monkeypatch.context() as windows:
        windows.setattr("os.name", "nt")
        with pytest.raises(tarfile.TarError, match="refusing"):
            unpack.parts_of(name)
        assert not unpack.stays(["a", "link"], name)


def test_all_unpack_alike() -> None:
    assert rust.save_tar is unpack.save_tar
    assert unpack.LONGEST_NAME == LONGEST_NAME


def test_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "demo-1.0.zip", "w") as archive:
        archive.writestr("demo-1.0/setup.py", "x")
        program = zipfile.ZipInfo("demo-1.0/configure")
        program.external_attr = 0o100755 << 16
        archive.writestr(program, "y")
    unpack.unpack(str(tmp_path / "demo-1.0.zip"), str(tmp_path / "out"))
    assert (tmp_path / "out/demo-1.0/setup.py").read_text() == "x"
    modes = {path.name: path.stat().st_mode & 0o111 for path in (tmp_path / "out/demo-1.0").iterdir()}
    assert modes == {"setup.py": 0, "configure": 0o111}


def test_a_bad_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "demo.zip", "w") as archive:
        archive.writestr("../evil", "x")
    with fails("sdist: cannot unpack demo.zip: refusing '../evil'"):
        unpack.unpack(str(tmp_path / "demo.zip"), str(tmp_path / "out"))


def large(size: int) -> tarfile.TarInfo:
    found = member("demo/zeros")
    found.size = size
    return found


def write_zip(path: Path, *members: tarfile.TarInfo) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for item in members:
            archive.writestr(item.name, bytes(item.size))
    return str(path)


@pytest.mark.parametrize("write", [write_tar, write_zip])
@pytest.mark.parametrize(
    "members",
    [[member("demo/good"), large(3 << 20)], [large(1 << 19)] * 3, [member(f"demo/{number}") for number in range(41)]],
    ids=["one large", "large together", "many"],
)
def test_a_bomb_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., str], members: list[tarfile.TarInfo]
) -> None:
    monkeypatch.setattr(unpack, "LARGEST_SOURCE", 1 << 20)
    monkeypatch.setattr(unpack, "MOST_MEMBERS", 40)
    archive = write(tmp_path / f"demo.{'zip' if write is write_zip else 'tar.gz'}", *members)
    assert Path(archive).stat().st_size < 20_000
    with fails("…refusing more than 40 members of 1048576 bytes…"):
        unpack.unpack(archive, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_header_that_fills_the_memory_is_not_read(tmp_path: Path) -> None:
    header = tarfile.TarInfo("demo/header")
    header.type, header.size = tarfile.XHDTYPE, 1 << 30
    with gzip.open(tmp_path / "demo.tar.gz", "wb") as archive:
        archive.write(header.tobuf())
    with fails("…refusing a header of 1073741824 bytes"):
        unpack.unpack(str(tmp_path / "demo.tar.gz"), str(tmp_path / "out"))


@pytest.mark.parametrize("name", ["demo.tar.gz", "demo.zip"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_damaged_archives(tmp_path: Path, name: str, share: float) -> None:
    write_tar(tmp_path / "demo.tar.gz", *(member(f"demo/{number}") for number in range(99)))
    with zipfile.ZipFile(tmp_path / "demo.zip", "w") as archive:
        archive.writestr("demo", "x" * 999)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: int(len(content) * share)])
    with fails(f"sdist: cannot unpack {name}: …"):
        unpack.unpack(str(tmp_path / name), str(tmp_path / "out"))


def test_the_whole_way(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = Path(write_tar(tmp_path / "a", member("causal_conv1d-1.5/setup.py"))).read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    web.list("causal-conv1d", "causal_conv1d-1.5.tar.gz", hashes={"sha256": sha256})
    web.pages["https://index.test/files/causal_conv1d-1.5.tar.gz"] = (content, "application/gzip")
    monkeypatch.setenv("PIP_INDEX_URL", INDEX)
    monkeypatch.setattr(sys, "argv", ["packages", "fetch", "causal-conv1d==1.5", str(tmp_path / "src")])
    packages.main()
    assert (tmp_path / "src/setup.py").is_file()
    assert capsys.readouterr().out == f"unpacked causal_conv1d-1.5.tar.gz sha256:{sha256}\n"
    with fails(f"sdist: cannot write {tmp_path / 'src'}: …"):
        packages.main()


@pytest.mark.parametrize("words", [[], ["demo"], ["demo", "/src"], ["demo==1==2", "/src"]])
def test_usage_of_fetch(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["packages", "fetch", *words])
    with pytest.raises(SystemExit, match=r"Usage: packages|expected NAME==VERSION"):
        packages.main()


# --- packages


def package(name: str, digest: str = "", **more: object) -> dict[str, object]:
    download = {"url": f"https://host/{name}.whl", "archive_info": {"hashes": {"sha256": digest}} if digest else {}}
    direct = bool(more.pop("direct", False))
    return {"metadata": {"name": name, "version": "1.0"}, "is_direct": direct, "download_info": {**download, **more}}


def test_every_package_has_its_file_and_its_hash() -> None:
    report = {"install": [package("ninja", "bb"), package("Cython", "aa"), package("own", "cc", direct=True)]}
    found = resolving.packages(report)
    assert found[0] == {"name": "cython", "version": "1.0", "file": "Cython.whl", "sha256": "aa"}
    assert [requirements.line(item) for item in found] == [
        "cython==1.0 --hash=sha256:aa",
        "ninja==1.0 --hash=sha256:bb",
        "own @ https://host/own.whl --hash=sha256:cc",
    ]


def test_lines_of_a_file_stand_for_it(tmp_path: Path) -> None:
    file = tmp_path / "requires.txt"
    file.write_text('a>=1\n\nb; python_version > "3"\n')
    assert requirements.words_of(["-r", str(file), "c"]) == ["a>=1", 'b; python_version > "3"', "c"]


# --- materials


STATUS = """\
Package: gcc-12
Status: install ok installed
Architecture: amd64
Version: 12.2.0-14

Package: dpkg
Status: install ok installed
Architecture: amd64
Version: 1.21.22

Package: libc6
Status: install ok installed
Architecture: arm64
Version: 2.36-9

Package: old
Status: deinstall ok config-files
Version: 1

Package: tzdata
Status: install ok installed
Description: a
 Version: 9
Version: 2024a-0
"""


def test_packages_that_dpkg_has(tmp_path: Path) -> None:
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(STATUS)
    assert materials.packages(str(tmp_path)) == {
        "gcc-12": "12.2.0-14",
        "dpkg": "1.21.22",
        "libc6:arm64": "2.36-9",
        "tzdata": "2024a-0",
    }


def test_packages_of_a_base_that_rpm_has(tmp_path: Path) -> None:
    assert materials.packages(str(tmp_path)) == {}
    (tmp_path / "rpm").write_text("gcc\t1:8.5.0-1.el8.x86_64\nmake\t4.2-1.noarch\n")
    assert materials.packages(str(tmp_path)) == {"gcc": "1:8.5.0-1.el8.x86_64", "make": "4.2-1.noarch"}


ALPINE = """\
C:Q1abc=
P:musl
V:1.2.5-r10
A:x86_64
T:the musl c library (libc) implementation
F:lib
R:ld-musl-x86_64.so.1
a:0:0:755

P:gcc
V:14.2.0-r6
A:x86_64
D:binutils=2.44-r0 musl-dev
"""


def test_packages_that_apk_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib/apk/db").mkdir(parents=True)
    (tmp_path / "lib/apk/db/installed").write_text(ALPINE)
    (tmp_path / "os-release").write_text('NAME="Alpine Linux"\nID=alpine\nVERSION_ID=3.22.1\n')
    versions = {"musl": "1.2.5-r10", "gcc": "14.2.0-r6"}
    assert materials.packages(str(tmp_path)) == versions
    monkeypatch.setattr(materials, "STATUS", str(tmp_path / "nowhere"))
    monkeypatch.setattr(materials, "APK", str(tmp_path / "lib/apk/db/installed"))
    monkeypatch.setattr(materials, "RELEASE", str(tmp_path / "os-release"))
    assert materials.purls(versions)["gcc"] == "pkg:apk/alpine/gcc@14.2.0-r6?arch=x86_64&distro=alpine-3.22.1"


def test_how_packages_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a base with dpkg, and of one with rpm."""
    inside = tmp_path / "info"
    inside.mkdir()
    (inside / "gcc-12.md5sums").write_text("a")
    (inside / "tzdata.md5sums").write_text("b")
    (inside / "libc6:amd64.md5sums").write_text("another")
    (inside / "libc6:arm64.md5sums").write_text("c")
    (tmp_path / "status").write_text(STATUS)
    (tmp_path / "os-release").write_text('NAME="Debian"\nID=debian\nVERSION_ID="12"\n')
    monkeypatch.setattr(materials, "STATUS", str(tmp_path / "status"))
    monkeypatch.setattr(materials, "INFO", f"{inside}/".lstrip("/"))
    monkeypatch.setattr(materials, "RELEASE", str(tmp_path / "os-release"))
    assert materials.purls({"gcc-12": "2:12.2.0-14+x", "libc6:arm64": "2.36-9", "tzdata": "2024a-0"}) == {
        "gcc-12": "pkg:deb/debian/gcc-12@2:12.2.0-14%2Bx?arch=amd64&distro=debian-12",
        "libc6:arm64": "pkg:deb/debian/libc6@2.36-9?arch=arm64&distro=debian-12",
        "tzdata": "pkg:deb/debian/tzdata@2024a-0?distro=debian-12",
    }
    told = {"gcc-12": b"a", "libc6:arm64": b"c", "tzdata": b"b"}
    assert materials.sums([*told, "without"]) == {name: hashlib.sha256(text).hexdigest() for name, text in told.items()}
    monkeypatch.setattr(materials, "STATUS", str(tmp_path / "nowhere"))
    assert materials.purls({"gcc": "1:8.5.0-1.el8.x86_64", "make": "4.2-1.noarch"}) == {
        "gcc": "pkg:rpm/debian/gcc@8.5.0-1.el8?arch=x86_64&distro=debian-12&epoch=1",
        "make": "pkg:rpm/debian/make@4.2-1?arch=noarch&distro=debian-12",
    }


def test_what_an_image_has_beside_the_one_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    have = {"/": {"a": "1", "b": "2", "c": "3"}, "/mnt": {"a": "1", "b": "1"}}
    monkeypatch.setattr(materials, "packages", have.__getitem__)
    monkeypatch.setattr(materials, "PROGRAMS", ("sh-that-is-not-there", "python3"))
    monkeypatch.setattr(materials, "FOLDER", str(tmp_path))
    monkeypatch.setattr(materials, "STATUS", "nowhere")
    materials.image("builder", "/mnt")
    told = json.loads((tmp_path / "builder.json").read_text())
    assert told["packages"] == {"b": "2", "c": "3"}
    assert list(told["tools"]) == ["python3"]
    assert told["tools"]["python3"].startswith("Python 3.")


# --- finish


def options(*words: str) -> finish.Options:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["finish.py", "/built", "/dist", *words])
        return finish.arguments()


def test_pure_wheels_are_not_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "run", lambda *words: pytest.fail(str(words)))
    wheel = "/built/demo-1.0-py3-none-any.whl"
    assert finish.repaired(wheel, options(), str(tmp_path)) == wheel
    wheel = "/built/demo-1.0-cp312-cp312-linux_x86_64.whl"
    assert finish.repaired(wheel, options("--no-repair"), str(tmp_path)) == wheel


LINUX = "cp312-abi3-linux_x86_64"


class Auditwheel:
    """Stands for the process of auditwheel; `wheel tags` runs for real."""

    def __init__(self, *refusals: str) -> None:
        self.refusals = list(refusals)
        self.said: list[tuple[str, ...]] = []
        self.real = finish.call

    def call(self, name: str, *words: str, errors: int | None = None) -> subprocess.CompletedProcess[str]:
        if name != "auditwheel":
            return self.real(name, *words, errors=errors)
        self.said.append(words)
        refused = self.refusals.pop(0) if self.refusals else ""
        if not refused:
            Path(words[2]).mkdir(exist_ok=True)
            Path(words[2], "repaired.whl").touch()
        return subprocess.CompletedProcess([name, *words], int(bool(refused)), stderr=refused)


def test_how_auditwheel_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Auditwheel()
    monkeypatch.setattr(finish, "call", tool.call)
    wheel = str(write_wheel(tmp_path, "cp312-cp312-linux_aarch64", {"demo/_c.so": shared_object("aarch64")}))
    chosen = options("--plat", "manylinux_2_28", "--exclude", "liba*", "--exclude", "libb.so", "--strip")
    folder = str(tmp_path / "out")
    assert finish.repaired(wheel, chosen, folder) == str(tmp_path / "out" / "repaired.whl")
    flags = "--plat manylinux_2_28_aarch64 --exclude liba* --exclude libb.so --strip"
    assert tool.said == [("repair", "--wheel-dir", folder, *flags.split(), wheel)]


@pytest.mark.parametrize(("confstr", "tag"), [("glibc 2.36", "manylinux_2_36"), (None, "musllinux_1_2")])
def test_a_module_that_needs_nothing_of_the_c_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confstr: str | None, tag: str
) -> None:
    tool = Auditwheel("auditwheel.error.InvalidLibcError: couldn't detect libc for python extension demo/_c.abi3.so")

    def confstr_of(name: str) -> str:
        if confstr is None:
            raise ValueError(name)
        return confstr

    def call(name: str, *words: str, errors: int | None = None) -> subprocess.CompletedProcess[str]:
        if name.startswith("/lib/ld-musl"):
            return subprocess.CompletedProcess([name], 1, stderr="musl libc (x86_64)\nVersion 1.2.5\nDynamic Program")
        return tool.call(name, *words, errors=errors)

    monkeypatch.setattr("os.confstr", confstr_of)
    glob = finish.glob.glob
    monkeypatch.setattr(
        "glob.glob", lambda path: ["/lib/ld-musl-x86_64.so.1"] if path.startswith("/lib/") else glob(path)
    )
    monkeypatch.setattr(finish, "call", call)
    wheel = str(write_wheel(tmp_path, LINUX, {"demo/_c.abi3.so": shared_object(needed=(), versions={})}))
    folder = str(tmp_path / "out")
    assert finish.repaired(wheel, options(), folder) == f"{folder}/repaired.whl"
    assert [Path(words[-1]).name for words in tool.said] == [
        "demo-1.0-cp312-abi3-linux_x86_64.whl",
        f"demo-1.0-cp312-abi3-{tag}_x86_64.whl",
    ]


@pytest.mark.parametrize(
    ("plat", "tag"), [("auto", "manylinux_2_36_x86_64"), ("manylinux_2_28", "manylinux_2_28_x86_64")]
)
@pytest.mark.parametrize("content", [b"data", shared_object("cuda")])
def test_a_platform_wheel_without_machine_code_is_tagged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plat: str, tag: str, content: bytes
) -> None:
    monkeypatch.setattr("os.confstr", lambda name: "glibc 2.36")
    monkeypatch.setattr(finish, "call", (tool := Auditwheel()).call)
    wheel = str(write_wheel(tmp_path, "py3-none-linux_x86_64", {"demo/data.bin": content}))
    written = Path(finish.repaired(wheel, options("--plat", plat), str(tmp_path / "out")))
    assert (written.name, tool.said) == (f"demo-1.0-py3-none-{tag}.whl", [])
    with zipfile.ZipFile(written) as archive:
        assert f"\nTag: py3-none-{tag}\n" in archive.read("demo-1.0.dist-info/WHEEL").decode()


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (
            "demo/sub/libx.so.2",
            "demo/_c.so needs libx.so.2, which is in the wheel as demo/sub/libx.so.2, but no RPATH leads there: link "
            "with -Wl,-rpath,'$ORIGIN/sub' (CMake: INSTALL_RPATH, Meson: install_rpath)",
        ),
        (
            "lib/libx.so.2",
            "demo/_c.so needs libx.so.2, which is in the wheel as lib/libx.so.2, but no RPATH leads there: link "
            "with -Wl,-rpath,'$ORIGIN/../lib' (CMake: INSTALL_RPATH, Meson: install_rpath)",
        ),
        (
            "demo/libx.so",
            "demo/_c.so needs libx.so.2, but the wheel has it as demo/libx.so: install it under the name that the "
            "loader looks for",
        ),
        (
            "",
            "demo/_c.so needs libx.so.2, which is neither in the wheel nor in a folder where the loader looks: "
            "install it with builder.system-packages, name its folder in LD_LIBRARY_PATH of builder.environment, or "
            "exclude it with wheel.repair.exclude if another package brings it",
        ),
    ],
)
def test_a_library_that_auditwheel_does_not_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str, said: str
) -> None:
    text = 'ValueError: Cannot repair wheel, because required library "libx.so.2" could not be located\n'
    monkeypatch.setattr(finish, "call", Auditwheel(text).call)
    files = {"demo/_c.so": shared_object(needed=["libx.so.2", "libc.so.6"])}
    files |= {inside: shared_object(soname="libx.so.2")} if inside else {}
    with fails(f"finish: {said}"):
        finish.repaired(str(write_wheel(tmp_path, LINUX, files)), options(), str(tmp_path / "out"))


@pytest.mark.parametrize(("names", "said"), [((), "none"), (("b.whl", "a.whl"), "a.whl, b.whl")])
def test_not_one_wheel(tmp_path: Path, names: tuple[str, ...], said: str) -> None:
    folder = tmp_path / "[x]"
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    with fails(f"finish: expected one *.whl in {folder}, found {said}"):
        finish.only(str(folder), "*.whl")


def write_tree(root: Path, metadata: str, version: str = "1.0") -> None:
    names = (f"demo-{version}.dist-info/METADATA", f"demo-{version}.data/scripts/tool", "demo/__init__.py")
    write_files(root, {name: metadata if name.endswith("METADATA") else "" for name in names})


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_local_label(tmp_path: Path, end: str) -> None:
    lines = ["Metadata-Version: 2.1", "Name: demo", "Version: {}", "", "Version: none of a header", ""]
    write_tree(tmp_path, end.join(lines).format("1.0"))
    finish.relabel(str(tmp_path), "cu12-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "demo",
        "demo-1.0+cu12_8.data",
        "demo-1.0+cu12_8.dist-info",
    ]
    written = (tmp_path / "demo-1.0+cu12_8.dist-info/METADATA").read_bytes().decode()
    assert written == end.join(lines).format("1.0+cu12-8")


@pytest.mark.parametrize(
    ("version", "label", "written"),
    [("1.0+old", "cu128", "1.0+cu128"), ("1.0+cu118", "", "1.0"), ("1.0", "", "1.0")],
)
def test_a_label_is_replaced_or_removed(tmp_path: Path, version: str, label: str, written: str) -> None:
    write_tree(tmp_path, f"Version: {version}\n", version)
    finish.relabel(str(tmp_path), label)
    assert (tmp_path / f"demo-{written}.dist-info/METADATA").read_text() == f"Version: {written}\n"
    assert (tmp_path / f"demo-{written}.data/scripts/tool").exists()


@pytest.mark.parametrize(
    ("label", "version", "folder"),
    [(None, "1.0+old", "1.0+old"), ("", "1.0", "1.0"), ("cu12-8", "1.0+cu12-8", "1.0+cu12_8")],
)
def test_a_name(tmp_path: Path, label: str | None, version: str, folder: str) -> None:
    write_tree(tmp_path, "Name: demo\nVersion: 1.0+old\n", "1.0+old")
    finish.relabel(str(tmp_path), label, "Demo-cu12")
    info = tmp_path / f"demo_cu12-{folder}.dist-info"
    assert (info / "METADATA").read_text() == f"Name: Demo-cu12\nVersion: {version}\n"
    assert info.with_suffix(".data").is_dir()
    (info / "METADATA").write_text("Version: 1.0\n")
    with pytest.raises(SystemExit, match="METADATA has no Name"):
        finish.relabel(str(tmp_path), None, "other")


# As auditwheel 6.8.2 wrote it for an extension that is linked with libsodium.
DEB = "pkg:deb/debian/libsodium23@1.0.18-1%2Bdeb12u1#f6c45dae7fd98c8f"
WHEEL = {"type": "library", "bom-ref": "pkg:pypi/demo@1.0?file_name=demo-1.0-x.whl", "name": "demo", "version": "1.0"}
WHEEL["purl"] = WHEEL["bom-ref"]
DESCRIBED = {
    "bomFormat": "CycloneDX",
    "metadata": {"component": WHEEL, "tools": [{"name": "auditwheel", "version": "6.8.2"}]},
    "components": [WHEEL, {"type": "library", "bom-ref": DEB, "name": "libsodium23", "purl": DEB}],
    "dependencies": [{"ref": WHEEL["bom-ref"], "dependsOn": [DEB]}, {"ref": DEB}],
}


def test_the_sbom_inside_has_the_new_version(tmp_path: Path) -> None:
    write_tree(tmp_path, "Version: 1.0\n")
    sbom = tmp_path / "demo-1.0.dist-info" / finish.SBOM
    sbom.parent.mkdir()
    sbom.write_text(json.dumps(DESCRIBED))
    finish.relabel(str(tmp_path), "cu128")
    text = (tmp_path / "demo-1.0+cu128.dist-info" / finish.SBOM).read_text()
    document, name = json.loads(text), "pkg:pypi/demo@1.0%2Bcu128"
    assert "demo@1.0?" not in text
    assert document["metadata"]["component"] == {**WHEEL, "version": "1.0+cu128", "bom-ref": name, "purl": name}
    assert document["components"] == [document["metadata"]["component"], DESCRIBED["components"][1]]
    assert document["dependencies"] == [{"ref": name, "dependsOn": [DEB]}, {"ref": DEB}]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"metadata": {"component": {}}}'])
def test_an_sbom_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "sbom").write_text(text)
    with fails(f"finish: cannot read the wheel's {finish.SBOM}: …"):
        finish.describe(str(tmp_path / "sbom"), "demo", "1.0")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("body", ["", "\nRequires-Dist: torch (says the description)\n"])
def test_requirements_replace_those_of_the_same_distribution(tmp_path: Path, end: str, body: str) -> None:
    head = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
    own = "Requires-Dist: Torch\nRequires-Dist: numpy>=2\nRequires-Dist: torch>=2 ; extra == 'old'\n"
    write_tree(tmp_path, (head + own + body).replace("\n", end))
    finish.require(str(tmp_path), ["torch==2.11.*", "nvidia_nccl>=2"])
    kept = "Requires-Dist: numpy>=2\nRequires-Dist: torch>=2 ; extra == 'old'\n"
    added = "Requires-Dist: torch==2.11.*\nRequires-Dist: nvidia_nccl>=2\n"
    written = (tmp_path / "demo-1.0.dist-info/METADATA").read_bytes().decode()
    assert written == (head + kept + added + body).replace("\n", end)


def test_a_description_may_have_other_line_ends_than_the_fields(tmp_path: Path) -> None:
    write_tree(tmp_path, "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n\n# Demo\r\n\r\ntext\r\n")
    finish.require(str(tmp_path), ["torch==2.11.*"])
    written = (tmp_path / "demo-1.0.dist-info/METADATA").read_bytes().decode()
    fields = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nRequires-Dist: torch==2.11.*\n"
    assert written == f"{fields}\n# Demo\r\n\r\ntext\r\n"
    mixed = "Metadata-Version: 2.1\r\nName: demo\nVersion: 1.0\n\n# Demo\n"
    (tmp_path / "demo-1.0.dist-info/METADATA").write_bytes(mixed.encode())
    finish.require(str(tmp_path), ["torch==2.11.*"])
    written = (tmp_path / "demo-1.0.dist-info/METADATA").read_bytes().decode()
    assert written == fields.replace("\n", "\r\n") + "\r\n# Demo\n"


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ("", 'Provides-Extra: cuda12\nRequires-Dist: cudart>=12; extra == "cuda12"\n'),
        # The project's own stay beside them.
        (
            "Provides-Extra: Cuda12\nRequires-Dist: cudart ; extra == 'Cuda12'\n",
            'Requires-Dist: cudart>=12; extra == "cuda12"\n',
        ),
        ('Provides-Extra: cuda12\nRequires-Dist: cudart>=12; extra == "cuda12"\n', ""),
        # A requirement without an extra is another one.
        ("Requires-Dist: cudart\n", 'Provides-Extra: cuda12\nRequires-Dist: cudart>=12; extra == "cuda12"\n'),
    ],
)
@pytest.mark.parametrize("quote", ['"', "'"])
def test_requirements_of_an_extra_are_added(tmp_path: Path, own: str, wanted: str, quote: str) -> None:
    head = f"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n{own}".replace('"', quote)
    write_tree(tmp_path, head)
    finish.require(str(tmp_path), [f"cudart>=12; extra == {quote}cuda12{quote}"])
    assert (tmp_path / "demo-1.0.dist-info/METADATA").read_text() == head + wanted.replace('"', quote)


def test_the_parts_of_a_naming() -> None:
    assert finish.naming("") == {}
    assert finish.naming("clean") == {"clean": ""}
    assert finish.naming("name=a-b.c") == {"name": "a-b.c"}
    assert finish.naming("local=cu130torch2.11 build-tag=1x") == {"local": "cu130torch2.11", "build-tag": "1x"}


@pytest.mark.parametrize(
    "text",
    ["name=", "name=-a", "local=", "local=cu+1", "local=-a", "build-tag=x", "clean=1", "other=1", "local=a\u00e9"],
)
def test_what_no_wheel_can_be_named(text: str) -> None:
    with fails("finish: no wheel can be named with …"):
        finish.naming(text)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A built wheel, and the tools that finish.py finds beside its interpreter."""
    tools = Path(sys.executable).parent
    folder = tmp_path / "built"
    folder.mkdir()
    tree = tmp_path / "tree"
    tags = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {
        "demo/__init__.py": "",
        "demo-1.0+cu12.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0+cu12\nRequires-Dist: torch\n",
        "demo-1.0+cu12.dist-info/WHEEL": tags,
    }
    write_files(tree, files)
    subprocess.run([tools / "wheel", "pack", "--dest-dir", folder, tree], check=True, stdout=subprocess.DEVNULL)
    return folder


def run_finish(monkeypatch: pytest.MonkeyPatch, built: Path, *words: str) -> Path:
    dist = built.parent / "dist"
    monkeypatch.setattr(sys, "argv", ["finish.py", str(built), str(dist), *words])
    finish.main()
    return dist


def test_several_names_of_one_build(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        word for name in ("clean", "local=cu130torch2.11", "", "clean build-tag=1cu130") for word in ("--name", name)
    ]
    first = built.parent / "first"
    dist = run_finish(monkeypatch, built, "--require", "torch==2.11.*", *names, "--first", str(first))
    wheels = sorted(path.name for path in dist.iterdir())
    assert wheels == [
        "demo-1.0+cu12-py3-none-any.whl",
        "demo-1.0+cu130torch2.11-py3-none-any.whl",
        "demo-1.0-1cu130-py3-none-any.whl",
        "demo-1.0-py3-none-any.whl",
    ]
    assert [path.name for path in first.iterdir()] == ["demo-1.0-py3-none-any.whl"]
    for name in wheels:
        with zipfile.ZipFile(dist / name) as archive:
            info = next(item for item in archive.namelist() if item.endswith("/METADATA"))
            text = archive.read(info).decode()
        assert f"Version: {name.split('-')[1]}\n" in text
        assert text.endswith("Requires-Dist: torch==2.11.*\n")
        assert text.count("Requires-Dist") == 1


def test_two_names_that_are_one(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fails("finish: two namings give one name: demo-1.0+cu12-py3-none-any.whl"):
        run_finish(monkeypatch, built, "--name", "", "--name", "local=cu12")


def test_metadata_without_a_version(tmp_path: Path) -> None:
    write_tree(tmp_path, "Name: demo\n")
    with fails("finish: the wheel's METADATA has no Version"):
        finish.relabel(str(tmp_path), "cu128")


def test_a_tool_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with fails("finish: cannot run auditwheel: …"):
        finish.run("auditwheel", "repair")


# --- smoke


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with a wheel; what it brought is installed beside it."""
    (tmp_path / "demo_pkg-1.0-cp312-cp312-linux_x86_64.whl").touch()
    site = tmp_path / "site"
    info = site / "demo_pkg-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo-pkg\nVersion: 1.0\n")
    files = ("demo/_b.cpython-312.so", "demo/_a.abi3.so", "demo.libs/libz-1.so.1.2", "demo/soup.sox", "demo/x.so.py")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    write_files(site, dict.fromkeys((*files, "nvidia/lib/libcudart.so.12"), ""))
    # Libraries of other packages are looked for in every folder of packages: there is none but this.
    monkeypatch.setattr(sys, "path", [str(site), *(item for item in sys.path if not item.endswith("-packages"))])
    return tmp_path


def smoke_main(*words: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["smoke.py", *words])
        smoke.main()


def test_every_shared_object_is_loaded(
    installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[str, list[str]]] = []

    def check(program: str, argument: str, what: str, libraries: list[str]) -> list[str]:
        calls.append((argument, libraries))
        return []

    monkeypatch.setattr(smoke, "check", check)
    driver = installed / "driver"
    driver.mkdir()
    smoke_main(str(installed), "--load", "--driver", str(driver), "--import", "demo")
    site = installed / "site"
    libraries = [str(site / "demo.libs"), str(site / "nvidia/lib"), str(driver)]
    objects = ["demo.libs/libz-1.so.1.2", "demo/_a.abi3.so", "demo/_b.cpython-312.so"]
    assert calls == [*((str(site / name), libraries) for name in objects), ("demo", [str(driver)])]
    wheel = "demo_pkg-1.0-cp312-cp312-linux_x86_64.whl"
    assert capsys.readouterr().out == f"loaded 3 of 3 shared objects of {wheel}\nimported demo\n"
    # Those in folders of the source that belong to other tests are left out.
    smoke_main(str(installed), "--load", "--without", "src/demo", "--without", "other")
    assert capsys.readouterr().out == f"loaded 1 of 1 shared objects of {wheel}\n"


def test_faults_are_listed_together(
    installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        code, output = {
            "_a.abi3.so": (-11, ""),
            "libz-1.so.1.2": (1, "Traceback\nOSError: undefined symbol\n"),
            "demo.bad": (3, ""),
        }.get(Path(command[-1]).name, (0, ""))
        return subprocess.CompletedProcess(command, code, stdout=output)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(SystemExit) as caught:
        smoke_main(str(installed), "--load", "--import", "demo.bad", "--import", "demo")
    site = installed / "site"
    assert str(caught.value.code).splitlines() == [
        f"FAILED {site}/demo.libs/libz-1.so.1.2: OSError: undefined symbol",
        f"FAILED {site}/demo/_a.abi3.so: killed by signal 11",
        "FAILED import demo.bad: exit status 3",
    ]
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["loaded 1 of 3 shared objects of demo_pkg-1.0-cp312-cp312-linux_x86_64.whl", "imported demo"]


@pytest.mark.parametrize("when", ["never", "first", "later"])
def test_a_library_of_cuda_that_only_the_test_would_find(
    installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], when: str
) -> None:
    site = installed / "site"
    library, module = site / "nvidia/lib/libcurand.so.9999", site / "demo/_a.abi3.so"
    (site / "demo_pkg-1.0.dist-info/RECORD").write_text("demo/_a.abi3.so,,\ndemo/later.py,,\n")
    link = ["gcc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o"]
    subprocess.run([*link, library, "-Wl,-soname,libcurand.so.9999"], check=True)
    subprocess.run([*link, module, "-Wl,--no-as-needed", "-x", "none", library], check=True)
    code = f"import ctypes\nctypes.CDLL({str(library)!r}, mode=ctypes.RTLD_GLOBAL)\n"
    (site / "demo/__init__.py").write_text(code if when == "first" else "")
    (site / "demo/later.py").write_text(code if when == "later" else "")
    monkeypatch.setenv("PYTHONPATH", str(site))
    if when != "never":
        smoke_main(str(installed), "--load", "--import", "demo")
        assert "loaded 1 of 1" in capsys.readouterr().out
        return
    with fails(f"FAILED {module}: libcurand.so.9999: cannot open shared object file: No such file or directory"):
        smoke_main(str(installed), "--load", "--import", "demo")


def test_the_import_of_a_folder_without_code_proves_nothing(
    installed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = installed / "site"
    text = "import sys\nif __name__ == 'lazy': sys.modules[__name__] = object()\n"
    write_files(site, dict.fromkeys(("acme/widgets/__init__.py", "lazy.py"), text))
    monkeypatch.setenv("PYTHONPATH", str(site))
    names = [word for name in ("acme", "acme.widgets", "lazy", "sys") for word in ("--import", name)]
    folder = f"{site}/acme"
    with fails(f"FAILED import acme: it is a namespace package, a folder without code ({folder}): name a module in it"):
        smoke_main(str(installed), *names)
    assert capsys.readouterr().out == "imported acme.widgets\nimported lazy\nimported sys\n"


def test_a_wheel_that_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "no_such_thing-1.0-py3-none-any.whl").touch()
    with fails("smoke: no_such_thing is not installed"):
        smoke_main(str(tmp_path), "--load")


def test_no_wheel(tmp_path: Path) -> None:
    with fails(f"smoke: expected one wheel in {tmp_path}, found none"):
        smoke_main(str(tmp_path))


def test_an_extra_that_does_not_exist_is_told_where_it_was_asked_for():
    said = "WARNING: cuda-toolkit 12.4.1 does not provide the extra 'cufile'\nWARNING: x 1 does not provide the extra 'y'\n"
    words = ["--only-binary=:all:", "cuda_toolkit[cublas,cufile]==12.4.1", "x[z]"]
    assert requirements.unknown_extras(said, words) == ["cuda-toolkit 12.4.1 does not provide the extra 'cufile'"]
    assert requirements.unknown_extras(said, ["cuda-toolkit[cublas]"]) == []
