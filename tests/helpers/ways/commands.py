"""All commands of the command line, as a person runs them in a checkout, and what each of them must not do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import forking
import typer
from typer.core import TyperGroup

from bakery.cli.app import app
from ways import MARK, RUN, Scene, victim
from ways.records import WHEEL

DEADLINE_S = 60
BAKE_S = 600
"""Seconds of a command, and of one that may build with an engine that others use."""

BAKES = ("lock", "wheel", "test", "full", "dev", "bake", "reproduce", "compile", "validate", "benchmark")

COMMANDS: dict[str, list[list[str]]] = {
    "init": [["--print"], ["--yes"], ["--print", "--pyproject"]],
    "adopt": [["--index", "http://127.0.0.1:9/simple/"], ["--index", "http://127.0.0.1:9/simple/", "--check", "dist"]],
    "check": [[]],
    "plan": [
        [], ["--explain"], ["--json"], ["--size"], ["--github-matrix"], ["--shard", "1/2"], ["--only", "*"],
        ["--since", "old"], ["--since", "main~1", "--json"], ["--since", "private"], ["--since", "--output=pwned"],
        ["--builder", "absent"], ["--set", "FOO=$(touch pwned)"],
    ],
    "generate": [[], ["--check"], ["--to", "generated"]],
    "lock": [[], ["--check"]],
    "wheel": [["--print"], ["--since", "old", "--print"], ["--resume", "--output", "wheels"], ["--backend", "cibuildwheel"], ["--failed"]],
    "test": [["--json"]],
    "full": [["--locked"]],
    "dev": [["--compiler-cache", ".ccache"]],
    "bake": [["wheel", "--builder", "absent"], ["wheel"]],
    "profile": [["cp311", "--trace", "trace.json"], ["cp311", "--json"]],
    "shell": [["cp311"]],
    "logs": [[], ["cp311", "--step", "compile"]],
    "report": [[], [RUN]],
    "why": [["cp311"], ["cp311", "--compiler-cache"]],
    "audit": [["DIST"], ["--json", "--size", f"dist/{WHEEL}", "--baseline", f"dist/{WHEEL}"]],
    "verify": [["dist"], ["dist", "--require-gpu-test"]],
    "gpu-test": [["dist", "--prepare", "gpu"], [f"dist/{WHEEL}"]],
    "reproduce": [["recorded/"+WHEEL], [f"recorded/{WHEEL}", "--provenance", "RECORD"], [f"dist/{WHEEL}", "--here"], [f"dist/{WHEEL}", "--against", f"dist/{WHEEL}"]],
    "variants": [["dist"], [f"dist/{WHEEL}"]],
    "meta": [["dist"], [f"dist/{WHEEL}"]],
    "coverage": [["http://127.0.0.1:9/simple/"]],
    "index": [["dist"], [f"dist/{WHEEL}", "--output", "index"]],
    "compile": [["--plan", "JOB"], ["JOB"]],
    "validate": [["JOB"], ["out"]],
    "benchmark": [["JOB", "--baseline", "speed.json"], ["out", "--save-baseline", "out.json"]],
    "gpus": [["8.0;$(touch pwned)"], ["8.0"]],
    "rules": [[]],
    "explain": [["\x1b]0;pwned\x07"]],
    "schema": [[]],
    "completion": [["bash"], ["zsh"], ["fish"]],
    "doctor": [[], ["--json"]],
    "engine up": [[]],
    "engine down": [[]],
    "engine status": [[]],
    "engine env": [[]],
    "engine emulate": [["pwned"]],
    "engine remove": [[]],
    "builders up": [["absent"]],
    "builders ls": [[], ["--json"]],
    "builders rm": [["remote"]],
}  # fmt: skip
"""Command → the words after it, for each time that it runs. JOB and RECORD stand for each of the checkout, DIST for all its wheels."""

OF_A_PROJECT = [
    ["check"], ["plan", "--explain"], ["plan", "--since", "HEAD"], ["generate"], ["lock"], ["wheel", "--print"], ["wheel"], ["logs"],
    ["report"], ["why", "cp311"], ["init", "--yes"], ["verify", "dist"], ["index", "dist"], ["gpu-test", "dist", "--prepare", "gpu"],
]  # fmt: skip
"""What runs in each project with one way."""

OF_A_RECIPE = [["plan", "--explain"], ["generate", "--to", "generated"], ["wheel", "--print"], ["wheel"]]
"""What runs for each recipe with one way."""


def deadline(words: Sequence[str]) -> int:
    return BAKE_S if words[0] in BAKES else DEADLINE_S


def names() -> Iterator[str]:
    """Yield the names of all commands of the app, such as ``plan`` and ``engine up``."""

    def walk(command: object, name: str) -> Iterator[str]:
        if isinstance(command, TyperGroup):
            context = typer.Context(command)
            for part in command.list_commands(context):
                yield from walk(command.get_command(context, part), f"{name} {part}".strip())
        else:
            yield name

    yield from walk(typer.main.get_command(app), "")


def lines(scene: Scene) -> Iterator[list[str]]:
    """Yield what is run in the project at the top of a checkout."""
    many = {"JOB": sorted(scene.checkout.glob("job*.json")), "RECORD": sorted(scene.checkout.glob("record*.json"))}
    wheels = sorted(f"dist/{path.name}" for path in (scene.checkout / "dist").glob("*.whl") if path.name[0] != "-")
    for command, all_words in COMMANDS.items():
        for words in all_words:
            places = next((many[word] for word in words if word in many), [Path()])
            for place in places:
                found = [place.name if word in many else word for word in words if word != "DIST"]
                yield [*command.split(), *found, *(wheels if "DIST" in words else ())]
    yield from (["plan", "--since", revision] for revision in scene.revisions)


@dataclass
class Ended:
    """A command that ended, or was ended after `DEADLINE_S`."""

    words: Sequence[str]
    folder: Path
    code: int | None
    said: bytes

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with its exit code and its output."""
        text = self.said.decode(errors="replace")
        if self.code is None:
            yield f"not done within {deadline(self.words)} s"
        elif not (self.code == 0 or 2 <= self.code <= 17):
            yield f"exit code {self.code}"
        if "Traceback" in text or "internal error" in text:
            yield "no clear error"
        if victim.shows(self.said):
            yield "a canary"
        if not all(character.isprintable() or character in "\n\t" for character in text):
            yield "control characters"
        if any(MARK in line and (line.lstrip().startswith("::") or "##[" in line) for line in text.splitlines()):
            yield "a command for the runner"

    def __str__(self) -> str:
        return (
            f"{' '.join(self.words)} in {self.folder.name}: {self.code}\n{self.said.decode(errors='replace')[-1500:]!a}"
        )


