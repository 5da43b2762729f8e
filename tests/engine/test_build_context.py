"""What is beside the source on this machine changes no wheel and repeats no step."""

from __future__ import annotations

import json
import os
import re
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from command import bakery, repeated, shell
from projects import SOURCE, extension

from bakery.core.dockerignore import Ignore
from bakery.core.source_manifest import SourceManifest

pytestmark = pytest.mark.engine

EXTENSION = "_core.cpython-311-x86_64-linux-gnu.so"


def test_what_was_built_on_this_machine_is_not_shipped(tmp_path: Path) -> None:
    folder = extension(tmp_path / "project", 'name = "tiny"\n[test]\nimports = ["tiny"]\n', SOURCE)
    left = [
        folder / "build" / "lib.linux-x86_64-cpython-311" / "tiny" / EXTENSION,
        folder / "build" / "lib.linux-x86_64-cpython-311" / "tiny" / "stale.py",
        folder / "build" / "lib" / "tiny" / "stale.py",
        folder / "build" / "temp.linux-x86_64-cpython-311" / "src" / "core.o",
        folder / "src" / "tiny" / EXTENSION,
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("garbage")
        # Newer than the source: a build would take it for up to date.
        os.utime(path, (2e9, 2e9))
    (wheel,) = bakery(folder, "full").wheels
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if re.match(r"tiny/.", name)]
    assert names == ["tiny/__init__.py", f"tiny/{EXTENSION}"]


def test_a_changed_file_of_the_same_size_and_time_is_built(tmp_path: Path) -> None:
    """As files unpacked from archives often have. BuildKit takes it for the file of the last context of the same name."""
    folder = extension(tmp_path / "project", 'name = "tiny"\n', SOURCE)
    unique = uuid.uuid4()

    def built(mark: str) -> bool:
        source = folder / "src" / "core.cpp"
        source.write_text(f'{SOURCE}extern "C" const char mark[] = "{mark}{unique}";\n')
        os.utime(source, (1.6e9, 1.6e9))
        (wheel,) = bakery(folder, "wheel").wheels
        with zipfile.ZipFile(wheel) as archive:
            return f"{mark}{unique}".encode() in archive.read(f"tiny/{EXTENSION}")

    assert built("a")
    # Nothing runs now, so BuildKit can add to this context what the next one has.
    assert built("a")
    assert built("b")


@pytest.mark.proof
@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        pytest.param("", (), id="dist", marks=pytest.mark.proof),
        pytest.param('[output]\ndirectory = "artifacts"\n', (), id="of-the-recipe", marks=pytest.mark.proof),
        pytest.param("", ("--output", "some/where"), id="of-the-command-line", marks=pytest.mark.proof),
        pytest.param("", ("--output", "."), id="the-project-itself"),
    ],
)
def test_wheels_inside_the_project_repeat_nothing(tmp_path: Path, recipe: str, words: tuple[str, ...]) -> None:
    def baked_beside_its_wheels() -> list[str]:
        token = uuid.uuid4().hex
        folder = extension(tmp_path / token, f'name = "tiny"\n{recipe}', f"{SOURCE}// {token}\n")
        (folder / "some").mkdir()
        first = bakery(folder, "wheel", *words)
        # Neither do caches of tools, nor a recipe that says the same in other words.
        (folder / ".pytest_cache").mkdir()
        (folder / "src" / "tiny" / "__pycache__").mkdir()
        with (folder / "bakery.toml").open("a") as file:
            file.write("# more\n")
        second = bakery(folder, "wheel", *words)
        assert second.wheels == first.wheels
        return second.ran()

    assert repeated(baked_beside_its_wheels) == set()


@pytest.mark.proof
def test_generated_files_repeat_nothing_and_changed_source_is_compiled_again(tmp_path: Path) -> None:
    folder = extension(tmp_path / "project", 'name = "tiny"\n', SOURCE)
    recipe = (folder / "bakery.toml").read_text()
    bakery(folder, "generate")
    first = bakery(folder, "wheel").wheels[0].read_bytes()

    def baked_with_other_files() -> list[str]:
        line = f'description = "line {uuid.uuid4().hex} in each generated file"\n'
        (folder / "bakery.toml").write_text(recipe + line)
        bakery(folder, "generate")
        return bakery(folder, "wheel").ran()

    assert repeated(baked_with_other_files) == set()
    (folder / "src" / "core.cpp").write_text(SOURCE.replace("42", "43"))
    assert bakery(folder, "wheel").wheels[0].read_bytes() != first
    (folder / "src" / "core.cpp").write_text(SOURCE)
    assert bakery(folder, "wheel").wheels[0].read_bytes() == first


