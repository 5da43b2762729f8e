"""A package in a folder of its source, whose build needs the files beside it."""

from __future__ import annotations

import pytest
from plans import plan_of

from bakery.emit.cibuildwheel import configurations
from bakery.emit.dockerfile import dockerfile

RECIPE = """
name = "demo"
source = { path = ".", subdirectory = "python/pkg/" }
platforms = ["linux/amd64", "macos/arm64"]
builder = { before-build = "sh vendor.sh" }
test = { files = ["tests"], command = "ls tests" }
"""


def test_the_package_is_built_and_files_are_taken_from_the_top() -> None:
    plan = plan_of(RECIPE)
    text = dockerfile(plan)
    assert "/requires.py /src/python/pkg /requires" in text
    assert "--outdir /wheels/built /src/python/pkg" in text
    assert "cp -r /src/tests /work/" in text
    config = "".join(configurations(plan).values())
    assert "steps.py take {package}/../.. tests" in config


@pytest.mark.parametrize("source", ["git+https://host/a.git@v1#subdirectory=sub", "git+file:///a@b#subdirectory=sub"])
def test_git_sources_are_written_as_for_pip(source: str) -> None:
    plan = plan_of(f'name = "demo"\nsource = "{source}"\n')
    assert plan.facts.subdirectory == "sub"
    assert "/wheels/built /src/sub" in dockerfile(plan)


def test_the_top_is_no_subdirectory() -> None:
    assert plan_of('name = "demo"\nsource = { path = ".", subdirectory = "./" }').facts.subdirectory == "."
