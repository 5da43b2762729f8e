"""The program ``packages ask``: real backends, in-tree and legacy, asked what they require (PEP 517)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from bakery.toolchains import programs

_IN_TREE = '[build-system]\nrequires = []\nbuild-backend = "own:Backend.hooks"\nbackend-path = ["tools"]\n'


def _ask(source: Path, *settings: str) -> tuple[int, str, str]:
    """Return exit code, answer and messages."""
    file = source / "answer.txt"
    program = Path(programs.__file__).parent / "packages"
    words = [sys.executable, "-I", "-S", str(program), "ask", str(source), sys.prefix, str(file), *settings]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, file.read_text() if file.is_file() else "", done.stderr


def _in_tree(source: Path, body: str) -> Path:
    (source / "tools").mkdir(parents=True)
    (source / "pyproject.toml").write_text(_IN_TREE)
    hook = f"        def get_requires_for_build_wheel(settings=None):\n            {body}\n"
    (source / "tools" / "own.py").write_text(f"import os\nclass Backend:\n    class hooks:\n{hook}")
    return source


def test_an_in_tree_backend_gets_settings_and_the_folder_of_the_source(tmp_path: Path) -> None:
    body = "return ['b; python_version > \"3\"', 'a>=1', 'old; python_version < \"3\"', settings['k'] + 'x' * len(settings['l']), os.path.basename(os.getcwd())]"
    source = _in_tree(tmp_path / "here", body)
    code, answer, messages = _ask(source, "k=v", "l=1", "l=2")
    assert (code, answer) == (0, 'a>=1\nb; python_version > "3"\nhere\nvxx\n'), messages


def test_what_is_installed_in_a_version_that_fits_is_left_out(tmp_path: Path) -> None:
    source = _in_tree(
        tmp_path / "here", "return ['pydantic', 'pydantic>=1', 'pydantic<1', 'cmake @ https://x.invalid/c.whl']"
    )
    assert _ask(source)[:2] == (0, "cmake @ https://x.invalid/c.whl\npydantic<1\n")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('no compiler')", "bakery: ValueError: no compiler ("),
        ("return ['no requirement']", "bakery: the build backend own:Backend.hooks requires 'no requirement'"),
    ],
)
def test_a_backend_that_fails_is_told_without_a_traceback(tmp_path: Path, body: str, message: str) -> None:
    code, answer, messages = _ask(_in_tree(tmp_path / "here", body))
    assert code == 1
    assert answer == ""
    assert message in messages
    assert "Traceback" not in messages


@pytest.mark.parametrize(
    ("path", "message"), [("../tools", "leads out of the source"), ("other", "is not in backend-path")]
)
def test_a_backend_elsewhere_is_refused(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "here" / "other").mkdir(parents=True)
    name = "json"
    text = f'[build-system]\nrequires = []\nbuild-backend = "{name}"\nbackend-path = ["{path}"]\n'
    (tmp_path / "here" / "pyproject.toml").write_text(text)
    code, _, messages = _ask(tmp_path / "here")
    assert code == 1
    assert message in messages


def test_without_pyproject_toml_setuptools_asks_setup_py(tmp_path: Path) -> None:
    # Importing it here fails where distutils was imported before.
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("there is no setuptools")
    source = tmp_path / "here"
    source.mkdir()
    (source / "setup.py").write_text("import setuptools, sibling\nsetuptools.setup(setup_requires=['needed-thing'])\n")
    (source / "sibling.py").write_text("")
    code, answer, messages = _ask(source)
    assert code == 0, messages
    assert "needed-thing" in answer
