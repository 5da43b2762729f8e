"""``wheel-bakery init``: what it writes, what it refuses to overwrite, and when it asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from file_trees import write_files
from init_projects import PROJECTS, SCIKIT_BUILD_CORE, TORCH

from bakery.cli import init as command
from bakery.cli.app import app
from bakery.core.errors import BakeryError, OutputError, PlanError, RecipeError, UsageError
from bakery.recipe.load import load

Run = Callable[..., str]


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the image registry answers: on this machine, it may not."""
    answer = [True]
    monkeypatch.setattr("bakery.core.connections.answers", lambda *_: answer[0])
    monkeypatch.setattr("bakery.engine.debian_packages.can_make_bases", lambda: True)
    return answer


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `wheel-bakery init`; return its output."""

    def call(*arguments: str | Path) -> str:
        app(["init", *map(str, arguments)], standalone_mode=False)
        captured = capsys.readouterr()
        return captured.out + captured.err

    return call


def content(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}


def test_it_writes_a_recipe_and_names_the_next_command(tmp_path: Path, run: Run) -> None:
    root = write_files(tmp_path, SCIKIT_BUILD_CORE)
    text = run(root)
    assert (root / "bakery.toml").read_text().startswith("# Written by `wheel-bakery init`: C++ with pybind11")
    assert "fast-parts: ok, 3 cells" in text
    # Notes are on stderr.
    assert [line for line in text.splitlines() if not line.startswith("note: ")][
        -1
    ] == f"next: wheel-bakery -C {root} wheel"
    assert load(None, root)[0].recipe.name == "fast-parts"


def test_a_recipe_that_a_rule_refuses_is_shown_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pyproject = '[build-system]\nrequires = ["setuptools", "torch>=2.90"]\n'
    root = write_files(tmp_path, {**TORCH, "pyproject.toml": pyproject})
    with pytest.raises(PlanError) as raised:
        app(["init", str(root)], standalone_mode=False)
    assert raised.value.details[0].startswith(
        "framework-pins: pyproject.toml:2 requires torch>=2.90, and the cell has 2.14.1"
    )
    assert 'torch = ["2.14.1"]' in capsys.readouterr().out
    assert not (root / "bakery.toml").exists()


@pytest.mark.parametrize("answers", [True, False])
def test_the_base_is_one_that_this_machine_can_have(
    tmp_path: Path, run: Run, registry: list[bool], answers: bool
) -> None:
    registry[0] = answers
    text = run(write_files(tmp_path, SCIKIT_BUILD_CORE))
    recipe = (tmp_path / "bakery.toml").read_text()
    assert ('base = "debian"' in recipe) is not answers
    assert ("does not answer, so the base is debian" in text) is not answers


def test_a_package_that_needs_the_folder_above_it_is_a_subdirectory(tmp_path: Path, run: Run) -> None:
    files = {
        "compiler/setup.py": "from setuptools import Extension, setup\n"
        'setup(name="x", ext_modules=[Extension("x", ["x.c"], include_dirs=["../include"])])\n',
        "compiler/x.c": "int x;\n",
        "compiler/tests/test_x.py": "import pytest\n",
        "include/x.h": "",
    }
    write_files(tmp_path, files)
    run(tmp_path)
    loaded = load(None, tmp_path)[0].recipe
    assert (loaded.source.path, loaded.source.subdirectory) == (".", "compiler")
    assert loaded.test.files == ("compiler/tests",)
    assert "# compiler/setup.py:2 needs include" in (tmp_path / "bakery.toml").read_text()


def test_it_works_in_the_current_folder(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_files(tmp_path, SCIKIT_BUILD_CORE))
    assert "next: wheel-bakery wheel" in run().splitlines()


def test_print_writes_nothing(tmp_path: Path, run: Run) -> None:
    root = write_files(tmp_path, SCIKIT_BUILD_CORE)
    before = content(root)
    assert 'name = "fast-parts"' in run(root, "--print")
    assert content(root) == before


@pytest.mark.parametrize("name", ["legacy", "torch"])
def test_no_code_of_the_project_runs(name: str, tmp_path: Path, run: Run) -> None:
    root = write_files(tmp_path, PROJECTS[name])
    run(root)
    assert not (root / "RAN").exists()


@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_pyproject_gets_a_table_at_its_end(tmp_path: Path, run: Run, ending: str) -> None:
    root = write_files(tmp_path, SCIKIT_BUILD_CORE)
    file = root / "pyproject.toml"
    text = file.read_text().rstrip("\n")
    before = (text.replace("\n", "\r\n") if ending == "\r\n" else text).encode() + ending.encode()
    file.write_bytes(before)
    file.chmod(0o640)
    run(root, "--pyproject")
    after = file.read_bytes()
    assert after.startswith(before)
    assert b"[tool.wheel-bakery.matrix]" in after
    assert (b"\r\n" in after) == (ending == "\r\n")
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in root.iterdir()) == sorted({name.split("/")[0] for name in SCIKIT_BUILD_CORE})
    assert load(None, root)[0].recipe.name == "fast-parts"


def test_pyproject_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    from bakery.init.write import Target

    file = tmp_path / "pyproject.toml"
    file.write_bytes(b"a = 2\n")
    with pytest.raises(OutputError, match="changed in the meantime"):
        Target(file, b"a = 1\n").write("[tool.wheel-bakery]\n")
    assert content(tmp_path) == {"pyproject.toml": b"a = 2\n"}


def existing_file(root: Path) -> None:
    (root / "bakery.toml").write_text("mine")


def dangling_link(root: Path) -> None:
    (root / "bakery.toml").symlink_to(root / "nowhere")


def existing_table(root: Path) -> None:
    with (root / "pyproject.toml").open("a") as file:
        file.write("\n[tool.wheel-bakery]\n")


@pytest.mark.parametrize("option", [(), ("--pyproject",)])
@pytest.mark.parametrize("prepare", [existing_file, dangling_link, existing_table])
def test_a_recipe_is_never_overwritten(
    tmp_path: Path, run: Run, prepare: Callable[[Path], None], option: tuple[str, ...]
) -> None:
    root = write_files(tmp_path, SCIKIT_BUILD_CORE)
    prepare(root)
    before = content(root)
    with pytest.raises(OutputError, match="already"):
        run(root, *option)
    assert content(root) == before
    assert not (root / "nowhere").exists()


@pytest.mark.parametrize("prepare", [existing_file, dangling_link, existing_table])
def test_a_recipe_is_printed_beside_another(tmp_path: Path, run: Run, prepare: Callable[[Path], None]) -> None:
    root = write_files(tmp_path, SCIKIT_BUILD_CORE)
    prepare(root)
    before = content(root)
    assert "[matrix]" in run(root, "--print")
    assert content(root) == before
    assert not (root / "nowhere").exists()


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    from bakery.init.write import Target

    existing_file(tmp_path)
    with pytest.raises(OutputError, match="already"):
        Target(tmp_path / "bakery.toml").write("text")
    assert (tmp_path / "bakery.toml").read_text() == "mine"


def test_pyproject_option_needs_the_file(tmp_path: Path, run: Run) -> None:
    with pytest.raises(UsageError, match=r"no pyproject\.toml"):
        run(write_files(tmp_path, TORCH), "--pyproject")


def test_a_link_is_no_pyproject(tmp_path: Path, run: Run) -> None:
    root = write_files(tmp_path, SCIKIT_BUILD_CORE)
    (root / "pyproject.toml").rename(root / "real.toml")
    (root / "pyproject.toml").symlink_to("real.toml")
    with pytest.raises(UsageError, match="no Python project") as caught:
        run(root)
    assert "1 links were skipped" in caught.value.details


@pytest.mark.parametrize("files", [{}, {"README.md": "x"}, {"pyproject.toml": "[tool.black]\n"}])
def test_no_project(tmp_path: Path, run: Run, files: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="no Python project in"):
        run(write_files(tmp_path, files))
    assert content(tmp_path).keys() == files.keys()


def test_no_folder(tmp_path: Path, run: Run) -> None:
    with pytest.raises(OutputError, match="cannot read"):
        run(tmp_path / "nowhere")


def test_pyproject_that_is_no_toml(tmp_path: Path, run: Run) -> None:
    root = write_files(tmp_path, {"pyproject.toml": "[project\n", "setup.py": ""})
    with pytest.raises(RecipeError, match=r"1 problem in pyproject\.toml"):
        run(root)


def test_no_python_of_the_base(tmp_path: Path, run: Run) -> None:
    root = write_files(tmp_path, {"pyproject.toml": '[project]\nname = "a"\nrequires-python = "==3.12.*"\n', "a.c": ""})
    with pytest.raises(PlanError) as caught:
        run(root, "--base", "debian")
    assert caught.value.details == ("pyproject.toml:3: requires-python ==3.12.*",)
    assert "--base BASE" in caught.value.hint
    assert 'python = ["3.12"]' in run(root, "--print")
    assert 'python = ["3.12"]' in run(root, "--print", "--base", "registry.example/manylinux_2_28:1")


def test_platforms_of_an_image_for_one(tmp_path: Path, run: Run) -> None:
    pyproject = '[project]\nname = "a"\nversion = "1"\n[tool.cibuildwheel]\narchs = ["x86_64", "aarch64"]\n'
    root = write_files(tmp_path, {"pyproject.toml": pyproject, "a.c": ""})
    assert 'platforms = ["linux/amd64", "linux/arm64"]' in run(root, "--print", "--base", "registry.example/builder:1")
    assert 'platforms = ["linux/arm64"]' in run(root, "--print", "--base", "registry.example/manylinux_2_28_aarch64:1")


def test_a_refused_base_writes_nothing(tmp_path: Path, run: Run) -> None:
    root = write_files(tmp_path, SCIKIT_BUILD_CORE)
    with pytest.raises(BakeryError):
        run(root, "--base", "No Image")
    assert not (root / "bakery.toml").exists()


def two_projects(root: Path) -> Path:
    project = '[project]\nname = "p"\n'
    return write_files(root, {"a/pyproject.toml": project, "a/x.c": "", "b/c/pyproject.toml": project, "b/c/x.c": ""})


def test_several_projects(tmp_path: Path, run: Run) -> None:
    with pytest.raises(UsageError) as caught:
        run(two_projects(tmp_path), "--yes")
    assert caught.value.details == ("a", "b/c")


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Answer the questions; return the list that they are added to."""
    questions: list[str] = []
    given = iter(answers)

    def answer(text: str, **_: object) -> str:
        questions.append(text)
        return next(given)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(command.typer, "prompt", answer)
    return questions


