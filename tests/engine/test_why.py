"""Why stages were built again, and why the compiler cache did not have what a cell compiled."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest
from command import bakery
from projects import SOURCE, extension
from repositories import commit, git

pytestmark = pytest.mark.engine

RECIPE = 'name = "tiny"\n[matrix]\npython = ["3.11"]\n'


def misses(folder: Path) -> dict[str, str]:
    """Build the wheel; return each object that was compiled, and why."""
    bakery(folder, "wheel")
    told = json.loads(bakery(folder, "why", "cp311", "--compiler-cache", "--json").out)["misses"]
    return {Path(item["object"]).name: item["reason"] for item in told}


@pytest.mark.proof
def test_the_file_or_argument_that_differed_is_named(tmp_path: Path) -> None:
    folder = extension(tmp_path / "project", RECIPE, f'#include "own.h"\nint own = OWN;\n{SOURCE}// {uuid.uuid4()}\n')
    header = folder / "src" / "own.h"
    header.write_text("#define OWN 1\n")
    assert misses(folder) == {"core.o": "never compiled here"}
    header.write_text("#define OWN 2\n")
    (reason,) = misses(folder).values()
    assert reason.startswith("changed: ")
    assert reason.endswith("src/own.h")
    (folder / "bakery.toml").write_text(f'{RECIPE}[builder.environment]\nCPPFLAGS = "-fno-plt"\n')
    assert misses(folder) == {"core.o": "arguments: now -fno-plt"}


def stages(folder: Path, cell: str = "cp311") -> tuple[str, dict[str, dict[str, object]]]:
    """Return ``next`` or ``last``, and stage → what ``why`` says of it."""
    document = json.loads(bakery(folder, "why", cell, "--json").out)
    return document["bake"], {item["stage"]: item for item in document["stages"]}


@pytest.mark.proof
def test_the_stages_that_are_built_again_and_why(tmp_path: Path) -> None:
    recipe = f'{RECIPE}[variables]\nLEVEL = "1"\n[builder.environment]\nLEVEL = "${{LEVEL}}"\n'
    folder = extension(tmp_path / "project", recipe, f"{SOURCE}// {uuid.uuid4()}\n")
    assert "replaced" not in bakery(folder, "wheel").err
    bake, said = stages(folder)
    assert (bake, said["compile"]["state"]) == ("last", "rebuilt")

    source = folder / "src" / "core.cpp"
    source.write_text(f"{source.read_text()}int more = 1;\n")
    bake, said = stages(folder)
    assert (bake, said["compile"]) == (
        "next",
        {"stage": "compile", "state": "rebuilt", "because": ["src/core.cpp changed"]},
    )
    assert (said["repair"]["state"], said["requirements"]["state"]) == ("rebuilt", "depends")
    first, *_, last = bakery(folder, "why").out.splitlines()
    assert re.fullmatch(r"src/core\.cpp changed: project, .*compile run again", first)
    assert re.fullmatch(r"cached: \d+ of \d+ stages \(--all lists them\)", last)
    (run,) = json.loads(bakery(folder, "wheel", "--json").out)["runs"]
    (wheel,) = run["targets"][0]["wheels"]
    assert run["replaced"] == {Path(wheel["path"]).name: "src/core.cpp changed"}
    bake, said = stages(folder)
    assert (bake, said["compile"]["because"]) == ("last", ["src/core.cpp changed"])
    assert (said["repair"]["state"], said["repair"]["because"]) == ("rebuilt", ["because compile is"])
    # It gave the same requirements again.
    assert said["project"]["state"] == "rebuilt"
    assert said["requirements"]["state"] == said["builder"]["state"] == "cached"

    (folder / "bakery.toml").write_text(recipe.replace('"1"', '"2"'))
    bake, said = stages(folder)
    assert (bake, said["compile"]["because"]) == (
        "next",
        ["build argument LEVEL 1 -> 2", "environment variable LEVEL 1 -> 2"],
    )
    (folder / "bakery.toml").write_text(f'{recipe}[builder]\nbase = "manylinux_2_28"\n')
    shown = bakery(folder, "why", "cp311", "--all").out
    assert "\nroot: rebuilt, base python-3.11 -> base-amd64\n" in shown, shown


@pytest.mark.proof
def test_the_date_of_the_commit_is_that_of_the_bake(tmp_path: Path) -> None:
    """Nothing changed since the bake, for each cell; after a commit, its date did."""
    folder = extension(tmp_path / "project", RECIPE.replace('"3.11"', '"3.11", "3.13"'), f"{SOURCE}// {uuid.uuid4()}\n")
    git(folder, "init", "--quiet")
    commit(folder, 1_600_000_000, _gitignore="/dist\n/.bakery\n")
    bakery(folder, "wheel")
    assert [stages(folder, cell)[0] for cell in ("cp311", "cp313")] == ["last", "last"]
    commit(folder, 1_600_000_100, pyproject_toml=(folder / "pyproject.toml").read_text() + "\n")
    for cell in ("cp311", "cp313"):
        bake, said = stages(folder, cell)
        assert (bake, said["compile"]["because"]) == (
            "next",
            ["pyproject.toml changed", "build argument SOURCE_DATE_EPOCH 1600000000 -> 1600000100"],
        )


@pytest.mark.proof
def test_packages_are_named_after_the_bake_without_a_lock(tmp_path: Path) -> None:
    folder = extension(tmp_path / "project", RECIPE, f"{SOURCE}// {uuid.uuid4()}\n")
    bakery(folder, "wheel")
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace("setuptools>=77", "setuptools>=77,<83"))
    assert "without a lock, new releases of packages" in bakery(folder, "why", "cp311").err
    bake, said = stages(folder)
    assert (bake, said["requirements"]["state"]) == ("next", "depends")
    assert "pyproject.toml changed (and 1 more)" in bakery(folder, "wheel").err
    bake, said = stages(folder)
    (reason,) = said["requirements"]["because"]  # type: ignore[misc]
    assert bake == "last"
    assert re.fullmatch(r"package setuptools \S+ -> 82\.\S+", str(reason)), reason
    assert said["builder"]["state"] == "rebuilt"
