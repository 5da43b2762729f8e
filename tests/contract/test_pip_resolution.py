"""packages resolves and installs with the real pip, from a folder of wheels."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import hostile_packages as hostile
import pytest

from bakery.runs.lock.failure import refusals
from bakery.toolchains.programs.packages import __main__ as packages
from bakery.toolchains.programs.packages import install
from bakery.toolchains.programs.packages import resolve as resolving


class Folders:
    """The folders that packages reads and writes, and a folder of wheels to resolve from."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lock, self.resolved, self.links = (folder / name for name in ("lock", "resolved", "links"))
        for module in (resolving, install):
            monkeypatch.setattr(module, "SOURCES", str(folder / "sources"))
            monkeypatch.setattr(module, "RESOLVED", str(self.resolved))
        monkeypatch.setattr(install, "BUILT", str(folder / "built"))
        self.links.mkdir()
        self.lock.mkdir()
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(resolving, "LOCK", str(self.lock))

    def wheel(self, name: str, version: str, *requires: str) -> str:
        """Write a wheel; return its SHA-256."""
        path = hostile.pure_wheel(self.links, name, version, requires=requires)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def resolve(self, *words: str) -> list[str]:
        """Resolve for this interpreter; return the lines for pip."""
        more = ["--no-index", "--find-links", str(self.links), "--", *words]
        self.monkeypatch.setattr(sys, "argv", ["packages", "resolve", "build", *more])
        packages.main()
        return (self.resolved / "build.txt").read_text().splitlines()

    def told(self) -> dict[str, object]:
        """Return what resolving told."""
        told: dict[str, object] = json.loads((self.resolved / "build.json").read_text())
        return told


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    return Folders(tmp_path, monkeypatch)


def test_pip_resolves_for_an_interpreter(folders: Folders) -> None:
    """pip's own report, of wheels that lie in a folder."""
    demo, other = folders.wheel("demo", "1.0", "other"), folders.wheel("other", "2.0")
    assert folders.resolve("demo>=1") == [f"demo==1.0 --hash=sha256:{demo}", f"other==2.0 --hash=sha256:{other}"]
    assert "demo>=1" in json.dumps(folders.told()["requirements"])


def test_an_extra_that_does_not_exist_ends_the_build(folders: Folders) -> None:
    folders.wheel("demo", "1.0")
    with pytest.raises(SystemExit, match=r"demo 1\.0 does not provide the extra 'fast', which is asked for"):
        folders.resolve("demo[fast]")


def test_what_is_preferred_is_kept_as_far_as_it_fits(folders: Folders) -> None:
    for version in ("1.0", "2.0"):
        folders.wheel("demo", version)
        folders.wheel("other", version)
    own = ["--no-index", "--find-links", str(folders.links)]
    kept = [{"name": name, "version": "1.0", "sha256": "", "file": ""} for name in ("demo", "other")]
    preferred = {"requirements": ["demo", "other", *own], "packages": kept}
    (folders.lock / "preferred.json").write_text(json.dumps(preferred))

    def versions(*words: str) -> list[str]:
        return [line.partition(" ")[0] for line in folders.resolve(*words)]

    assert versions("demo", "other") == ["demo==1.0", "other==1.0"]
    # A requirement that changed gives way, the other stays.
    assert versions("demo>=2", "other") == ["demo==2.0", "other==1.0"]
    # What the index does not have any more is asked for anew.
    (folders.links / "other-1.0-py3-none-any.whl").unlink()
    assert versions("demo", "other") == ["demo==2.0", "other==2.0"]


def test_a_lock_is_taken_as_it_is(folders: Folders) -> None:
    own = ["--no-index", "--find-links", str(folders.links)]
    item = {"name": "demo", "version": "7", "file": "demo-7-py3-none-any.whl", "sha256": "aa"}
    (folders.lock / "locked.json").write_text(json.dumps({"requirements": ["demo", *own], "packages": [item]}))
    assert folders.resolve("demo") == ["demo==7 --hash=sha256:aa"], "no index has it"
    assert folders.told()["packages"] == [item]


def test_other_requirements_than_those_that_are_locked(folders: Folders) -> None:
    own = ["--no-index", "--find-links", str(folders.links)]
    locked = {"requirements": ["demo", "gone>=1", *own], "packages": []}
    (folders.lock / "locked.json").write_text(json.dumps(locked))
    with pytest.raises(SystemExit) as caught:
        folders.resolve("demo", "new<2")
    assert str(caught.value.code).splitlines() == [
        "bakery: bakery.lock is out of date for build:",
        "bakery:   + new<2 is asked for, and was not when it was locked",
        "bakery:   - gone>=1 was locked, and is not asked for",
        "bakery: run `wheel-bakery lock`, which keeps what still fits",
    ]


