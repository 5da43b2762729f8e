"""The library bakes: the block of its page, typed events, and a callback that raises."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from pages import blocks
from projects import SOURCE, extension

import bakery
from bakery import StepFinished, StepStarted

pytestmark = pytest.mark.engine

RECIPE = 'name = "tiny"\n[matrix]\npython = ["3.11"]\n'


class Stopped(Exception):
    """Raised by a callback."""


def test_the_block_that_bakes(
    tmp_path: Path, engine_environment: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = extension(tmp_path / "project", RECIPE, SOURCE)
    (block,) = (text for text in blocks("reference/library.md", "python") if ".bake(" in text)
    assert 'bakery.open("examples/cpp").recipe().plan()' in block
    names: dict[str, object] = {"bakery": bakery}
    block = block.replace('"examples/cpp"', repr(str(folder))).replace('groups=["full"]', 'groups=["wheel"]')
    exec(compile(block, "library.md", "exec"), names)
    (wheel,) = (folder / "dist").glob("*.whl")
    assert f"{wheel.name} {wheel.stat().st_size}" in capsys.readouterr().out.splitlines()


def test_a_callback_that_raises_ends_the_build(tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    folder = extension(tmp_path / "project", RECIPE, SOURCE)
    plan = bakery.open(folder, environ=dict(engine_environment) | {"HOME": os.environ["HOME"]}).recipe().plan()

    def refuse(event: object) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        plan.bake(on_event=refuse)
    assert not list((folder / "dist").glob("*.whl"))

    events: list[object] = []
    (wheel,) = plan.bake(on_event=events.append).wheels
    assert wheel.path.is_file()
    assert {StepStarted, StepFinished} <= set(map(type, events))
    # Up to date: nothing is baked, and the wheel is still the report's.
    events.clear()
    assert plan.bake(on_event=events.append).wheels == (wheel,)
    assert events == []
