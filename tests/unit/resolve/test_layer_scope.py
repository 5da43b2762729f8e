"""What a step takes from layers with source or compiled files is never taken for another project's: see `SCOPE`."""

from __future__ import annotations

from pathlib import Path

import pytest
from plans import plan_of

from bakery.plan.dockerfile import Copy, Mount, Run, Stage
from bakery.plan.values import literal
from bakery.resolve.stage_inputs import SCOPE, SCOPE_STAGE

RECIPES = {path.stem: path.read_text() for path in (Path(__file__).parents[2] / "golden" / "recipes").glob("*.toml")}
RECIPES |= {
    "before-build": 'name = "x"\n[builder]\nbefore-build = "make"\n',
    "no compiler cache": 'name = "x"\n[builder]\ncompiler-cache = false\n',
    "native alone": 'name = "x"\n[builder]\ncompiler-cache = false\n[native]\ncommand = "make"\ninto = "lib"\n',
}


def takes(stage: Stage, full: set[str]) -> bool:
    """Say whether a stage takes files from the layers of others, besides those that it starts from."""
    for step in stage.steps:
        sources = [step.from_] if isinstance(step, Copy) else []
        sources += [mount.from_ for mount in step.mounts] if isinstance(step, Run) else []
        if full.intersection(sources):
            return True
    return False


def is_own(stage: Stage) -> bool:
    """Say whether each step of a stage that may take something has the scope in its key."""
    starts = stage.base == literal(SCOPE_STAGE)
    # What the checkout's description tells is linked: that is equal only where the commits are.
    return all(
        (starts and (not step.link or step.from_ == "git"))
        if isinstance(step, Copy)
        else not isinstance(step, Run) or SCOPE in step.mounts
        for step in stage.steps
    )


@pytest.mark.parametrize("name", RECIPES)
def test_all_that_takes_files_of_the_project_is_its_own(name: str) -> None:
    stages = plan_of(RECIPES[name]).stages
    # They have the source itself, which is another one in another project.
    full = {stage.name for stage in stages if any(is_source(mount) for mount in mounts(stage))}
    checked = set()
    for stage in stages:
        begins = any(stage.base == literal(one) for one in full)
        # The last three take the wheel or compiled objects, whose bytes differ.
        if stage.name in full or stage.name.endswith(("-wheel", "-test", "-compiler-cache")):
            continue
        if begins or takes(stage, full):
            assert begins or is_own(stage), stage
            full.add(stage.name)
            checked.add(stage.name)
    assert {"builder", "repair", "ingredients"} <= checked
    assert {stage.name for stage in stages if stage.name.endswith(("-asked", "-again"))} <= checked


def is_source(mount: Mount) -> bool:
    """Say whether a mount has the project's source, for its code to run there."""
    return (mount.target == "/source" or (mount.target == "/src" and mount.writable)) and mount.from_ in ("", "source")


def mounts(stage: Stage) -> list[Mount]:
    """Return all mounts of a stage's steps."""
    return [mount for step in stage.steps if isinstance(step, Run) for mount in step.mounts]
