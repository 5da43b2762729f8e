"""The static index, read by those who it is for: pip and uv install from it over HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest
from servers import Negotiating, Plain, served

from bakery.core.errors import OutputError, UnavailableError
from bakery.release.index.fetch import take
from bakery.release.index.pages import JSON
from bakery.release.index.store import NewWheel, extend

THEN, NOW = "2025-01-02T03:04:05.000006Z", "2026-01-02T03:04:05.000006Z"


def wheel(folder: Path, version: str, *, project: str = "Demo_Kernels", more: str = "", body: str = "") -> Path:
    """Write a wheel with one module, named as its project, that tells its version."""
    folder.mkdir(parents=True, exist_ok=True)
    name = project.lower()
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": body or f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n{more}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in files.items():
            archive.writestr(zipfile.ZipInfo(member), text)
    return path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Give an index of three versions, one of which no Python takes, that require another of its projects."""
    folder = tmp_path / "dist"
    own = [
        wheel(folder, "1.0+cu126", more="Requires-Dist: needed-part\n"),
        wheel(folder, "1.0+cu128", more="Requires-Dist: needed-part\nRequires-Python: >=3.9\n"),
        wheel(folder, "2.0+cu128", more="Requires-Python: >=3.99\n"),
        wheel(folder, "1", project="needed_part"),
    ]
    extend(tmp_path / "site", [NewWheel(path, THEN) for path in own], NOW)
    return tmp_path / "site"


def installed(target: Path, *words: str) -> list[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    environment = {**clean, "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-m", *words], env=environment, capture_output=True, text=True, check=False, cwd=target.parent
    )
    assert done.returncode == 0, done.stderr
    return sorted(path.name for path in target.glob("*.dist-info"))


@pytest.mark.parametrize("server", [Plain, Negotiating])
@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_installers_find_the_version_they_ask_for(site: Path, tmp_path: Path, server: type[Plain], tool: str) -> None:
    with served(site, server) as (url, asked):
        target = tmp_path / "target"
        first = ("pip",) if tool == "pip" else ("uv", "pip")
        cache = ("--no-cache-dir",) if tool == "pip" else ("--no-cache",)
        words = (*first, "install", *cache, "--target", str(target), "--index-url", f"{url}/simple/")
        # The newest that this Python takes; its hash and its METADATA are read on the way.
        found = installed(target, *words, "demo-kernels")
        assert len([path for path in asked if path.endswith(".metadata")]) >= 2
        # What was not chosen was not fetched.
        assert not any("cu126" in path or "2.0" in path for path in asked if path.endswith(".whl"))
    assert (target / "demo_kernels.py").read_text() == "VERSION = '1.0+cu128'\n"
    assert len(found) == 2


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_a_folder_has_the_wheels_of_one_cuda_release(site: Path, tmp_path: Path, tool: str) -> None:
    # A newer wheel without CUDA, and a label with torch.
    more = [
        wheel(tmp_path / "more", "3.0"),
        wheel(tmp_path / "more", "1.1+cu126torch2.9", more="Requires-Dist: needed-part\n"),
    ]
    extend(site, [NewWheel(path, NOW) for path in more], NOW)
    assert sorted(path.name for path in site.iterdir()) == ["cu126", "cu128", "index.html", "simple"]
    target = tmp_path / "target"
    first = ("pip", "install", "--no-cache-dir") if tool == "pip" else ("uv", "pip", "install", "--no-cache")
    with served(site) as (url, _):
        found = installed(target, *first, "--target", str(target), "--index-url", f"{url}/cu126/", "demo-kernels")
    assert found == ["demo_kernels-1.1+cu126torch2.9.dist-info", "needed_part-1.dist-info"]
    # What leaves the index leaves the folder.
    (site / "simple/demo-kernels" / more[1].name).unlink()
    extend(site, [], NOW)
    assert "torch2.9" not in (site / "cu126/demo-kernels/index.html").read_text()


WORKFLOW = "https://github.com/me/kernels/.github/workflows/wheels.yml@refs/tags/v1"
CERTIFICATE = f"""\
[req]
distinguished_name = dn
x509_extensions = more
[dn]
[more]
1.3.6.1.4.1.57264.1.18 = ASN1:UTF8String:{WORKFLOW}
"""


