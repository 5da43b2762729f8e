"""Mounts of bakery's programs: each step has those that it runs, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bakery.emit.dockerfile import build_digest, dockerfile, dockerignore, program_texts
from bakery.emit.files import generate
from bakery.plan.dockerfile import Command, Run, Script, Stage
from bakery.plan.model import Plan
from bakery.plan.values import literal
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.runs.bake_session import write_run_files
from bakery.toolchains import program_mounts, programs

FOLDER = Path(programs.__file__).parent


def plan_of(root: Path, text: str = "") -> Plan:
    (root / "bakery.toml").write_text(f'name = "demo"\n{text}')
    (loaded,) = load(None, root)
    return resolve(loaded)


def mounted(*commands: str) -> list[str]:
    run = Run(tuple(map(Script, commands)))
    (stage,) = program_mounts.with_programs([Stage("a", literal("b"), (run,))])
    (step,) = stage.steps
    assert isinstance(step, Run)
    return [mount.source for mount in step.mounts]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("net install-packages git", ["/net", "/install-packages"]),
        ('"$(find-python "3.11")" -m venv /opt/venv', ["/find-python"]),
        ("net clang-for-cuda /usr/local/cuda 19", ["/net", "/clang-for-cuda", "/install-packages"]),
        ("python /usr/local/bin/finish.py a && python /usr/local/bin/packages build", ["/finish.py", "/packages"]),
        ("cp finish.py packages internet net-tools ./net tests/net /net", []),
        ("/usr/local/bin/strip lib.so && make -j2", []),
    ],
)
def test_a_step_mounts_what_its_commands_name(command: str, expected: list[str]) -> None:
    assert mounted(command) == expected


def test_words_of_a_command_are_looked_at() -> None:
    (stage,) = program_mounts.with_programs([Stage("a", literal("b"), (Run((Command((("net",), ("a b",))),)),))])
    assert [mount.source for step in stage.steps if isinstance(step, Run) for mount in step.mounts] == ["/net"]


def test_every_program_is_known_with_all_that_it_calls() -> None:
    copied = {"nvcc-clang", "fatbinary.py", "clang-cuda.cmake"}
    of_cibuildwheel = {"steps.py"}
    names = {path.name for path in FOLDER.iterdir() if not path.name.startswith("__")}
    assert set(program_mounts.CALLS) == names - copied - of_cibuildwheel
    for name, calls in program_mounts.CALLS.items():
        text = "\n".join(programs.texts(name).values())
        # In Python, a program is the first word of a list.
        code = re.sub(r"(?m)^\s*#.*$|\b(?:echo|printf) .*$|<<MESSAGE\n(?:.*\n)*?MESSAGE", "", text)
        called = set(
            mounted(*re.findall(r'\["([\w-]+)"', text)) if "." in name or name == "packages" else mounted(code)
        )
        assert called - {f"/{name}"} <= {f"/{item}" for item in calls}, name
        assert all(item in text for item in calls), name


def test_files_of_a_plan_have_its_programs(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    texts = program_texts(plan)
    assert {"net", "find-python", "packages/__main__.py", "packages/pip_alone.py", "finish.py"} <= set(texts)
    assert not {"host-compiler", "steps.py", "packages/__init__.py"} & set(texts)
    assert {f"dockerfiles/bin/{path}": text for path, text in texts.items()}.items() <= generate(plan).items()


def test_another_program_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(tmp_path)
    before = build_digest(plan)
    assert build_digest(plan) == before
    real = programs.texts
    monkeypatch.setattr(programs, "texts", lambda name: {path: f"{text}#" for path, text in real(name).items()})
    assert build_digest(plan) != before


def test_no_step_mounts_the_build_context_of_the_programs(tmp_path: Path) -> None:
    """It has a new cache key in each build; one copy makes it a stage with a lasting key."""
    lines = [line.strip() for line in dockerfile(plan_of(tmp_path)).splitlines() if "from=programs" in line]
    assert lines == ["COPY --chmod=0755 --from=programs / /"]


def test_a_run_has_programs_of_its_own(tmp_path: Path) -> None:
    """Whatever a checkout has in the place of a program, none of it is run."""
    (tmp_path / "dockerfiles/bin").mkdir(parents=True)
    (tmp_path / "dockerfiles/bin/net").write_text("#!/bin/sh\necho evil\n")
    plan = plan_of(tmp_path)
    state = tmp_path / "runs/x"
    assert write_run_files(plan, state) == f"*.contexts.programs={state / 'bin'}"
    for path, text in program_texts(plan).items():
        assert (state / "bin" / path).read_text() == text
        assert (state / "bin" / path).stat().st_mode & 0o7777 == 0o755
    assert (state / "bin/packages").stat().st_mode & 0o777 == 0o755


def test_no_exception_of_the_recipe_hides_the_programs(tmp_path: Path) -> None:
    recipe = 'secrets.key = { file = "dockerfiles/bin/key", steps = ["compile"] }\n[source]\nignore = ["dockerfiles"]\n'
    lines = dockerignore(plan_of(tmp_path, recipe)).splitlines()
    assert lines.index("dockerfiles") < lines.index("!dockerfiles/bin")
    assert lines[-1] == "dockerfiles/bin/key"


def test_the_source_of_a_build_has_no_programs(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert "dockerfiles/bin" in plan.ignore
    text = generate(plan)[plan.dockerfile]
    assert text.count("rm -rf /src/dockerfiles/bin") == 4
    inside = plan_of(tmp_path, '[source]\npath = "sub"\n')
    assert "rm -rf" not in generate(inside)[inside.dockerfile]
