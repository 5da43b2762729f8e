"""What is sent of a project, and what is no input although it lies in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import plans
import pytest

from bakery.core.dockerignore import Ignore, escaped
from bakery.core.source_manifest import SourceManifest, Sources, tree_hash
from bakery.plan.model import Plan
from bakery.resolve.source_context import IGNORED
from bakery.runs.source_files import source_of


def read(folder: Path, *ignore: str) -> SourceManifest:
    return SourceManifest.read(folder, ["."], (*IGNORED, *ignore))


def put(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if name.endswith("/") else path.write_text(name)


def planned(folder: Path, text: str = "") -> Plan:
    folder.mkdir(exist_ok=True)
    return plans.written(folder, f'name = "demo"\n{text}')


FOLDERS: dict[str, Callable[[Path], object]] = {
    "a new one": lambda root: (root / "feature").mkdir(),
    "one below another": lambda root: (root / "src" / "a" / "b").mkdir(parents=True),
    "another name": lambda root: (root / "empty").rename(root / "other"),
    "none": lambda root: (root / "empty").rmdir(),
    "another mode": lambda root: (root / "empty").chmod(0o500),
    "a link in its place": lambda root: ((root / "empty").rmdir(), (root / "empty").symlink_to("src")),
}


@pytest.mark.parametrize("change", FOLDERS)
def test_empty_folders_are_part_of_the_source(tmp_path: Path, change: str) -> None:
    put(tmp_path, "src/a.c", "empty/")
    before = read(tmp_path)
    assert "empty/" in before.files
    FOLDERS[change](tmp_path)
    now = read(tmp_path)
    assert now.digest != before.digest
    assert before.changed()
    # The hash of files has no modes.
    assert (tree_hash(now.files) != tree_hash(before.files)) == (change != "another mode")


def test_a_folder_with_nothing_but_results_is_not_sent(tmp_path: Path) -> None:
    put(tmp_path, "src/a.c")
    before = read(tmp_path)
    put(
        tmp_path,
        "build/lib.linux/x.o",
        "src/__pycache__/a.pyc",
        "src/only/deep/__pycache__/b.pyc",
        "odd [1]/CMakeFiles/",
    )
    now = read(tmp_path)
    assert now.digest == before.digest
    assert before.changed() == ()
    assert set(now.ignore) - set(before.ignore) == {"build", "src/only", r"odd \[1\]"}


def test_no_repository_in_the_source_is_sent(tmp_path: Path) -> None:
    put(tmp_path, "a.c", ".git/config", "third/b.c", "third/.git/config", "module/.git", "module/c.c")
    assert list(read(tmp_path).files) == ["a.c", "module/c.c", "third/b.c"]


OUTPUTS = ["out2", "my dist", "a*b[1]?", "#out", "!out", " x ", "ü", "back\\slash", "new\nline", "deep/er/out", "."]


@pytest.mark.parametrize("name", [*OUTPUTS, os.fsdecode(b"\xff")])
@pytest.mark.parametrize("way", ["option", "recipe", "absolute", "link", "linked parent"])
def test_an_output_folder_is_no_input(tmp_path: Path, name: str, way: str) -> None:
    root = tmp_path / "project"
    plan = planned(root)
    put(root, "src/a.c", "src/axb1y")
    before = source_of(root, plan, root / name)
    (root / name).mkdir(parents=True, exist_ok=True)
    put(root / name, "demo-1.0-py3-none-any.whl", ".provenance/demo.json")
    output = root / name if way != "absolute" else (root / name).absolute()
    if way == "link":
        output = root / "linked"
        output.symlink_to(name)
    elif way == "linked parent":
        (root / "up").symlink_to(".")
        output = root / "up" / name
    elif way == "recipe" and name in ("out2", "my dist", "a*b[1]?", "ü", "deep/er/out"):
        plan, output = planned(root, f"[output]\ndirectory = '{name}'\n"), None
    now = source_of(root, plan, output)
    assert now.entries.keys() - {"up"} == before.entries.keys()
    # The same files are sent when another folder receives the wheels, and when the wheel is built again.
    assert not [path for path in source_of(root, plan, root / "third").entries if path.endswith(".whl")]


def test_an_output_folder_with_the_source_in_it_only_loses_its_wheels(tmp_path: Path) -> None:
    plan = planned(tmp_path, 'source = "python/pkg"\n')
    put(tmp_path, "python/pkg/a.py", "python/x.whl")
    assert "python/pkg/a.py" in source_of(tmp_path, plan, tmp_path / "python").entries
    put(tmp_path, "python/pkg/x.whl")
    assert "python/pkg/x.whl" not in source_of(tmp_path, plan, tmp_path / "python" / "pkg").entries


def test_a_secret_is_not_sent_through_a_link(tmp_path: Path) -> None:
    put(tmp_path, "real/token", "a.c")
    (tmp_path / "lnk").symlink_to("real")
    for file in ("lnk/token", str(tmp_path / "real" / "token")):
        plan = planned(tmp_path, f'[secrets.token]\nfile = "{file}"\nsteps = ["compile"]\n')
        assert "real/token" not in source_of(tmp_path, plan).entries


@pytest.mark.parametrize("name", [*OUTPUTS[:-1], os.fsdecode(b"a\xffb"), "\ttab", "é\u2028x"])
def test_a_pattern_names_its_path(name: str) -> None:
    pattern = escaped(name)
    assert "\n" not in pattern
    pattern.encode()
    assert Ignore([pattern]).ignores(name)
    assert not Ignore([pattern]).ignores(f"{name}x")


def test_a_change_and_its_undoing_are_seen(tmp_path: Path) -> None:
    put(tmp_path, "a.c", "b.c", "dist/x.whl")
    source = read(tmp_path)
    (tmp_path / "a.c").write_text("other")
    (tmp_path / "a.c").write_text("a.c")
    (tmp_path / "b.c").unlink()
    put(tmp_path, "new.c", "dist/y.whl")
    assert source.changed() == ("a.c", "b.c", "new.c")


def test_a_command_reads_what_did_not_change_once(tmp_path: Path) -> None:
    put(tmp_path, "a.c")
    sources = Sources()
    first = sources.read(tmp_path, ["."], ())
    assert sources.read(tmp_path, ["."], ()) is first
    put(tmp_path, "b.c")
    assert list(sources.read(tmp_path, ["."], ()).files) == ["a.c", "b.c"]


def test_what_git_tracks_and_a_default_pattern_ignores_is_named(tmp_path: Path) -> None:
    tracked = ["a.c", "wheels/__init__.py", "wheels/b.py", "pkg/x.abi3.so", "bakery.toml", "dist/c.py", "data/d.bin"]
    put(tmp_path, *tracked)

    def left_out(ignore: str) -> tuple[str, ...]:
        plan = planned(tmp_path, f"source.ignore = {ignore}\n")
        return source_of(tmp_path, plan).left_out(tracked, plan.source_context.default_ignore)

    assert left_out("[]") == ("wheels", "pkg/x.abi3.so", "dist")
    # What the recipe says is not told, and its exceptions bring files back.
    assert left_out('["dist", "data"]') == ("wheels", "pkg/x.abi3.so")
    assert left_out('["!wheels", "!dist", "!**/*.abi3.so"]') == ()