def bundle(folder: Path, path: Path, sha256: str = "") -> str:
    """Return a Sigstore bundle about a wheel, with a certificate as its authority writes it; nothing is signed."""
    (folder / "certificate.cnf").write_text(CERTIFICATE)
    words = [
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/", "-outform",
        "DER",
    ]  # fmt: skip
    files = ["-config", "certificate.cnf", "-keyout", "key.pem", "-out", "certificate.der"]
    subprocess.run(["openssl", *words, *files], cwd=folder, check=True, capture_output=True)
    digest = sha256 or hashlib.sha256(path.read_bytes()).hexdigest()
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": digest}}],
    }
    certificate = base64.b64encode((folder / "certificate.der").read_bytes()).decode()
    payload = base64.b64encode(json.dumps(statement).encode()).decode()
    material = {"certificate": {"rawBytes": certificate}, "tlogEntries": [{"logIndex": "1"}]}
    return json.dumps(
        {"verificationMaterial": material, "dsseEnvelope": {"payload": payload, "signatures": [{"sig": "c2ln"}]}}
    )


def test_attestations_are_served_as_pep_740_has_them(tmp_path: Path) -> None:
    path = wheel(tmp_path / "dist", "1.0+cu128")
    text = bundle(tmp_path, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    # Twice the same: from a file of the build, and from `gh attestation download`.
    path.with_name(f"{path.name}.sigstore.json").write_text(text)
    path.with_name(f"sha256:{digest}.jsonl").write_text(text + "\n")
    site, copy, scratch = tmp_path / "site", tmp_path / "copy", tmp_path / "scratch"
    scratch.mkdir()
    with served(site) as (url, _):
        extend(site, [NewWheel(path, NOW)], NOW, url)
        (entry,) = json.loads((site / "cu128/demo-kernels" / JSON).read_text())["files"]
        with urllib.request.urlopen(entry["provenance"]) as reply:
            made = json.load(reply)
        (attested,) = made["attestation_bundles"]
        assert attested["publisher"] == {"kind": "GitHub", "repository": "me/kernels", "workflow": "wheels.yml"}
        (item,) = attested["attestations"]
        assert json.loads(base64.b64decode(item["envelope"]["statement"]))["subject"][0]["digest"] == {"sha256": digest}
        assert f'data-provenance="{entry["provenance"]}"' in (site / "simple/demo-kernels/index.html").read_text()
        extend(copy, take(url, copy, scratch, print), NOW, url)
    for file in site.rglob("*"):
        assert file.is_dir() or (copy / file.relative_to(site)).read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no attestation of it"),
        ("{}", "'verificationMaterial'"),
        ("other", "its subject is not the file"),
        ("nobody", "names no workflow"),
    ],
)
def test_an_attestation_of_something_else_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = wheel(tmp_path / "dist", "1.0")
    if text == "other":
        text = bundle(tmp_path, path, "0" * 64)
    if text == "nobody":
        found = json.loads(bundle(tmp_path, path))
        found["verificationMaterial"]["certificate"]["rawBytes"] = "AAAA"
        text = json.dumps(found)
    path.with_name(f"{path.name}.sigstore.json").write_text(text)
    with pytest.raises(OutputError) as caught:
        extend(tmp_path / "site", [NewWheel(path, NOW)], NOW)
    assert said in caught.value.details[0]
    assert not (tmp_path / "site/index.html").exists()


def test_a_wheel_that_was_changed_is_refused_by_pip(site: Path, tmp_path: Path) -> None:
    (path,) = (site / "simple/demo-kernels").glob("*1.0+cu128*.whl")
    path.write_bytes(path.read_bytes() + b"x")
    with served(site) as (url, _), pytest.raises(AssertionError, match="DO NOT MATCH THE HASHES"):
        installed(
            tmp_path / "t", "pip", "install", "--no-cache-dir", "-t", str(tmp_path / "t"),
            "--index-url", f"{url}/simple/", "demo-kernels",
        )  # fmt: skip


def test_an_index_is_extended_and_loses_nothing(site: Path, tmp_path: Path) -> None:
    page = site / "simple/demo-kernels" / JSON
    before = json.loads(page.read_text())
    again = extend(site, [NewWheel(wheel(tmp_path / "new", "3.0"), NOW)], NOW)
    after = json.loads(page.read_text())
    assert again.added == ("demo_kernels-3.0-py3-none-any.whl",)
    assert (again.kept, again.dropped, again.projects) == (4, (), ("demo-kernels", "needed-part"))
    assert after["files"][:-1] == before["files"]
    assert after["files"][-1]["upload-time"] == NOW
    assert after["versions"] == ["1.0+cu126", "1.0+cu128", "2.0+cu128", "3.0"]


def test_the_same_wheels_again_touch_nothing(site: Path, tmp_path: Path) -> None:
    files = [path for path in site.rglob("*") if path.is_file()]
    before = {path: path.stat().st_mtime_ns for path in files}
    made = extend(site, [NewWheel(path, NOW) for path in (tmp_path / "dist").glob("*.whl")], NOW)
    assert made.added == ()
    assert {path: path.stat().st_mtime_ns for path in site.rglob("*") if path.is_file()} == before


