"""What fails, fails with its own exit code and a reason, and nothing of it reaches dist/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import bakery, digests, states
from projects import SOURCE, extension, pure
from runs import runs_of

pytestmark = pytest.mark.engine

Dist = Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a project folder whose dist/ holds a file already."""
    (tmp_path / "project" / "dist").mkdir(parents=True)
    (tmp_path / "project" / "dist" / "earlier-1.0-py3-none-any.whl").write_bytes(b"earlier")
    return tmp_path / "project"


def test_compile_error_is_told_with_step_log_and_hint(folder: Path) -> None:
    extension(folder, 'name = "tiny"\n', SOURCE.replace("#include <Python.h>", "#include <not_there.h>"))
    before = states(folder / "dist")
    done = bakery(folder, "wheel", code=7)
    assert states(folder / "dist") == before
    told = done.err[done.err.index("bake: ") :]
    assert "bake: compile failed: exit code: 1\n" in told
    assert "RUN" not in told
    assert "fatal error: not_there.h: No such file or directory" in told
    assert "→ " in told
    (log,) = {Path(found) for found in re.findall(rf"{re.escape(str(runs_of(folder)))}/\S+\.log", told)}
    assert "fatal error: not_there.h" in log.read_text()
    assert done.results()["wheel-cp311"]["result"] == "failed"
    assert done.wheels == []
    assert not list(done.runs[-1].glob("stage"))


def test_wheel_whose_test_fails_is_kept_out(folder: Path) -> None:
    recipe = (
        'name = "tiny"\n[test]\nimports = ["tiny"]\ncommand = "python -c \'import tiny; assert tiny.answer() == 43\'"\n'
    )
    extension(folder, recipe, SOURCE)
    before = states(folder / "dist")
    done = bakery(folder, "full", code=7)
    assert states(folder / "dist") == before
    assert "AssertionError" in done.log("test-cp311")
    assert done.results()["test-cp311"]["result"] == "failed"
    assert bakery(folder, "wheel").wheels, "the wheel alone is fine"


@pytest.mark.proof
def test_module_that_does_not_load_fails_the_test_target(folder: Path) -> None:
    source = SOURCE.replace("return PyLong", "extern int nowhere(); return PyLong").replace("(42)", "(nowhere())")
    extension(folder, 'name = "tiny"\n', source)
    done = bakery(folder, "full", code=7)
    assert "undefined symbol" in done.err
    assert list(digests(folder / "dist")) == ["earlier-1.0-py3-none-any.whl"]


def test_tag_of_another_python_is_caught(folder: Path) -> None:
    pure(folder, 'name = "demo"\n[wheel]\nrepair = false\n', tag="cp310")
    before = states(folder / "dist")
    done = bakery(folder, "wheel", code=8)
    assert states(folder / "dist") == before
    assert "cp310-none-any" in done.err
    assert "3.11" in done.err[done.err.index("audit: ") :]


@pytest.mark.proof
def test_library_that_must_stay_outside_is_caught(folder: Path) -> None:
    setup = "import glob, shutil\nshutil.copy(glob.glob('/usr/lib/*/libz.so.1')[0], 'src/tiny/libz.so.1')\n"
    recipe = 'name = "tiny"\n[wheel.repair]\nexclude = ["libz.so.*"]\n'
    extension(folder, recipe, SOURCE, setup=setup)
    before = states(folder / "dist")
    done = bakery(folder, "wheel", code=8)
    assert states(folder / "dist") == before
    assert "libz.so.1" in done.err[done.err.index("audit: ") :]


@pytest.mark.proof
def test_arm64_cell_on_an_amd64_only_base_is_caught(folder: Path, manylinux_image: str) -> None:
    recipe = f'name = "tiny"\nplatforms = ["linux/amd64"]\n[builder]\nbase = {{ image = "{manylinux_image}" }}\n'
    extension(folder, recipe, SOURCE)
    before = states(folder / "dist")
    done = bakery(folder, "wheel", "--set", "*.platform=linux/arm64", code=8)
    assert states(folder / "dist") == before
    told = done.err[done.err.index("audit: ") :]
    assert "x86_64" in told
    assert "aarch64" in told


def test_platform_tag_that_cannot_be_kept_is_told(folder: Path) -> None:
    source = "#include <pthread.h>\n" + SOURCE.replace(
        "return PyLong", "pthread_join(pthread_self(), 0); return PyLong"
    )
    extension(folder, 'name = "tiny"\n[wheel.repair]\nplat = "manylinux_2_17"\n', source)
    before = states(folder / "dist")
    done = bakery(folder, "wheel", code=7)
    assert states(folder / "dist") == before
    assert "too-recent versioned symbols" in done.err
    assert "→ the wheel needs a newer glibc than its platform tag allows" in done.err
