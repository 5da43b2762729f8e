"""The image with IREE's tools: the hashes of its packages that ship with bakery, and two processes that bake it at once."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from bakery.core.errors import BakeError
from bakery.core.target_kinds import Kind
from bakery.engine.client import Engine
from bakery.engine.session import EngineSession
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.resolve.set_option import parse_set_options
from bakery.runs.buildx.board import Listener
from bakery_iree import tool_image
from bakery_iree.tool_image import hashes, image_name


@pytest.mark.parametrize("recipe", ["iree-cpu", "iree-cuda"])
def test_the_hashes_are_of_what_the_recipe_asks_for(recipe: str, tmp_path: Path) -> None:
    (loaded,) = load(recipe, tmp_path)
    plan = resolve(loaded)
    targets = [target for target in plan.targets() if target.kind is Kind.IMAGE]
    assert [target.cell.platform for target in targets] == list(loaded.recipe.platforms)
    for target in targets:
        (found,) = hashes(plan, target).values()
        files = found.packages["image"].files
        assert {"iree-base-compiler", "iree-base-runtime"} <= {file.name for file in files.values()}
        assert all(file.sha256 for file in files.values())
        # What differs from machine to machine is left as it is there.
        assert (found.images, found.system, found.suites) == ({}, {}, {})


def test_another_release_has_none_and_is_another_image(tmp_path: Path) -> None:
    (loaded,) = load("iree-cpu", tmp_path)
    plan = resolve(loaded, parse_set_options(["IREE_VERSION=3.12.0"]))
    assert not any(hashes(plan, target) for target in plan.targets() if target.kind is Kind.IMAGE)
    assert image_name("iree-cpu", "3.12.0", "x86_64") != image_name("iree-cpu", "3.13.0", "x86_64")


@pytest.mark.parametrize("made", [True, False])
def test_an_image_that_another_process_made_meanwhile_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, made: bool
) -> None:
    """Docker fails the slower one of two builds of an image: moby's ``image "NAME": already exists``."""
    said: list[str] = []
    answers = iter([False, made])

    def refused(*_: object) -> None:
        raise BakeError("1 cell failed", details=['ERROR: failed to solve: image "iree-cpu": already exists'])

    monkeypatch.setattr(tool_image, "_bake", refused)
    monkeypatch.setattr(Engine, "has_image", lambda *_: next(answers))
    session = EngineSession({"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}, "", None, said.append)
    with nullcontext() if made else pytest.raises(BakeError, match="1 cell failed"):
        name = tool_image.tool_image(session, Listener(), "3.13.0", machine="x86_64")
        assert name == image_name("iree-cpu", "3.13.0", "x86_64")
    assert [text.split()[0] for text in said] == ["baking", *(["another"] if made else [])]
