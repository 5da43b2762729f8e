"""The same wheel again: what is written down of it, and the same bytes from another engine."""

from __future__ import annotations

import getpass
import json
import os
import socket
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from command import ROOT, bakery, digests, shell, states
from engines import fresh_engine
from projects import pure
from repositories import git

from wheel_audit.byte_difference import differences

pytestmark = [pytest.mark.engine]

# The wheel holds the environment of its build, and a compiler cache, which `reproduce` goes without, is a part of that.
RECIPE = """\
name = "demo"
[matrix]
python = ["3.11"]
[builder]
compiler-cache = false
[test]
imports = ["demo"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give a project in a repository."""
    folder = pure(tmp_path / "project", RECIPE)
    (folder / ".gitignore").write_text("dist\n.bakery\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "x", at=1_700_000_000)
    return folder


@pytest.mark.proof
def test_what_is_written_down(project: Path, engine_environment: Mapping[str, str], debian: str) -> None:
    (wheel,) = bakery(project, "wheel").wheels
    records = project / "dist" / ".provenance"
    assert sorted(path.name for path in records.iterdir()) == [
        f"{wheel.name}.cdx.json",
        f"{wheel.name}.provenance.json",
    ]
    text = (records / f"{wheel.name}.provenance.json").read_text()
    told = json.loads(text)
    assert told["subject"] == [{"name": wheel.name, "digest": {"sha256": digests(project / "dist")[wheel.name]}}]
    defined = told["predicate"]["buildDefinition"]
    assert defined["externalParameters"]["settings"] == ["SOURCE_DATE_EPOCH=1700000000"]
    materials = {item["name"]: item for item in defined["resolvedDependencies"]}
    assert materials["source of demo"]["digest"]["gitCommit"] == git(project, "rev-parse", "HEAD")
    image = shell(engine_environment, "docker", "image", "inspect", "--format", "{{.Id}}", debian).strip()
    assert materials[debian]["digest"] == {"sha256": image.removeprefix("sha256:")}
    # What made it: packages of the index, and those that the base's own manager added to the base.
    setuptools = next(item for name, item in materials.items() if name.startswith("setuptools "))
    assert setuptools["uri"] == f"pkg:pypi/setuptools@{setuptools['annotations']['version']}"
    assert (len(setuptools["digest"]["sha256"]), setuptools["annotations"]["places"]) == (64, ["build"])
    compiler = next(item for name, item in materials.items() if name.startswith("g++-12 "))
    assert compiler["uri"].startswith("pkg:deb/debian/g%2B%2B-12@12.")
    assert compiler["uri"].endswith("?arch=amd64&distro=debian-12")
    assert len(compiler["digest"]["dpkgMd5sums"]) == 64
    assert "setuptools>=77" in defined["internalParameters"]["requirements"]["build"]
    for private in (str(project), socket.gethostname(), f'"{getpass.getuser()}"'):
        assert private not in text

    # Another run says the same, and touches nothing.
    before = states(records)
    bakery(project, "wheel")
    assert states(records) == before

    # What is not committed is told, and is no commit's.
    (project / "backend.py").write_text((project / "backend.py").read_text() + "# changed\n")
    bakery(project, "wheel")
    told = json.loads((records / f"{wheel.name}.provenance.json").read_text())
    (source,) = (
        item
        for item in told["predicate"]["buildDefinition"]["resolvedDependencies"]
        if item["name"] == "source of demo"
    )
    assert "gitCommit" not in source["digest"]
    assert source["annotations"]["changed"] == ["backend.py"]
    # Two wheels are compared without an engine.
    same = bakery(project, "reproduce", str(wheel), "--against", str(wheel)).out
    assert same.splitlines() == [f"{wheel.name}: the same bytes", "  not compared: how the two were built"]


@pytest.mark.proof
def test_a_wheel_is_built_again(project: Path) -> None:
    (wheel,) = bakery(project, "wheel").wheels
    backend = project / "backend.py"
    backend.write_text(backend.read_text().replace('"settings": config_settings', '"settings": "other"'))
    git(project, "commit", "--quiet", "--all", "--message", "x", at=1_800_000_000)
    same = json.loads(bakery(project, "reproduce", str(wheel), "--json").out)
    assert {key: same[key] for key in ("version", "wheel", "same", "differences", "materials")} == {
        "version": 1,
        "wheel": wheel.name,
        "same": True,
        "differences": [],
        "materials": [],
    }
    assert same["taken"][0] == "a setting, from the provenance: SOURCE_DATE_EPOCH=1700000000"
    assert same["taken"][1].startswith("a base image, from the provenance: debian:")
    assert "the test of the wheel (it was not run)" in same["not-compared"]
    # The packages are those of then, and without them it is said what is gone.
    record = project / "dist" / ".provenance" / f"{wheel.name}.provenance.json"
    kept = record.read_text()
    told = json.loads(kept)
    listed = told["predicate"]["buildDefinition"]["resolvedDependencies"]
    item = next(item for item in listed if item["name"].startswith("setuptools "))
    item["name"], item["annotations"]["version"] = "setuptools 77.0.999", "77.0.999"
    record.write_text(json.dumps(told))
    gone = bakery(project, "reproduce", str(wheel), code=9)
    assert "the provenance names setuptools 77.0.999" in " ".join(gone.err.split())
    record.write_text(kept)
    other = bakery(project, "reproduce", str(wheel), "--here", code=13)
    assert "demo.py" in other.out
    assert "source of demo: dirHash:" in other.out
    backend.write_text(backend.read_text() + "# once more\n")
    bakery(project, "wheel")
    backend.write_text(backend.read_text() + "# and again\n")
    refused = bakery(project, "reproduce", str(wheel), code=9)
    assert "these files were changed: backend.py" in refused.err


def with_backdoor(project: Path, *settings: str) -> Path:
    """Bake a wheel and add a backdoor to it, and to its provenance the digest and settings; return the wheel."""
    (wheel,) = bakery(project, "wheel").wheels
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("backdoor.py", "")
    record = project / "dist" / ".provenance" / f"{wheel.name}.provenance.json"
    provenance = json.loads(record.read_text())
    provenance["subject"][0]["digest"]["sha256"] = digests(project / "dist")[wheel.name]
    provenance["predicate"]["buildDefinition"]["externalParameters"]["settings"] += settings
    record.write_text(json.dumps(provenance))
    return wheel


def test_a_provenance_whose_settings_make_the_backdoor_is_refused(project: Path) -> None:
    evil = "wheel-cp311.contexts.demo-wheel=git://host/evil.git#main"
    refused = bakery(project, "reproduce", str(with_backdoor(project, evil)), code=9)
    assert evil in "".join(refused.err.split())


@pytest.mark.proof
def test_a_wheel_with_a_backdoor_differs_and_nothing_is_left(project: Path) -> None:
    wheel = with_backdoor(project)
    before = all_files(project)
    different = bakery(project, "reproduce", str(wheel), code=13)
    assert "backdoor.py" in different.out
    assert different.out.splitlines()[-1].startswith("  not compared: the test of the wheel")
    assert all_files(project) == before


def all_files(folder: Path) -> dict[str, int]:
    """Return path → time of the last change of all that is in a folder."""
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*")}


@pytest.fixture
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Give the environment of another engine, with a data root of its own, that has one core."""
    with fresh_engine(tmp_path_factory.mktemp("e"), cores=1) as environment:
        yield environment


def checkout(folder: Path, umask: int, modified: int) -> Path:
    """Clone this repository as another person would: other modes, other times, another place."""
    command = ["git", "clone", "--quiet", "--shared", str(ROOT), str(folder)]
    subprocess.run(command, check=True, umask=umask)
    for path in folder.rglob("*"):
        if ".git" not in path.relative_to(folder).parts and not path.is_symlink():
            os.utime(path, (modified, modified))
    return folder


@pytest.mark.proof
@pytest.mark.parametrize("example", ["cpp", "cuda"])
def test_two_engines_make_the_same_bytes(
    tmp_path: Path, engine_environment: Mapping[str, str], second: dict[str, str], example: str
) -> None:
    one = checkout(tmp_path / "one", 0o022, 1_500_000_000)
    other = checkout(tmp_path / "a much longer path" / "other", 0o002, 1_600_000_000)
    words = ("wheel", "-r", f"examples/{example}", "--no-cache")
    people = ({"USER": "ann", "LOGNAME": "ann"}, {"USER": "bob", "LOGNAME": "bob", "TZ": "Asia/Tokyo"})
    bakery(one, *words, environment={**engine_environment, **people[0]}, timeout_s=3600)
    bakery(other, *words, environment={**second, **people[1]}, timeout_s=3600)
    made = [sorted((folder / "dist").glob("*.whl")) for folder in (one, other)]
    assert made[0]
    assert [path.name for path in made[0]] == [path.name for path in made[1]]
    for pair in zip(*made, strict=True):
        assert differences(*pair) == ()
    assert digests(one / "dist") == digests(other / "dist")
