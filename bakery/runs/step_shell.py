"""A shell in the state before a step: buildx's debugger runs it with the environment, mounts and network of the step.

The step is replaced by one that fails after it wrote its command into a script, which the shell's `retry` runs, and into
the shell's history; the debugger then opens a shell where that step would have run.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bakery.core import child
from bakery.core.environment import for_tool
from bakery.core.errors import EngineError, UsageError
from bakery.core.target_kinds import Kind
from bakery.emit.dockerfile import shell_text
from bakery.engine.client import DOCTOR, TIMEOUT_S, Engine
from bakery.engine.session import EngineSession
from bakery.plan.cells import Cell, Target
from bakery.plan.dockerfile import Add, Copy, Run, Script, Stage, Workdir
from bakery.plan.model import Plan
from bakery.plan.stage_digests import Lineage
from bakery.plan.values import Json
from bakery.runs.bake_session import request_of_task
from bakery.runs.buildx.bake import BakeRequest, bake_environment, checked_argv
from bakery.runs.buildx.gha_cache_env import NAMES
from bakery.runs.debug_terminal import run_shell
from bakery.runs.pipeline import pin, require, session_of
from bakery.runs.run_options import Options
from bakery.runs.selection import Run as BakeRun
from bakery.runs.selection import select
from wheel_audit.readers import json_of
from wheel_audit.text import printable

_SCRIPT, _START = "/tmp/step.sh", "/tmp/shell.sh"
_FAILS = 97
_FOLDER = "/src"
"""Where the project is, in the stages that have it."""
# BuildKit sets the size of the terminal to nothing, a moment after the shell began.
_STARTS = f"""\
for file in /etc/bash.bashrc ~/.bashrc; do [ ! -r "$file" ] || . "$file"; done
retry() {{ sh {_SCRIPT}; }}
PROMPT_COMMAND='[ "$(stty size)" != "0 0" ] || stty rows "$SHELL_ROWS" cols "$SHELL_COLUMNS"'
trap 'printf "%s" "$SHELL_MARK"' EXIT
[ ! -d {_FOLDER} ] || cd {_FOLDER}
sleep 0.5
printf %s "$SHELL_MARK"
"""


def open_shell(
    root: Path, plan: Plan, cell: Cell, stage: Stage, command: Run, options: Options, engine: EngineSession
) -> None:
    """Open a shell on the terminal, in the state before a command of a stage, after a few lines that say so.

    Raises EngineError if there was no shell.
    """
    kind = Kind.WHEEL if stage.name in Lineage(plan).of(cell, [Kind.WHEEL]) else Kind.TEST
    plan = replace(plan, stages=tuple(before(item, command) if item is stage else item for item in plan.stages))
    options = replace(options, groups=(str(kind),), only=(cell.id,))
    plan = plan.for_builders(engine.platforms) if plan.crosses else plan
    chosen = select(BakeRun.of(root, plan, options, engine.environment, engine.say), plan, {})
    for text in chosen.notes:
        engine.say(text)
    require(engine, chosen)
    with session_of(engine, chosen) as session, tempfile.TemporaryDirectory(prefix="bakery-shell-") as folder:
        pins = pin(engine, session, chosen)
        common = session.request(chosen.task_targets, Path(folder), pins, ignore=chosen.source.ignore)
        request = request_of_task(common, chosen.tasks[cell.id], chosen.plan, pins)
        target = next(item for item in request.targets if item.kind is kind)
        number = commands(stage).index(command) + 1
        _debug(
            request,
            target,
            stage.name,
            f"{cell.id}: the state before command {number} of {len(commands(stage))} of {stage.name}\n"
            f"the project is in {_FOLDER}, where the stage has it\n"
            "`retry` runs the command; press Up to see it\n"
            "`exit` leaves; what you change is lost, except in cache mounts",
        )


def stages(plan: Plan, cell: Cell) -> list[str]:
    """Return the stages of a cell's wheel and test that run a command."""
    lineage = Lineage(plan).of(cell, [Kind.WHEEL, Kind.TEST])
    return [stage.name for stage in plan.stages if stage.name in lineage and commands(stage)]


def stage_named(plan: Plan, cell: Cell, at: str) -> Stage:
    """Return a stage of a cell by its name, which may lack the recipe's and an ending. Raises UsageError if there is none."""
    known = stages(plan, cell)
    names = (f"{prefix}{at}{ending}" for ending in (cell.own, "") for prefix in ("", f"{plan.recipe}-"))
    name = next((name for name in names if name in known), "")
    if not name:
        raise UsageError(f"{cell.id} has no step of {at}", hint=f"it has {', '.join(known)}")
    return next(item for item in plan.stages if item.name == name)


