"""What is beside the source on this machine changes no wheel and repeats no step."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

import pytest
from command import bakery
from projects import SOURCE, extension

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


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        pytest.param("", (), id="dist"),
        pytest.param('[output]\ndirectory = "artifacts"\n', (), id="of-the-recipe"),
        pytest.param("", ("--output", "some/where"), id="of-the-command-line"),
        pytest.param("", ("--output", "."), id="the-project-itself"),
    ],
)
def test_wheels_inside_the_project_repeat_nothing(tmp_path: Path, recipe: str, words: tuple[str, ...]) -> None:
    folder = extension(tmp_path / "project", f'name = "tiny"\n{recipe}', SOURCE)
    (folder / "some").mkdir()
    first = bakery(folder, "wheel", *words)
    # Neither do caches of tools, nor a recipe that says the same in other words.
    (folder / ".pytest_cache").mkdir()
    (folder / "src" / "tiny" / "__pycache__").mkdir()
    with (folder / "bakery.toml").open("a") as file:
        file.write("# more\n")
    second = bakery(folder, "wheel", *words)
    assert second.ran() == []
    assert second.wheels == first.wheels


def test_generated_files_repeat_nothing(tmp_path: Path) -> None:
    folder = extension(tmp_path / "project", 'name = "tiny"\n', SOURCE)
    bakery(folder, "generate")
    bakery(folder, "wheel")
    recipe = (folder / "bakery.toml").read_text()
    (folder / "bakery.toml").write_text(f'{recipe}description = "another line in each generated file"\n')
    bakery(folder, "generate")
    assert bakery(folder, "wheel").ran() == []


def test_changed_source_is_compiled_again(tmp_path: Path) -> None:
    folder = extension(tmp_path / "project", 'name = "tiny"\n', SOURCE)
    first = bakery(folder, "wheel").wheels[0].read_bytes()
    (folder / "src" / "core.cpp").write_text(SOURCE.replace("42", "43"))
    assert bakery(folder, "wheel").wheels[0].read_bytes() != first
    (folder / "src" / "core.cpp").write_text(SOURCE)
    assert bakery(folder, "wheel").wheels[0].read_bytes() == first