def test_a_terminal_is_asked_for_the_project(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = on_a_terminal(monkeypatch, "nonsense", "2")
    assert 'source = "b/c"' in run(two_projects(tmp_path), "--print")
    assert len(questions) == 2
    assert "1  a\n  2  b/c" in questions[0]


def test_no_answer(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_terminal(monkeypatch, "x", "3", "0")
    with pytest.raises(UsageError, match="none of the options"):
        run(two_projects(tmp_path))


def test_only_two_frameworks_are_a_question(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {**TORCH, "csrc/ffi.cc": '#include "xla/ffi/api/ffi.h"\n'}
    root = write_files(tmp_path, files)
    assert 'framework = "torch"' in run(root, "--print")
    questions = on_a_terminal(monkeypatch, "jax")
    assert 'framework = "jax"' in run(root, "--print")
    assert len(questions) == 1
    assert 'framework = "torch"' in run(root, "--print", "--yes")
    assert 'name = "fast-parts"' in run(write_files(tmp_path / "other", SCIKIT_BUILD_CORE), "--print")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission(tmp_path: Path, run: Run) -> None:
    root = write_files(tmp_path, SCIKIT_BUILD_CORE)
    root.chmod(0o555)
    try:
        with pytest.raises(OutputError, match="permission denied"):
            run(root)
    finally:
        root.chmod(0o755)
