"""Bakery's programs: a step mounts the folder of its role, which has all that its commands run."""

from __future__ import annotations

import re
from pathlib import Path

import plans
import pytest

from bakery.emit.dockerfile import build_digest, dockerfile, dockerignore, program_texts, shell_text
from bakery.emit.files import generate
from bakery.plan.dockerfile import Copy, Run
from bakery.plan.model import Plan
from bakery.runs.bake_session import write_run_files
from bakery.toolchains import program_mounts, programs

FOLDER = Path(programs.__file__).parent


def plan_of(root: Path, text: str = "") -> Plan:
    return plans.written(root, f'name = "demo"\n{text}')


CUDA = '[variables]\nCUDA_VERSION = "{}"\n[builder]\ntoolkit = "{}"\n'
RECIPES = (
    "",
    '[builder]\nrust = "stable"\njob-memory = "1 GB"\n[builder.before-build]\ncommand = "net install-packages x"\nnetwork = true\n',
    '[native]\ncommand = "make"\ninto = "x"\nrequirements = ["cmake"]\nsystem-packages = ["git"]\n',
    '[builder]\nbase = { image = "debian:trixie" }\n[test]\nimports = ["x"]\n',
    'platforms = ["linux/arm64"]\n[builder]\ncross = true\n',
    CUDA.format("13.0.3", "cuda") + 'components = ["cudnn"]\n',
    CUDA.format("12.8.0", "clang"),
    CUDA.format("11.8.0", "debian"),
    '[image]\nrequirements = ["ninja"]\nprograms.ninja = "ninja/ninja"\n',
)
NAMES = {path.name for path in FOLDER.iterdir() if not path.name.startswith("__")}
WORD = re.compile(r"(?<![\w./-])(?:/programs/)?([\w.-]+)(?![\w/-])")


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_step_mounts_all_that_its_commands_run(tmp_path: Path, recipe: str) -> None:
    """A command names a program by its path; `net` finds those beside it."""
    for stage in plan_of(tmp_path, recipe).stages:
        for run in (step for step in stage.steps if isinstance(step, Run)):
            for command in map(shell_text, run.commands):
                named = re.findall(r"/programs/([\w.-]+)", command) + re.findall(r"\bnet ([\w-]+)", command)
                named += re.findall(r"\$\(([\w-]+) ", command)
                wanted = {name for name in named if name in NAMES}
                assert wanted <= set(program_mounts.PROGRAMS[run.programs] if run.programs else ()), (
                    stage.name,
                    command,
                )
                assert "/programs/" in command or not run.programs or len(run.commands) > 1, (stage.name, command)


def test_every_program_has_a_role_and_all_that_it_calls() -> None:
    of_cibuildwheel = {"steps.py"}
    assert {name for names in program_mounts.PROGRAMS.values() for name in names} | of_cibuildwheel == NAMES
    for role, names in program_mounts.PROGRAMS.items():
        for name in names:
            text = "\n".join(programs.texts(name).values())
            code = re.sub(r"(?m)^\s*#.*$|\b(?:echo|printf) .*$|<<MESSAGE\n(?:.*\n)*?MESSAGE", "", text)
            # In Python, a program is the first word of a list, or a module beside it.
            of_python = re.findall(r'\["([\w-]+)"', text) + re.findall(r"from \.(packages)\b", text)
            of_python += re.findall(r'__file__\)\), "([\w.-]+)"', text)
            called = of_python if "." in name or name == "packages" else WORD.findall(code)
            # Only Python runs that folder.
            shell = {item for item in called if item in NAMES} - ({"packages"} if "." not in name else set())
            assert shell <= set(names), (role, name)


def test_files_of_a_plan_have_its_programs(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    texts = program_texts(plan)
    assert {"system/net", "packages/packages/__main__.py", "backend/packages/pip_alone.py", "finish/finish.py"} <= set(
        texts
    )
    assert not {"cuda/host-compiler", "packages/packages/__init__.py"} & set(texts)
    assert {path.partition("/")[0] for path in texts} == {
        *("system", "packages", "source", "backend", "compile", "finish", "test", "records", "cache")
    }
    copies = [step for stage in plan.stages for step in stage.steps if isinstance(step, Copy) and step.from_ == "tools"]
    assert {source.lstrip("/") for copy in copies for source in copy.sources} <= set(texts)
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
    (tmp_path / "dockerfiles/bin/system").mkdir(parents=True)
    (tmp_path / "dockerfiles/bin/system/net").write_text("#!/bin/sh\necho evil\n")
    plan = plan_of(tmp_path)
    state = tmp_path / "runs/x"
    assert write_run_files(plan, state) == f"*.contexts.programs={state / 'bin'}"
    for path, text in program_texts(plan).items():
        assert (state / "bin" / path).read_text() == text
        assert (state / "bin" / path).stat().st_mode & 0o7777 == 0o755
    assert (state / "bin/packages/packages").stat().st_mode & 0o777 == 0o755


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