def test_source_archives_are_no_part_of_a_strict_lock(folders: Folders) -> None:
    own = ["--no-index", "--find-links", str(folders.links)]
    item = {"name": "demo", "version": "7", "file": "demo-7.tar.gz", "sha256": "aa"}
    locked = {"requirements": ["demo", *own], "packages": [item], "strict": True}
    (folders.lock / "locked.json").write_text(json.dumps(locked))
    with pytest.raises(SystemExit, match=r"--locked takes no source archives.*demo-7\.tar\.gz"):
        folders.resolve("demo")


def record(folders: Folders, *listed: dict[str, str]) -> None:
    """Write what a provenance lists."""
    (folders.lock / "recorded.json").write_text(json.dumps({"requirements": ["anything"], "packages": listed}))


def listed(name: str, version: str, sha256: str, **more: str) -> dict[str, str]:
    return {"name": name, "version": version, "sha256": sha256, "file": f"{name}-{version}-py3-none-any.whl", **more}


def test_what_a_provenance_lists_is_taken_where_pip_comes_to_the_same(folders: Folders) -> None:
    demo, other = folders.wheel("demo", "1.0", "other"), folders.wheel("other", "1.0")
    for name in ("demo", "other"):
        folders.wheel(name, "2.0")
    record(folders, listed("demo", "1.0", demo), listed("other", "1.0", other))
    assert folders.resolve("demo") == [f"demo==1.0 --hash=sha256:{demo}", f"other==1.0 --hash=sha256:{other}"]


def test_what_a_provenance_adds_or_replaces_is_refused(folders: Folders) -> None:
    demo, evil = folders.wheel("demo", "1.0", "other"), folders.wheel("evil", "1.0")
    other = folders.wheel("other", "2.0")
    away = listed("other", "9", "0" * 64, origin="https://host/other-9-py3-none-any.whl")
    record(folders, listed("demo", "1.0", "1" * 64), listed("evil", "1.0", evil), away)
    with pytest.raises(SystemExit) as caught:
        folders.resolve("demo")
    assert str(caught.value.code).splitlines() == [
        f"bakery: build: the provenance names demo 1.0 (111111111111), and the package index gives demo 1.0 ({demo[:12]})",
        f"bakery: build: the provenance names evil 1.0 ({evil[:12]}), and nothing requires it",
        f"bakery: build: the provenance names other 9 (000000000000), and the package index gives other 2.0 ({other[:12]})",
    ]
    assert not folders.resolved.exists()
    record(folders, listed("demo", "1.0", demo))
    with pytest.raises(SystemExit, match=r"other 2\.0 .* is required, and the provenance does not name it"):
        folders.resolve("demo")
    assert refusals(str(caught.value.code).splitlines()) == [
        line.removeprefix("bakery: ") for line in str(caught.value.code).splitlines()
    ]


def test_another_file_than_the_locked_one_is_not_installed(
    folders: Folders, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """pip's own check: the file in the index is not the one that the lock names."""
    folders.wheel("demo", "1.0")
    folders.resolved.mkdir()
    (folders.resolved / "build.txt").write_text(f"demo==1.0 --hash=sha256:{'0' * 64}\n")
    target = [f"--target={tmp_path / 'out'}", "--no-index", "--find-links", str(folders.links)]
    with pytest.raises(SystemExit):
        install.install("build", "", target)
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


def test_exactly_what_was_resolved_is_installed(folders: Folders, tmp_path: Path) -> None:
    folders.wheel("demo", "1.0", "other")
    folders.wheel("other", "1.0")
    folders.resolve("demo")
    folders.wheel("other", "2.0")
    out = tmp_path / "out"
    install.install("build", "", [f"--target={out}", "--no-index", "--find-links", str(folders.links), "--quiet"])
    assert sorted(path.name for path in out.glob("*.dist-info")) == ["demo-1.0.dist-info", "other-1.0.dist-info"]


def test_requirements_that_nothing_satisfies(folders: Folders) -> None:
    with pytest.raises(SystemExit) as caught:
        folders.resolve("demo")
    assert caught.value.code == 1
    assert not folders.resolved.exists()


def test_no_requirements_ask_no_index(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "ask", lambda *_: pytest.fail("asked"))
    monkeypatch.setattr(sys, "argv", ["packages", "resolve", "test", "--"])
    packages.main()
    assert json.loads((folders.resolved / "test.json").read_text()) == {"requirements": [], "packages": []}
