"""docker buildx, asked what it understands of generated files; nothing is built."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bakery.emit.bakefile import bake_groups, bake_json, bakefile
from bakery.plan.model import Plan
from bakery.plan.values import Json, Value, literal

_TEMPLATES = ("args", "labels", "extra-hosts")
_TIMEOUT_S = 120


class Buildx:
    """docker buildx in a folder of its own, with an environment in which no stray variable sets another value."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self.environment = environment
        self.folder = folder

    def call(self, *words: str, variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run ``docker buildx WORDS``."""
        kept = {k: v for k, v in self.environment.items() if k in ("PATH", "HOME") or k.startswith("DOCKER_")}
        return subprocess.run(
            ["docker", "buildx", *words],
            cwd=self.folder,
            env={**kept, **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=_TIMEOUT_S,
        )

    def print(
        self, hcl: str, targets: Sequence[str], variables: Mapping[str, str] | None = None, sets: Sequence[str] = ()
    ) -> dict[str, Json]:
        """Return what ``bake --print`` says of a bake file."""
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".hcl", encoding="utf-8", newline="\n") as file:
            file.write(hcl)
            file.flush()
            options = [f"--set={text}" for text in sets]
            done = self.call("bake", "-f", file.name, "--print", *options, *targets, variables=variables)
        assert done.returncode == 0, done.stderr
        found: dict[str, Json] = json.loads(done.stdout)
        return found

    def frontend(self, dockerfile: str, call: str, target: str = "") -> dict[str, Json]:
        """Return what BuildKit's frontend understood of a Dockerfile: ``outline``, ``targets`` or ``lint``."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            file = Path(folder) / "Dockerfile"
            file.write_text(dockerfile, encoding="utf-8", newline="\n")
            options = [f"--target={target}"] if target else []
            done = self.call("build", f"--call={call},format=json", *options, "-f", str(file), folder)
        assert done.returncode == 0, done.stderr
        found: dict[str, Json] = json.loads(done.stdout)
        return found

    def assert_prints(
        self, plan: Plan, *, groups: Sequence[str] = (), variables: Mapping[str, str] | None = None
    ) -> None:
        """Assert that ``bake --print`` of a plan's file says what the plan says; without groups, of all that it has."""
        groups = groups or tuple(plan.groups)
        said = self.print(bakefile(plan), groups, variables, [str(override) for override in plan.overrides])
        wanted = with_values(plan, variables or {})
        assert said["target"] == printed(bake_json(wanted, wanted.select(tuple(groups))))
        assert said["group"] == {name: {"targets": members} for name, members in bake_groups(wanted, groups).items()}


def with_values(plan: Plan, values: Mapping[str, str]) -> Plan:
    """Return a plan whose variables have other values."""
    given = tuple(replace(item, value=values.get(item.name, item.value)) for item in plan.variables)
    return replace(plan, variables=given)


def offline(plan: Plan) -> Plan:
    """Return a plan whose Dockerfile names no image: a frontend asks a registry for those that an engine lacks."""
    names = {stage.name for stage in plan.stages}

    def is_image(base: Value) -> bool:
        # A stage by its name, or by the beginning of several stages' names and an argument.
        return base[0] not in names if len(base) == 1 else not any(name.startswith(str(base[0])) for name in names)

    stages = [replace(stage, base=literal("scratch")) if is_image(stage.base) else stage for stage in plan.stages]
    return replace(plan, stages=tuple(stages))


def printed(targets: Mapping[str, Mapping[str, Json]]) -> dict[str, Json]:
    """Return targets as --print writes them: a bake file again, in which some strings are escaped."""
    return {
        name: {key: _escaped(value) if key in _TEMPLATES else value for key, value in attributes.items()}
        for name, attributes in targets.items()
    }


def _escaped(texts: Json) -> Json:
    assert isinstance(texts, dict)
    return {key: re.sub(r"([$%])(?=\{)", r"\1\1", str(value)) for key, value in texts.items()}


def environment_with(found: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that leads to docker."""
    assert shutil.which("docker", path=found.get("PATH", os.environ.get("PATH")))
    return {**os.environ, **found}
