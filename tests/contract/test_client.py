"""Calls of docker: through python-on-whales, in time, with an environment of their own; the others are counted."""

from __future__ import annotations

import ast
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from own_sources import all_trees as trees
from python_on_whales import DockerClient, utils

from bakery.core.errors import EngineError
from bakery.engine.client import ClientError, Engine

_DOCKER = f"""#!/bin/sh
'''exec' "{sys.executable}" -I -S "$0" "$@"
' '''
import os, sys, time
with open(os.environ["CALLS"], "a") as file:
    print(sys.argv[1:], sorted(os.environ), os.getsid(0) == os.getpid(), file=file)
time.sleep(float(os.environ.get("SLEEP", "0")))
sys.stderr.write(os.environ.get("SAID", ""))
print(os.environ.get("ANSWER", ""))
sys.exit(int(os.environ.get("CODE", "0")))
"""

Use = Callable[[DockerClient], object]
USES: Mapping[str, Use] = {
    "version": lambda docker: docker.version(),
    "buildx.version": lambda docker: docker.buildx.version(),
    "buildx.list": lambda docker: docker.buildx.list(),
    "buildx.inspect": lambda docker: docker.buildx.inspect("b", bootstrap=True),
    "buildx.remove": lambda docker: docker.buildx.remove("b"),
    "system.info": lambda docker: docker.system.info(),
    "image.exists": lambda docker: docker.image.exists("i"),
    "image.pull": lambda docker: docker.image.pull("i", quiet=True, platform="linux/amd64"),
    "image.tag": lambda docker: docker.image.tag("i", "j"),
    "container.list": lambda docker: docker.container.list(all=True, filters=[("label", "l")]),
    "container.remove": lambda docker: docker.container.remove(["c"], force=True, volumes=True),
}
"""All that Bakery asks of python-on-whales."""

COMMAND_LINES = {
    "engine/client.py": 3,
    "engine/debian_rootfs.py": 2,
    "engine/doctor.py": 1,
    "engine/image_digests.py": 1,
    "engine/image_triggers.py": 1,
    "engine/nodes.py": 3,
    "engine/oci_layouts.py": 1,
    "runs/buildx/bake.py": 1,
    "runs/step_shell.py": 1,
    "bakery_iree/sandbox.py": 2,
}
"""File → its calls in docs/decisions/0003-calling-docker.md."""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    program = tmp_path / "docker"
    program.write_text(_DOCKER)
    program.chmod(0o755)
    return {"PATH": str(tmp_path), "CALLS": str(tmp_path / "calls"), "BAKERY_CACHE_KEY": "canary"}


@pytest.mark.parametrize("name", USES)
def test_a_call_ends_in_time(name: str, environ: dict[str, str]) -> None:
    began = time.monotonic()
    with (
        pytest.raises(ClientError, match=r"no answer within 0\.3 s"),
        Engine(environ | {"SLEEP": "60"}).docker(timeout_s=0.3) as docker,
    ):
        USES[name](docker)
    assert time.monotonic() - began < 20


def test_a_call_gets_the_environment_of_its_engine(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACTIONS_RUNTIME_TOKEN", "canary")
    with Engine(environ).docker() as docker:
        docker.image.tag("i", "j")
    with Engine(environ).docker(new_session=True) as docker:
        docker.image.tag("i", "j")
    first, second = Path(environ["CALLS"]).read_text().splitlines()
    assert first.startswith("['image', 'tag', 'i', 'j'] ['CALLS', ")
    assert "CACHE_KEY" not in first
    assert "ACTIONS" not in first
    assert (first.endswith("False"), second.endswith("True")) == (True, True)


def test_calls_of_others_stay_as_they_are(environ: dict[str, str]) -> None:
    with Engine(environ).docker():
        pass
    assert utils.run([sys.executable, "-c", "import os; print(os.getcwd())"]) == str(Path.cwd())


def test_a_failure_says_why(environ: dict[str, str]) -> None:
    failing = environ | {"CODE": "1", "SAID": "#1 try\nERROR: no such builder\n"}
    with pytest.raises(ClientError) as caught, Engine(failing).docker() as docker:
        docker.buildx.list()
    assert (caught.value.message, caught.value.reason) == (
        "`docker buildx ls` failed: no such builder",
        "no such builder",
    )
    with pytest.raises(EngineError, match="the engine does not answer"):
        Engine(failing).has_image("i")
    assert not Engine(failing | {"SAID": "Error: No such image: i"}).has_image("i")


@pytest.mark.parametrize("answer", ["", "[", "[]", json.dumps({"NCPU": "many"})])
def test_an_answer_that_cannot_be_read_is_an_error(answer: str, environ: dict[str, str]) -> None:
    with pytest.raises(EngineError, match="the engine does not answer"):
        Engine(environ | {"ANSWER": answer}).info()


def test_a_missing_client_is_told_from_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ClientError) as caught, Engine({"PATH": str(tmp_path)}).docker():
        pass
    assert caught.value.is_missing


def command_lines(name: str, tree: ast.AST) -> int:
    """Return how many calls of docker with a command line a module has."""
    owners = {"engine", "self._engine", "self.engine", "facts.client()", "self" if name == "engine/client.py" else ""}
    found = [
        node.func for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    return sum(
        item.attr in ("run", "run_or_empty", "start", "call")
        and (ast.unparse(item.value) in owners or ast.unparse(item.value).startswith("Engine("))
        for item in found
    )


def test_command_lines_are_those_of_the_decision() -> None:
    counts = Counter({name: command_lines(name, tree) for name, tree in trees().items()})
    # One of the client's is `run` in `run_or_empty`.
    counts["engine/client.py"] -= 1
    assert +counts == COMMAND_LINES


def test_only_the_client_uses_the_library() -> None:
    names = {name for name, tree in trees().items() if "python_on_whales" in ast.unparse(tree)}
    # The session imports it early; the sandbox has its types.
    assert names == {"engine/client.py", "engine/session.py", "bakery_iree/sandbox.py"}
