"""link_cache.py: links with link-time optimization run once for the same inputs. The compiler is the machine's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bakery.toolchains.programs import link_cache

PROGRAM = Path(link_cache.__file__)
COMPILER = shutil.which("g++") or ""
OPTIONS = ("-shared", "-flto=auto", "-O2")

pytestmark = pytest.mark.skipif(not COMPILER, reason="no g++")


class Project:
    """A folder with objects, and a cache beside it."""

    def __init__(self, root: Path, folder: str = "project") -> None:
        self.cache, self.folder, self.log = root / "cache", root / folder, root / "links"
        (self.folder / "libraries").mkdir(parents=True)
        self.compile("part", "int part(int x) { return x + 1; }")
        self.compile("main", 'int part(int); extern "C" int answer() { return part(41); }')

    def compile(self, name: str, text: str) -> None:
        """Write an object for link-time optimization."""
        words = [COMPILER, "-x", "c++", "-fPIC", "-O2", "-flto", "-c", "-o", f"{name}.o", "-"]
        subprocess.run(words, cwd=self.folder, input=text, text=True, check=True)

    def archive(self, name: str, member: str) -> None:
        """Write an archive with one object."""
        (self.folder / name).unlink(missing_ok=True)
        subprocess.run(["gcc-ar", "rc", name, member], cwd=self.folder, check=True)

    def link(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Link behind the program."""
        code = (
            f"import sys, os; sys.path.insert(0, {str(PROGRAM.parent)!r}); import link_cache\n"
            f"link_cache.SLOT = {str(self.log.parent / 'slot')!r}\n"
            f"sys.exit(link_cache.main({[COMPILER, *OPTIONS, '-o', 'x.so', *words]!r}, {str(self.cache)!r}))"
        )
        slot = self.log.parent / "slot"
        slot.write_text(f'#!/bin/sh\necho "$BAKERY_LINK" >>{self.log}\nexec "$@"\n')
        slot.chmod(0o755)
        (self.folder / "x.so").unlink(missing_ok=True)
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", code], cwd=self.folder, capture_output=True, text=True, check=False
        )

    def links(self) -> int:
        """Return how many links ran."""
        return len(self.log.read_text().splitlines())

    def results(self) -> list[Path]:
        """Return the results in the cache."""
        return sorted(path for path in self.cache.rglob("*") if path.is_file())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project of two objects."""
    return Project(tmp_path)


def test_the_same_link_runs_once(project: Project) -> None:
    first = project.link("main.o", "part.o")
    assert (first.returncode, first.stderr) == (0, "")
    made = (project.folder / "x.so").read_bytes()
    assert project.link("main.o", "part.o").returncode == 0
    assert project.links() == 1
    assert (project.folder / "x.so").read_bytes() == made
    assert os.access(project.folder / "x.so", os.X_OK)
    direct = [COMPILER, *OPTIONS, "-o", "y.so", "main.o", "part.o"]
    subprocess.run(direct, cwd=project.folder, check=True)
    assert (project.folder / "y.so").read_bytes() == made


def test_the_random_name_of_a_folder_does_not_count(tmp_path: Path) -> None:
    # Two compilations for LTO give two objects, unless they have the same -frandom-seed.
    objects = Project(tmp_path).folder
    for _ in range(2):
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            project = Project(tmp_path, folder)
            for name in ("main.o", "part.o"):
                shutil.copy(objects / name, folder)
            words = [f"{folder}/main.o", f"{folder}/part.o", f"-L{folder}/libraries"]
            assert project.link(*words).returncode == 0
    assert project.links() == 1


def object_changes(project: Project) -> None:
    project.compile("part", "int part(int x) { return x + 2; }")


def archive_changes(project: Project) -> None:
    project.compile("other", "int other() { return 3; }")
    project.archive("libraries/libused.a", "other.o")


def archive_is_found_earlier(project: Project) -> None:
    (project.folder / "first").mkdir()
    project.archive("first/libused.a", "part.o")


def archive_of_script_changes(project: Project) -> None:
    project.compile("more", "int more() { return 4; }")
    project.archive("libraries/libreal.a", "more.o")


def version_script_changes(project: Project) -> None:
    (project.folder / "exports.map").write_text("{ global: answer; part; local: *; };")


CHANGES: tuple[Callable[[Project], None], ...] = (
    object_changes, archive_changes, archive_is_found_earlier, archive_of_script_changes, version_script_changes,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_input_links_again(project: Project, change: Callable[[Project], None]) -> None:
    project.archive("libraries/libused.a", "part.o")
    project.archive("libraries/libreal.a", "part.o")
    (project.folder / "libraries/libscript.so").write_text("/* GNU ld script */ INPUT ( AS_NEEDED ( libreal.a ) )")
    (project.folder / "exports.map").write_text("{ global: answer; local: *; };")
    words = ("main.o", "part.o", "-Lfirst", "-Llibraries", "-lused", "-lscript", "-Wl,--version-script,exports.map")
    for _ in range(2):
        result = project.link(*words)
        assert result.returncode == 0, result.stderr
    assert project.links() == 1
    change(project)
    for _ in range(2):
        assert project.link(*words).returncode == 0
    assert project.links() == 2


@pytest.mark.parametrize("option", ["-O3", "-Wl,-soname,x.so", "-Wl,-rpath,/opt/x"])
def test_another_option_links_again(project: Project, option: str) -> None:
    project.link("main.o", "part.o")
    assert project.link("main.o", "part.o", option).returncode == 0
    assert project.links() == 2
    assert len(project.results()) == 2


def test_messages_are_said_again(project: Project) -> None:
    project.compile("main", "extern float shared; float get() { return shared; }")
    project.compile("part", "int shared = 1;")
    said = [project.link("main.o", "part.o").stderr for _ in range(2)]
    assert "shared" in said[0]
    assert said[0] == said[1]
    assert project.links() == 1


@pytest.mark.parametrize("option", ["-Wl,-Map=x.map", "-save-temps", "-Wl,-M", "-fno-lto", "-march=native", "@words"])
def test_what_is_not_understood_just_runs(project: Project, option: str) -> None:
    (project.folder / "words").write_text("-O1")
    for _ in range(2):
        assert project.link("main.o", "part.o", option).returncode == 0
        assert (project.folder / "x.so").is_file()
    assert project.links() == 2
    assert not project.results()


def test_a_failed_link_is_not_kept(project: Project) -> None:
    (project.folder / "broken.o").write_bytes(b"\x7fELF broken")
    for _ in range(2):
        result = project.link("main.o", "broken.o")
        assert result.returncode == 1
        assert "broken.o" in result.stderr
    assert project.links() == 2
    assert not project.results()


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_result_is_made_again(project: Project, damage: bytes | None) -> None:
    project.link("main.o", "part.o")
    made = (project.folder / "x.so").read_bytes()
    (result,) = project.results()
    whole = result.read_bytes()
    result.write_bytes(whole[:-20] if damage is None else damage)
    assert project.link("main.o", "part.o").returncode == 0
    assert project.links() == 2
    assert (project.folder / "x.so").read_bytes() == made
    assert result.read_bytes() == whole


def test_the_list_that_cmake_asks_for_is_written_too(project: Project) -> None:
    for _ in range(2):
        (project.folder / "x.d").unlink(missing_ok=True)
        result = project.link("main.o", "part.o", "-Wl,--dependency-file,x.d")
        if "unrecognized option" in result.stderr:
            pytest.skip("the linker writes no such list")
        assert "main.o" in (project.folder / "x.d").read_text()
    assert project.links() == 1


def test_results_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [b"", os.urandom(4000)]
    monkeypatch.setattr(link_cache, "LIMIT", 10_000)
    for number, name in enumerate(("aa1", "bb2", "cc3", "dd4")):
        link_cache.store(str(tmp_path), name, parts)
        os.utime(link_cache.path_of(str(tmp_path), name), (number + 1, number + 1))
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["3", "4"]


def test_without_room_the_link_is_done(project: Project) -> None:
    project.cache.write_text("not a folder")
    assert project.link("main.o", "part.o").returncode == 0
    assert (project.folder / "x.so").is_file()


def test_old_results_are_not_carried(tmp_path: Path) -> None:
    cache, output = tmp_path / "cache", tmp_path / "output"
    for name, days in (("old", 15), ("used", 13)):
        path = cache / "l" / "ab" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"result")
        os.utime(path, (time.time() - days * 86400,) * 2)
    subprocess.run(["sh", PROGRAM.parent / "carry-ccache", cache, tmp_path / "packed", output], check=True)
    with tarfile.open(output / "ccache.tar") as archive:
        assert [name for name in archive.getnames() if name.startswith("./l/ab/")] == ["./l/ab/used"]


@pytest.mark.parametrize(
    "word",
    [
        *(
            "-Wl,-Tx.ld", "-Wl,-T,x.ld", "-Wl,-Rx", "-Wl,@x", "-Wl,--just-symbols=x", "-Wl,-b,binary,x",
            "-Wl,--dynamic-list=x",
        ),
        *(
            "-Wl,--retain-symbols-file=x", "-Wl,-Map=x", "-Wl,--section-ordering-file=x",
            "-Wl,--plugin-opt=save-temps", "-Bx",
        ),
        *(
            "-Wl,--symbol-ordering-file,x", "-specs=x", "-fprofile-use", "-march=native", "-Xlinker", "-T", "@x",
        ),
        *("-Wl,--defsym=a=1,-Tx", "-fplugin=x", "-Wl,--wrap=x", "-Wl,--format=binary", "-fsanitize-ignorelist=x"),
    ],
)  # fmt: skip
def test_an_option_that_is_not_known_just_links(word: str) -> None:
    words = [COMPILER, *OPTIONS, "-o", "x.so", "main.o", word]
    with pytest.raises((link_cache.NotUnderstoodError, OSError)):
        link_cache.key(words)


def test_a_version_script_is_no_script_that_links(project: Project) -> None:
    script = project.folder / "x.map"
    for number, names in enumerate(("answer;", 'extern "C++" { "ns::f(int)"; }; answer;', "*;"), 1):
        script.write_text(f"{{ global: {names} local: part; }};\n")
        for separator in "=,":
            done = project.link("main.o", "part.o", f"-Wl,--version-script{separator}x.map")
            assert (done.returncode, done.stderr) == (0, "")
        assert len(project.results()) == 2 * number


def test_after_a_compilation_that_is_not_understood_all_links_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = project.folder / "refused"
    monkeypatch.setattr(link_cache, "REFUSED", str(refused))
    monkeypatch.chdir(project.folder)
    words = [COMPILER, *OPTIONS, "-o", "x.so", "main.o", "part.o"]
    assert link_cache.key(words)
    refused.touch()
    with pytest.raises(link_cache.NotUnderstoodError):
        link_cache.key(words)
