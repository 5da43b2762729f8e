"""What a shell in an image sees of a plan's words, byte for byte: through the bake file, and through defaults alone."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bakery.core.files import write
from bakery.emit.files import generate
from bakery.plan.dockerfile import Arg, Command, Copy, Env, Mount, Run, Script, Stage, Step
from bakery.plan.model import Plan
from bakery.plan.values import Ref, Value, literal
from bakery.recipe.load import from_python
from bakery.recipe.models import Recipe
from bakery.resolve.plan import resolve

pytestmark = pytest.mark.engine

VALUES = (
    *("", " ", "plain", "two words", " edges ", "a  b", "-n", "--mount=type=bind", "# no comment", "~", "*"),
    *("$HOME", "${HOME}", "$${HOME}", "%{if}", "$(id)", "`id`", "$", "5 $", "%", "a$%{b}"),
    *('"', "'", "it's", "\\", "\\\\", "\\n", "\\$x", "a\\", '"\\', "'\"'\"'", "&& false", "; false", "| cat", "<<EOF"),
    *("é", "漢字", "𝄞", "\u00a0", "\u200b", "[1]", '["sh"]', "a=b", "a,b", "${A0:-x}", "!", "\x7f"),
)
LINES = ("two\nlines", "\n", "EOF\nEOF_\n# x\n\n  y\\\n$z")
"""Words only: arguments and variables are one line."""

TEXT = "EOF\n$HOME ${A0} \\\n`id`\t\"'\n# syntax=x\n <<EOF\nEOF"
"""What a script writes, which stands in a Dockerfile as it is."""


def wanted() -> bytes:
    words = [*VALUES, *LINES, *VALUES, *VALUES, *(f"a{value}$b{value}" for value in VALUES), *VALUES]
    return "".join(f"{word}\0" for word in words).encode()


def plan() -> Plan:
    args = {f"A{index}": value for index, value in enumerate(VALUES)}

    def save(words: Sequence[Value], environment: tuple[tuple[str, Value], ...] = ()) -> Run:
        return Run((Command((literal("save"), *words), environment),), network=False)

    steps: tuple[Step, ...] = (
        Run((Script(f"cat > /text <<'~'\n{TEXT}\n~\n"),)),
        save([literal(value) for value in VALUES]),
        save([literal(value) for value in LINES]),
        *map(Arg, args),
        save([(Ref(name),) for name in args]),
        Env(tuple((f"E{index}", literal(value)) for index, value in enumerate(VALUES))),
        save([(Ref(f"E{index}"),) for index in range(len(VALUES))]),
        Env(tuple((f"F{index}", (f"a{value}$b", Ref(name))) for index, (name, value) in enumerate(args.items()))),
        save([(Ref(f"F{index}"),) for index in range(len(VALUES))]),
        Run(
            tuple(Command(tuple(map(literal, ("sh", "-c", 'save "$X"'))), (("X", literal(value)),)) for value in VALUES)
        ),
        Run((Command(tuple(map(literal, ("cat", "/folder/file")))),), (Mount("bind", "/folder", source="a b"),)),
    )
    result = (Copy(("/words", "/text"), "/", "run"),)
    made = resolve(from_python(Recipe(name="nasty"), Path.cwd()))
    return replace(
        made,
        cells=tuple(replace(cell, args={**cell.args, **args}) for cell in made.cells),
        global_args=(),
        stages=(
            Stage("root", literal("scratch"), (Copy(("rootfs/",), "/", ""),)),
            Stage("run", literal("root"), steps),
            Stage("nasty-wheel", literal("scratch"), result),
        ),
        ignore=(),
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, tiny_rootfs: Path) -> Path:
    folder = tmp_path_factory.mktemp("nasty")
    shutil.copytree(tiny_rootfs, folder / "rootfs", symlinks=True)
    save = folder / "rootfs" / "bin" / "save"
    save.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\" >>/words\n")
    save.chmod(0o755)
    (folder / "a b").mkdir()
    (folder / "a b" / "file").write_text("")
    write(folder, generate(plan()))
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("bake", "-f", "bake/nasty.hcl", "wheel"),
        (
            "build", "-f", "dockerfiles/nasty.Dockerfile", "--target=nasty-wheel",
            "--output=type=local,dest=out/cp311", ".",
        ),
    ],
    ids=["bake", "build"],
)  # fmt: skip
def test_every_byte_arrives(project: Path, engine_environment: Mapping[str, str], words: tuple[str, ...]) -> None:
    shutil.rmtree(project / "out", ignore_errors=True)
    done = subprocess.run(
        ["docker", "buildx", *words],
        cwd=project,
        env={**engine_environment, "DEST": "out"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = (project / "out" / "cp311" / "words").read_bytes()
    assert found.split(b"\0") == wanted().split(b"\0")
    assert (project / "out" / "cp311" / "text").read_text() == TEXT + "\n"
