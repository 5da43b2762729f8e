"""The shipped ujson recipe by cibuildwheel itself, on this engine: the same wheels as baked ones, audited and tested."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cibuildwheel_image import can_be_made, make_image
from command import ROOT, bakery, shell

pytestmark = [pytest.mark.engine, pytest.mark.proof]


@pytest.fixture(scope="module")
def image(
    debian: str, engine_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Give an image that cibuildwheel can use: PyPA's layout, with what it calls inside."""
    assert debian
    if not can_be_made():
        pytest.skip("the stand-in is made of pyenv's Pythons 3.11 and 3.13")
    name = make_image(engine_environment, tmp_path_factory.mktemp("context"))
    yield name
    shell(engine_environment, "docker", "rmi", "--force", name)


def project(folder: Path, image: str) -> Path:
    """Write the shipped recipe with this image for a base."""
    text = (ROOT / "bakery" / "recipe" / "shipped" / "ujson.toml").read_text()
    folder.mkdir()
    (folder / "bakery.toml").write_text(f'{text}\n[builder]\nbase = {{ image = "{image}" }}\n')
    return folder


def told(wheel: Path) -> dict[str, Any]:
    """Return what stands in a wheel's audit and does not depend on when it was built."""
    (report,) = json.loads(bakery(wheel.parent, "audit", str(wheel), "--json").out)
    return {"objects": len(report["objects"]), **{key: report[key] for key in ("ok", "bundled", "external")}}


def test_its_wheels_are_those_of_a_bake(tmp_path: Path, image: str) -> None:
    built = bakery(project(tmp_path / "built", image), "full", "--backend", "cibuildwheel")
    baked = bakery(project(tmp_path / "baked", image), "full")
    assert (
        set(built.results())
        == set(baked.results())
        == {f"{kind}-{python}" for kind in ("wheel", "test") for python in ("cp311", "cp313")}
    )
    assert [path.name for path in sorted(built.wheels)] == [path.name for path in sorted(baked.wheels)]
    assert len(built.wheels) == 2
    for one, other in zip(sorted(built.wheels), sorted(baked.wheels), strict=True):
        assert told(one) == told(other)
        files = [{name for name in zipfile.ZipFile(path).namelist() if not name.endswith("/")} for path in (one, other)]
        assert files[0] == files[1]
    # What is finished is not built again.
    again = bakery(tmp_path / "built", "full", "--backend", "cibuildwheel", "--resume")
    assert {target["result"] for target in again.results().values()} == {"kept"}
    assert again.seconds < built.seconds / 3


def test_a_failed_build_is_told_with_its_log(tmp_path: Path, image: str) -> None:
    folder = project(tmp_path / "failed", image)
    recipe = folder / "bakery.toml"
    recipe.write_text(recipe.read_text().replace('imports = ["ujson"]', 'imports = ["nothing"]'))
    done = bakery(folder, "full", "--backend", "cibuildwheel", "--only", "cp311", code=7)
    assert "cp311: cibuildwheel failed" in done.err
    assert "No module named 'nothing'" in done.err
    assert not (folder / "dist").exists()