def test_a_name_never_gets_other_bytes(site: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    other = wheel(tmp_path / "other", "1.0+cu126", body="VERSION = 'changed'\n")
    broken = wheel(tmp_path / "other", "4.0")
    broken.write_bytes(broken.read_bytes()[:200])
    layered = wheel(tmp_path / "other", "4.1")
    layered.write_bytes(layered.read_bytes() + b"x")
    liar = wheel(tmp_path / "other", "5.0").rename(tmp_path / "other" / "demo_kernels-6.0-py3-none-any.whl")
    with pytest.raises(OutputError) as caught:
        extend(site, [NewWheel(path, NOW) for path in (other, broken, layered, liar)], NOW)
    assert [line.partition(":")[0].rpartition("/")[2] for line in caught.value.details] == [
        other.name, broken.name, layered.name, liar.name
    ]  # fmt: skip
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before


def test_what_is_removed_by_hand_leaves_the_pages(site: Path) -> None:
    (path,) = (site / "simple/demo-kernels").glob("*2.0*.whl")
    path.unlink()
    made = extend(site, [], NOW)
    assert made.dropped == (path.name,)
    assert "2.0" not in (site / "simple/demo-kernels/index.html").read_text()
    # The last wheel of a project, too.
    (path,) = (site / "simple/needed-part").glob("*.whl")
    path.unlink()
    made = extend(site, [], NOW)
    assert (made.dropped, made.projects) == ((path.name,), ("demo-kernels",))
    assert not [page for page in site.rglob("index*") if path.name in page.read_text()]
    assert extend(site, [], NOW).dropped == ()


@pytest.mark.parametrize("yanked", ["it is broken", True])
@pytest.mark.parametrize("is_here", [True, False])
def test_a_yank_on_either_side_stays(site: Path, yanked: str | bool, is_here: bool) -> None:
    (path,) = (site / "simple/needed-part").glob("*.whl")
    for one, other in ((is_here, not is_here), (False, False)):
        page = site / "simple/needed-part" / JSON
        text = json.loads(page.read_text())
        text["files"][0]["yanked"] = yanked if one else text["files"][0]["yanked"]
        page.write_text(json.dumps(text))
        extend(site, [NewWheel(path, NOW, yanked if other else False)], NOW)
        assert json.loads(page.read_text())["files"][0]["yanked"] == yanked
        assert "data-yanked" in (site / "simple/needed-part/index.html").read_text()


@pytest.mark.parametrize(
    ("label", "release"), [("cu128", "12.8"), ("cu12", "12"), ("cu1210", "12.10"), ("cu92", "9.2"), ("", "")]
)
def test_the_page_for_people_names_cuda(tmp_path: Path, label: str, release: str) -> None:
    path = wheel(tmp_path / "dist", f"1.0+{label}torch2.9" if label else "1.0")
    extend(tmp_path / "site", [NewWheel(path, NOW)], NOW)
    assert f'"CUDA":"{release}"' in (tmp_path / "site/index.html").read_text().replace('": "', '":"')


def test_an_index_that_is_served_is_taken_over(site: Path, tmp_path: Path) -> None:
    copy, scratch = tmp_path / "copy", tmp_path / "scratch"
    scratch.mkdir()
    with served(site) as (url, asked):
        found = take(url + "/", copy, scratch, print)
        extend(copy, found, NOW)
        assert len([path for path in asked if path.endswith(".whl")]) == 4
        asked.clear()
        # What is there already is not fetched again.
        extend(copy, take(url, copy, scratch, print), NOW)
        assert not [path for path in asked if path.endswith(".whl")]
    for path in site.rglob("*"):
        if path.is_file():
            assert (copy / path.relative_to(site)).read_bytes() == path.read_bytes()


def test_taking_over_fails_loudly(site: Path, tmp_path: Path) -> None:
    said: list[str] = []
    with served(tmp_path / "dist") as (url, _):
        assert take(url, tmp_path / "none", tmp_path, said.append) == []
    assert said == [f"{url} has no index yet"]
    with pytest.raises(UnavailableError, match="cannot fetch"):
        take(url, tmp_path / "none", tmp_path, said.append)
    (path,) = (site / "simple/demo-kernels").glob("*2.0*.whl")
    path.write_bytes(b"x")
    with served(site) as (url, _), pytest.raises(UnavailableError, match="its page says"):
        take(url, tmp_path / "none", tmp_path, said.append)
    page = site / "simple/demo-kernels" / JSON
    page.write_text(page.read_text().replace('"demo_kernels-2.0', '"../demo_kernels-2.0'))
    with served(site) as (url, _), pytest.raises(UnavailableError, match="not an index that can be extended"):
        take(url, tmp_path / "none", tmp_path, said.append)
