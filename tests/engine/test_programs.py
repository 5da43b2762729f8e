"""Bakery's programs in a build: which steps a changed program repeats, and whose programs a run of bakery takes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from command import ROOT, bakery, repeated
from projects import pure

pytestmark = pytest.mark.engine

CELL = "wheel-cp311"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, engine_environment: Mapping[str, str]) -> Path:
    """Give a checkout of the example in C++, on an engine that has its base."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("bake", "dockerfiles", "examples/cpp"):
        shutil.copytree(ROOT / name, folder / name)
    bakery(ROOT, "wheel", "-r", "cpp", "--only", "cp311", "--output", str(folder / "first"))
    return folder


def baked(checkout: Path, environment: Mapping[str, str], ca_bundle: Path | None) -> set[str]:
    """Bake one wheel by docker alone; return the stages whose steps ran."""
    secret = {"CA_BUNDLE": str(ca_bundle)} if ca_bundle else {}
    allow = [f"--allow=fs.read={ca_bundle}"] if ca_bundle else []
    done = subprocess.run(
        ["docker", "buildx", "bake", "-f", "bake/cpp.hcl", "--progress=plain", *allow, CELL],
        cwd=checkout,
        env={**environment, **secret},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # With several targets, the name of one comes first.
    steps = dict(re.findall(r"(?m)^#(\d+) \[(?:\S+ )?(\S+) \d+/\d+\] (?:RUN|COPY)", done.stderr))
    # Neither cached, nor canceled because its result was found while BuildKit still computed its cache key.
    ran = set(re.findall(r"(?m)^#(\d+) DONE ", done.stderr))
    # The folder of all programs is another one; what counts is who uses them. Bakes of other projects share the copies of
    # a description, under the name of whose bake came first, and the empty lock, which uses no program: BuildKit repeats
    # a shared step for as long as another bake is alive (moby/buildkit#6954). A copy of nothing has no key of its contents.
    copied = {"programs", "tools", "lock", "git-files"}
    stages = {stage for number, stage in steps.items() if number in ran} - copied
    return {stage for stage in stages if not stage.endswith("-asked")}


@pytest.mark.proof
@pytest.mark.parametrize(
    ("program", "stages"),
    [
        ("cache/carry-ccache", set()),
        ("finish/archive.py", {"repair"}),
        ("test/smoke.py", set()),
        ("source/requires.py", {"project", "repository"}),
    ],
)
def test_a_changed_program_repeats_the_steps_of_its_role_and_no_others(
    checkout: Path, engine_environment: Mapping[str, str], ca_bundle: Path | None, program: str, stages: set[str]
) -> None:
    path = checkout / "dockerfiles/bin" / program
    text = path.read_text()

    def baked_again() -> set[str]:
        return baked(checkout, engine_environment, ca_bundle)

    def baked_after_a_change() -> set[str]:
        path.write_text(f"{text}\n# changed for {uuid4().hex}\n")
        # The wheel is the same, and whether BuildKit copies it again is its own choice.
        return baked_again() - {"cpp-wheel"}

    baked_again()
    assert repeated(baked_again) == set()
    assert repeated(baked_after_a_change, stages) == stages
    path.write_text(text)
    assert repeated(baked_again) == set()


def test_a_run_of_bakery_takes_no_program_of_the_checkout(tmp_path: Path) -> None:
    folder = pure(tmp_path / "project", 'name = "demo"\n[wheel]\nrepair = false\n')
    bakery(folder, "generate")
    programs = [path for path in (folder / "dockerfiles/bin").rglob("*") if path.is_file()]
    assert programs
    for path in programs:
        path.write_text("#!/bin/sh\nexit 1\n")
    assert [wheel.name for wheel in bakery(folder, "wheel").wheels] == ["demo-1.0-py3-none-any.whl"]
