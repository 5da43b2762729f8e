"""Checkouts that bring a ``.bakery`` of their own: nothing in it is believed, and nothing outside of them is touched."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zipfile
from pathlib import Path

import pytest
from command import Done, bakery, digests
from projects import pure
from runs import runs_of

pytestmark = pytest.mark.engine

RECIPE = 'name = "demo"\n[wheel]\nrepair = false\n'


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the environment of a user who has baked nothing yet."""
    return {"XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return pure(tmp_path / "project", RECIPE)


def journals(*places: Path) -> list[Path]:
    return [path for place in places for path in sorted(place.rglob("*.jsonl"))]


def backdoored(wheel: Path) -> str:
    """Change a wheel's module, with a RECORD that fits; return the file's digest."""
    with zipfile.ZipFile(wheel) as archive:
        files = {item.filename: archive.read(item) for item in archive.infolist()}
    files["demo.py"] += b"EVIL = True\n"
    digest = base64.urlsafe_b64encode(hashlib.sha256(files["demo.py"]).digest()).rstrip(b"=").decode()
    name = next(name for name in files if name.endswith("/RECORD"))
    line = f"demo.py,sha256={digest},{len(files['demo.py'])}"
    files[name] = re.sub(rb"(?m)^demo\.py,.*$", line.encode(), files[name])
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, data in files.items():
            archive.writestr(zipfile.ZipInfo(member), data)
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def result(done: Done) -> object:
    return done.results()["wheel-cp311"]["result"]


@pytest.mark.proof
def test_a_committed_journal_with_a_changed_wheel_is_not_believed(
    project: Path, tmp_path: Path, machine: dict[str, str]
) -> None:
    bakery(project, "wheel", environment=machine)
    (honest,) = digests(project / "dist").values()
    (wheel,) = (project / "dist").glob("*.whl")
    journal = journals(project / ".bakery", Path(machine["XDG_STATE_HOME"]))[-1]
    fake = backdoored(wheel)
    text = re.sub(r'"size": \d+', f'"size": {wheel.stat().st_size}', journal.read_text().replace(honest, fake))
    assert fake in text
    committed = project / ".bakery" / "journal" / "demo" / "000099.jsonl"
    committed.parent.mkdir(parents=True, exist_ok=True)
    committed.write_text(text)
    evil = wheel.read_bytes()
    # A victim who has never baked this project, and one who has.
    for environment in ({"XDG_STATE_HOME": str(tmp_path / "victim")}, machine):
        (project / "dist" / wheel.name).write_bytes(evil)
        assert result(bakery(project, "wheel", "--resume", environment=environment)) == "done"
        assert digests(project / "dist") == {wheel.name: honest}
        assert result(bakery(project, "wheel", "--resume", environment=environment)) == "kept"


@pytest.mark.parametrize("kind", ["device", pytest.param("pipe", marks=pytest.mark.proof)])
def test_a_journal_of_the_checkout_that_has_no_end_is_not_read(
    project: Path, machine: dict[str, str], kind: str
) -> None:
    path = project / ".bakery" / "journal" / "demo" / "000001.jsonl"
    path.parent.mkdir(parents=True)
    if kind == "device":
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path)
    assert result(bakery(project, "wheel", "--resume", environment=machine, timeout_s=120)) == "done"


@pytest.mark.proof
def test_folders_behind_a_link_in_place_of_the_locks_folder_survive(
    project: Path, tmp_path: Path, machine: dict[str, str]
) -> None:
    bakery(project, "lock", environment=machine)
    precious = tmp_path / "precious"
    for number in range(6):
        (precious / str(number)).mkdir(parents=True)
        (precious / str(number) / "file").write_text("x")
        os.utime(precious / str(number), (number + 1, number + 1))
    before = sorted(path.relative_to(precious) for path in precious.rglob("*"))
    (project / ".bakery").mkdir(exist_ok=True)
    (project / ".bakery" / "lock").symlink_to(precious)
    for words in (("wheel",), ("full", "--locked"), ("lock",)):
        bakery(project, *words, environment=machine)
        assert sorted(path.relative_to(precious) for path in precious.rglob("*")) == before


@pytest.mark.parametrize("name", [".bakery", pytest.param(".bakery/runs", marks=pytest.mark.proof)])
def test_nothing_is_written_through_a_link_in_place_of_bakerys_folder(
    project: Path, tmp_path: Path, machine: dict[str, str], name: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / ".bakery").mkdir(exist_ok=True)
    if name == ".bakery":
        (project / ".bakery").rmdir()
    (project / name).symlink_to(elsewhere)
    bakery(project, "wheel", environment=machine)
    bakery(project, "report", environment=machine)
    assert not list(elsewhere.iterdir())


def test_a_report_of_an_earlier_run_is_not_read(project: Path, machine: dict[str, str]) -> None:
    bakery(project, "wheel", environment=machine)
    report = max(runs_of(project, machine).glob("*/report.json"))
    assert json.loads(report.read_text())
    report.unlink()
    report.symlink_to("/dev/zero")
    assert result(bakery(project, "wheel", "--resume", environment=machine)) == "kept"


def test_the_output_is_checked_before_anything_else_is_written(project: Path, machine: dict[str, str]) -> None:
    # Nothing can be made in the place of a file, by root neither: as in a project that is read-only.
    for name in (".bakery", "dist"):
        (project / name).write_text("")
    done = bakery(project, "wheel", code=10, environment=machine)
    assert f"cannot write {project / 'dist'}" in done.err