@dataclass
class Check:
    """Compares victim and server before and after; use as ``with Check(...) as check: check.ended += …``."""

    scene: Scene
    calls: list[bytes]
    places: Sequence[Path]
    ended: list[Ended] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._before = victim.state(self.scene.victim)
        self._files = victim.inodes(self.scene.victim)

    def problems(self) -> list[str]:
        """Return everything that is wrong, in words."""
        after = victim.state(self.scene.victim)
        changed = [name for name in sorted({*self._before, *after}) if self._before.get(name) != after.get(name)]
        found = [f"changed: {name} {self._before.get(name)} → {after.get(name)}" for name in changed]
        found += [f"called: {call!r}" for call in self.calls]
        found += [f"a canary: {path}" for place in self.places for path in victim.leaks(place, self._files)]
        found += [f"{problem}: {ended}" for ended in self.ended for problem in ended.problems()]
        return found


def by_fork(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Ended:
    """Run the command in a folder, in a process that has imported it already."""
    try:
        _, code, out, err = forking.run(words, folder, environment, deadline(words))
    except TimeoutError as error:
        return Ended(words, folder, None, str(error).encode())
    return Ended(words, folder, code, (out + err).encode())


def by_process(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], *, elsewhere: Path | None = None
) -> Ended:
    """Run the real command in a folder, or with ``-C`` from elsewhere; a process of its own, without a terminal."""
    program = [str(Path(sys.executable).parent / "wheel-bakery")]
    if elsewhere:
        program += ["-C", str(folder)]
    with subprocess.Popen(
        [*program, *words], cwd=elsewhere or folder, env=dict(environment), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    ) as child:  # fmt: skip
        try:
            said, _ = child.communicate(timeout=deadline(words))
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            return Ended(words, folder, None, child.communicate()[0])
    return Ended(words, folder, child.returncode, said)