def commands(stage: Stage) -> list[Run]:
    """Return the commands of a stage."""
    return [step for step in stage.steps if isinstance(step, Run)]


def command_at(stage: Stage, step: str) -> Run:
    """Return the command of a stage that BuildKit numbers ``step``, such as ``2/3``; else its last one."""
    numbered = [item for item in stage.steps if isinstance(item, Run | Copy | Add | Workdir)]
    # In a stage that starts from an image, that is the first step.
    numbers = [
        (f"{number}/{len(numbered) + more}", item) for more in (0, 1) for number, item in enumerate(numbered, 1 + more)
    ]
    chosen = (item for name, item in numbers if name == step and isinstance(item, Run))
    return next(chosen, commands(stage)[-1])


def before(stage: Stage, run: Run) -> Stage:
    """Return a stage with a command that is not run, but written into the history of the shell."""
    texts = [shell_text(command) for command in run.commands]
    if any("\n" in text for text in texts):
        script, history = "set -eu\n" + "\n".join(texts), f"sh {_SCRIPT}"
    else:
        script = history = " && ".join(texts)
    files = ((script, f"> {_SCRIPT}"), (_STARTS, f"> {_START}"), (history, ">> ~/.bash_history"))
    text = "; ".join(f"printf '%s\\n' {shlex.quote(content)} {file}" for content, file in files) + f"; exit {_FAILS}"
    asks = replace(run, commands=(Script(text),))
    return replace(stage, steps=tuple(asks if step is run else step for step in stage.steps))


def _debug(request: BakeRequest, target: Target, stage: str, banner: str) -> None:
    """Run a shell of buildx's debugger on the terminal. Raises EngineError."""
    environment = for_tool(bake_environment(request), {"BUILDX_EXPERIMENTAL": "1"}, NAMES)
    call = Engine(request.environment).call()
    try:
        argv = [*checked_argv(request), "--print"]
        shown = child.completed(argv, env=environment, cwd=request.root, seconds=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"buildx gave no answer within {TIMEOUT_S:g} s", hint=DOCTOR) from error
    if shown.returncode:
        raise EngineError("buildx cannot read the bake file", details=shown.stderr.splitlines()[-5:])
    mark, size = secrets.token_hex(16), os.get_terminal_size(sys.stdin.fileno())
    shell = {"SHELL_ROWS": str(size.lines), "SHELL_COLUMNS": str(size.columns), "SHELL_MARK": mark}
    argv = debug_argv(call, json_of(shown.stdout)["target"][target.name], stage, request.builder, shell)
    printed = run_shell(argv, request.root, environment, mark, banner)
    if printed is not None:
        raise EngineError(
            "the debugger of buildx opened no shell", hint=DOCTOR, details=tuple(printable(printed).splitlines()[-5:])
        )


def debug_argv(
    call: Sequence[str], attributes: Mapping[str, Any], stage: str, builder: str | None, shell: Mapping[str, str]
) -> list[str]:
    """Return the command that debugs a stage with what ``bake --print`` prints of a target.

    ``shell`` has the environment of the shell.
    """
    variables = "".join(f",env={name}={value}" for name, value in shell.items())
    invoke = f"entrypoint=/bin/bash,args=--rcfile,args={_START},args=-i,tty=true{variables}"
    argv = [*call, "buildx", "debug", "--on=error", f"--invoke={invoke}", "build", "--progress=plain"]
    argv += [f"--builder={builder}"] if builder else []
    argv += [f"--file={attributes['dockerfile']}", f"--target={stage}"]
    for option, key in (("build-arg", "args"), ("build-context", "contexts")):
        argv += [f"--{option}={name}={value}" for name, value in (attributes.get(key) or {}).items()]
    argv += [f"--platform={name}" for name in attributes.get("platforms") or ()]
    argv += [f"--secret={_fields(secret)}" for secret in attributes.get("secret") or ()]
    argv += [f"--network={attributes['network']}"] if attributes.get("network") else []
    return [*argv, str(attributes["context"])]


def _fields(value: Json) -> str:
    return ",".join(f"{name}={text}" for name, text in value.items()) if isinstance(value, dict) else str(value)
