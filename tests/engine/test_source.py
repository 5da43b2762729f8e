"""One source: what is sent is the key, the record and what git is asked about."""

from __future__ import annotations

import json
import os
import time
import zipfile
from pathlib import Path

import pytest
from command import bakery, finish, start
from projects import flavours, pure
from repositories import git
from runs import runs_of

pytestmark = pytest.mark.engine

LISTING = """\
listing = sorted(
    os.path.relpath(os.path.join(top, name), "/src") + "/" * (name in folders)
    for top, folders, names in os.walk("/src") if "/.git" not in top for name in folders + names if name != ".git"
)
"""


def listed(folder: Path, recipe: str) -> Path:
    """Write a project whose wheel has the names of all files and folders that its build saw."""
    pure(folder, recipe)
    backend = folder / "backend.py"
    text = backend.read_text().replace("import base64", f"import os\n{LISTING}\nimport base64", 1)
    backend.write_text(text.replace('"environment": dict(os.environ)', '"listing": listing'))
    return folder


def saw(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        variables: dict[str, str] = {}
        exec(archive.read("demo.py"), variables)
    return {name for name in json.loads(variables["TOLD"])["listing"] if "__pycache__" not in name}


def record(wheel: Path) -> tuple[dict[str, str], dict[str, object]]:
    """Return digests and notes of the source in a wheel's provenance."""
    text = (wheel.parent / ".provenance" / f"{wheel.name}.provenance.json").read_text()
    materials = json.loads(text)["predicate"]["buildDefinition"]["resolvedDependencies"]
    (source,) = (item for item in materials if item["name"] == "source of demo")
    return source.get("digest", {}), source["annotations"]


def committed(folder: Path) -> None:
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "x", at=1_600_000_000)


OWN = {"backend.py", "pyproject.toml"}


def test_what_a_build_sees_is_the_source_and_nothing_beside_it(tmp_path: Path) -> None:
    folder = listed(tmp_path / "project", 'name = "demo"\nsource.ignore = ["!wheels"]\n[wheel]\nrepair = false\n')
    (folder / "wheels").mkdir()
    (folder / "wheels" / "__init__.py").touch()
    (folder / ".gitignore").write_text("my dist/\n")
    committed(folder)
    # Results of this machine, a repository with a token, and the output folder of an earlier run.
    for name in ("build/lib.linux/x.so", "third/.git/config", "older/.provenance/x", "older/x-1-py3-none-any.whl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("token")
    first = bakery(folder, "wheel", "--output", "my dist").wheels[0]
    assert saw(first) - {".gitignore"} == OWN | {"wheels/", "wheels/__init__.py"}
    assert set(record(first)[0]) == {"gitCommit", "dirHash"}
    # The second run finds its own wheels, and bakes nothing.
    assert "up to date" in bakery(folder, "wheel", "--output", "my dist", "--if-changed").err
    # An empty folder is sent, so it is an input; no commit has it.
    (folder / "feature").mkdir()
    second = bakery(folder, "wheel", "--output", "my dist").wheels[0]
    assert "feature/" in saw(second)
    digests, notes = record(second)
    assert (set(digests), notes["changed"]) == ({"dirHash"}, ["feature/"])


@pytest.mark.proof
def test_a_source_that_changes_while_it_is_built_has_no_commit(tmp_path: Path) -> None:
    folder = flavours(tmp_path / "project", ["a"], "print('BUILDS', flush=True); time.sleep(6)")
    (folder / ".gitignore").write_text("dist/\n.bakery/\n")
    committed(folder)
    child, began = start(folder, "wheel", "--output", str(tmp_path / "out")), time.monotonic()
    while not any("BUILDS" in path.read_text() for path in runs_of(folder).rglob("*.log") if path.is_file()):
        assert time.monotonic() - began < 240
        assert child.poll() is None, child.communicate()
        time.sleep(0.1)
    text = (folder / "fresh.txt").read_text()
    (folder / "fresh.txt").write_text("other")
    (folder / "fresh.txt").write_text(text)
    done = finish(child, folder, began)
    assert done.code == 0, done.err
    assert "the source changed while it was built: fresh.txt" in " ".join(done.err.split())
    (wheel,) = (tmp_path / "out").glob("*.whl")
    digests, notes = record(wheel)
    assert (digests, notes["changedWhileBuilt"]) == ({}, ["fresh.txt"])
    (report,) = runs_of(folder).glob("*/report.json")
    assert "fresh.txt" in json.loads(report.read_text())["warnings"][-1]
    # Nobody knows what was built, so it is not built again as that.
    refused = bakery(folder, "reproduce", str(wheel), code=9)
    assert "has no hash of its files" in refused.err
    refused = bakery(folder, "verify", str(wheel), code=8)
    assert "its source changed while it was built, so nobody knows what is in it: fresh.txt" in " ".join(
        refused.err.split()
    )
    again = bakery(folder, "wheel", "--output", str(tmp_path / "out"))
    assert set(record(again.wheels[0])[0]) == {"gitCommit", "dirHash"}
    assert "complete and as planned" in bakery(folder, "verify", str(wheel)).out


def test_a_checkout_of_another_user_is_told_and_its_wheel_has_no_commit(tmp_path: Path) -> None:
    folder = listed(tmp_path / "project", 'name = "demo"\n[wheel]\nrepair = false\n')
    committed(folder)
    done = bakery(folder, "wheel", environment={"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"})
    said = " ".join(done.err.split())
    assert "git does not tell the last commit of the source: it belongs to another user" in said
    assert f"git config --global --add safe.directory {folder}" in said
    assert set(record(done.wheels[0])[0]) == {"dirHash"}


def test_a_link_is_no_source_and_a_name_that_is_no_text_is_named(tmp_path: Path) -> None:
    folder = listed(tmp_path / "v1", 'name = "demo"\n')
    (tmp_path / "current").symlink_to("v1")
    (tmp_path / "bakery.toml").write_text('name = "demo"\nsource = "current"\n')
    done = bakery(tmp_path, "wheel", code=4)
    assert 'write source.path = "v1"' in done.err
    (folder / os.fsdecode(b"caf\xe9.txt")).touch()
    (tmp_path / "bakery.toml").write_text('name = "demo"\nsource = "v1"\n')
    assert "not UTF-8: v1/caf\\udce9.txt" in bakery(tmp_path, "wheel", code=4).err
