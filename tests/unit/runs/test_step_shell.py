"""What buildx's debugger is asked for a shell before a step."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bakery.plan.dockerfile import Command, Copy, Env, Mount, Run, Script, Stage
from bakery.runs.step_shell import before, command_at, debug_argv

MOUNTS = (Mount("cache", "/c", id="x"),)


@pytest.mark.parametrize(
    ("commands", "history", "script"),
    [
        (
            (Command((("umask",), ("022",))), Script("echo 'it'\"'\"'s' \"$HOME\"")),
            "umask 022 && echo 'it'\"'\"'s' \"$HOME\"",
            "umask 022 && echo 'it'\"'\"'s' \"$HOME\"",
        ),
        ((Script("for i in 1 2\ndo echo $i\ndone"),), "sh /tmp/step.sh", "set -eu\nfor i in 1 2\ndo echo $i\ndone"),
    ],
)
def test_the_command_is_written_and_not_run(
    tmp_path: Path, commands: tuple[Command | Script, ...], history: str, script: str
) -> None:
    first = Run((Script("true"),))
    second = Run(commands, MOUNTS, network=False)
    stage = before(Stage("compile", ("base",), (first, second)), second)
    assert stage.steps[0] is first
    run = stage.steps[1]
    assert isinstance(run, Run)
    assert (run.mounts, run.network) == (MOUNTS, False)
    (command,) = run.commands
    assert isinstance(command, Script)
    text = command.text.replace("> /tmp/", f"> {tmp_path}/")
    done = subprocess.run(["/bin/sh", "-c", text], env={"HOME": str(tmp_path)}, capture_output=True, check=False)
    assert done.returncode == 97, done.stderr
    assert (tmp_path / ".bash_history").read_text() == f"{history}\n"
    assert (tmp_path / "step.sh").read_text() == f"{script}\n"
    assert "retry()" in (tmp_path / "shell.sh").read_text()


def test_the_command_that_failed_is_chosen_by_its_number() -> None:
    load, command = Run((Script("load"),)), Run((Script("pytest"),))
    stage = Stage("test", ("base",), (Env((("A", ("1",)),)), load, Copy(("a",), "b", ""), command))
    chosen = {step: command_at(stage, step) for step in ("1/3", "2/4", "3/3", "2/3", "0/3", "2/5", "")}
    assert [step for step, run in chosen.items() if run is load] == ["1/3", "2/4"]
    assert [step for step, run in chosen.items() if run is command] == ["3/3", "2/3", "0/3", "2/5", ""]


def test_the_debugger_gets_what_the_bake_gets() -> None:
    attributes = {
        "context": ".",
        "dockerfile": "/run/Dockerfile",
        "args": {"PYTHON_VERSION": "3.11", "X": "a b"},
        "contexts": {"programs": "/run/bin"},
        "platforms": ["linux/arm64"],
        "secret": [{"type": "file", "id": "ca-bundle", "src": "/ca.pem"}],
    }
    assert debug_argv(["docker"], attributes, "compile", None, {"SHELL_MARK": "x"}) == [
        "docker",
        "buildx",
        "debug",
        "--on=error",
        "--invoke=entrypoint=/bin/bash,args=--rcfile,args=/tmp/shell.sh,args=-i,tty=true,env=SHELL_MARK=x",
        "build",
        "--progress=plain",
        "--file=/run/Dockerfile",
        "--target=compile",
        "--build-arg=PYTHON_VERSION=3.11",
        "--build-arg=X=a b",
        "--build-context=programs=/run/bin",
        "--platform=linux/arm64",
        "--secret=type=file,id=ca-bundle,src=/ca.pem",
        ".",
    ]