FILES = (
    *("a", "b", "xy", "xay", "x/a/y", "x/y", "docs/a", "docs/b/c", "docs/b/d.md", "README.md", "foo"),
    *(
        "dir/foo", "dir/bar/foo.txt", "dir/.env", ".env", "a*b", "a[1]", "[z]", "c^d", "e.f", "exf", "back\\slash",
        "# c",
    ),
    *(
        "data/large.bin", "data/small.bin", "data/sub/large.bin", "deep/1/2/3/4/file", "sp ace", "é/ü.py", "q?z",
        "new\nline",
    ),
    *("build/lib.linux/x.so", "pkg/build/lib.linux/x.so", "pkg/__pycache__/m.pyc", "m.pyc", "!x", "$d", "{b}", "(p)"),
)  # fmt: skip
FOLDERS = ("empty", "docs/none", "deep/1/2/no/thing", "x/e", "build/temp", "sp aces/ in ")
IGNORES = (
    *(
        "*", "**", "a", "x**y", "x**", "**x", "**/x", "**y", "./foo", "foo//bar", "a/../b", "# c", "\\# c", "#c",
        "/docs",
    ),
    *("docs/", "docs/*", "docs/**", "docs/**/c", "*/b", "*/*/foo*", "**/foo", "**/foo*", "**foo", "**/*.md", "*.md"),
    *("?", "??", "x?y", "[ab]", "[^ab]", "[a-c]", "a\\*b", "a*b", "a\\[1\\]", "[[]z]", "\\[z\\]", "c^d", "c^d*", "e.f"),
    *("e?f", "back\\\\slash", "data/*.bin", "data/**/*.bin", "deep/**/file", "deep/*/file", "deep/*/*/*/*/file"),
    *("deep/**/3/**", "**/3", "**/3/**", "sp ace", " sp ace ", "é", "é/?.py", "**/ü*", "q\\?z", "new*", "new*line"),
    *(
        "**/build/lib.*", "build/lib.*", "**/*.py[co]", "**/__pycache__", "\\!x", "$d", "{b}", "(p)", "*b*", "*a*y",
        "**a**",
    ),
    *(
        "x/**/y", "x/**y", "**/**", "**/**/foo", "d*/b*/f*t", "*.*.*", "[!ab]", "x[a-z]y", "x\\ay", "***", "a***",
        "./**/.env",
    ),
    *("*\n!docs", "*\n!docs/b", "*\n!**/c", "docs\n!docs/a", "docs\n!docs/b\ndocs/b/c", "**\n!**/*.md", "!docs\ndocs"),
    *(
        "docs/a\n!docs", "!docs\ndocs/a\n!docs", "*\n!*.md\n*.md", "docs/b\n!docs\n!docs/b/c", "*\n!x**y",
        "**\n!foo\nfoo",
    ),
    *(
        "data/*\n!data/small.bin", "data/\n!data/s*", "*\n!deep/1/2\ndeep/1/2/3", "**/*\n!**/foo",
        "dir\n!dir/bar\n!**/.env",
    ),
)  # fmt: skip


@pytest.mark.proof
def test_ignore_patterns_mean_what_they_mean_to_buildkit(tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    """Thousands of pairs of patterns and paths: what BuildKit is sent, and what bakery takes for sent."""
    context = tmp_path / "context"
    for name in FILES:
        path = context / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    for name in FOLDERS:
        (context / name).mkdir(parents=True)
    every = {path.relative_to(context).as_posix() for path in context.rglob("*") if path.is_file()}
    targets, manifests = {}, {}
    for number, lines in enumerate(IGNORES):
        manifests[lines] = SourceManifest.read(context, ["."], lines.splitlines())
        dockerfile = tmp_path / f"{number}.Dockerfile"
        dockerfile.write_text("FROM scratch\nCOPY . /\n")
        Path(f"{dockerfile}.dockerignore").write_text("\n".join(manifests[lines].ignore) + "\n", encoding="utf-8")
        output = f"type=local,dest={tmp_path / 'out' / str(number)}"
        targets[f"t{number}"] = {"context": str(context), "dockerfile": str(dockerfile), "output": [output]}
    bakefile = tmp_path / "bake.json"
    bakefile.write_text(json.dumps({"target": targets}))
    words = ("docker", "buildx", "bake", "--progress=plain", f"--allow=fs={tmp_path}", "-f", str(bakefile))
    # BuildKit gives a client five seconds to answer each of its targets, which a hundred at once miss on a busy machine.
    names = list(targets)
    for start in range(0, len(names), 20):
        shell(dict(engine_environment), *words, *names[start : start + 20], cwd=tmp_path)
    wrong = {}
    for number, lines in enumerate(IGNORES):
        out = tmp_path / "out" / str(number)
        sent = {path.relative_to(out).as_posix() for path in out.rglob("*")}
        taken = set(manifests[lines].entries)
        if sent != taken:
            wrong[lines] = {"sent": sorted(sent - taken), "not sent": sorted(taken - sent)}
        ignore = Ignore(lines.splitlines())
        assert every & taken == {name for name in every if not ignore.ignores(name)}, lines
    assert wrong == {}
    assert len(IGNORES) * len(every) > 3_000
