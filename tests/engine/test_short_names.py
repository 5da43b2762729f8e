"""Bases by short name, such as ``manylinux_2_28``: their images come from a registry that stands in for PyPA's.

The images are stand-ins of the same layout, so their digests are others; BASE_DIGEST names them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import manylinux_many
import pytest
from command import bakery, shell
from projects import example
from registry import Pushed, push
from standins import NAMES

from bakery.toolchains.facts import pinned_images

pytestmark = pytest.mark.engine

NAME = "manylinux_2_28"


def recipe(*pythons: str, more: str = "") -> str:
    """Return a recipe of examples/cpp on the short name."""
    listed = ", ".join(f'"{python}"' for python in pythons)
    return (
        f'name = "cpp"\n[matrix]\npython = [{listed}]\n[builder]\nbase = "{NAME}"\n{more}'
        '[wheel.repair]\nstrip = true\n[test]\nimports = ["bakery_example_cpp"]\n'
    )


def stand_in(environment: Mapping[str, str], registry: str, image: str) -> Pushed:
    """Leave an image in the registry under the name and tag that the short name stands for."""
    return push(environment, image, f"{registry}/{NAMES['redhat']}")


@pytest.mark.proof
def test_image_of_a_short_name_comes_from_the_mirror(
    tmp_path: Path, registry: str, manylinux_image: str, engine_environment: Mapping[str, str]
) -> None:
    pushed = stand_in(engine_environment, registry, manylinux_image)
    folder = example(tmp_path / "project", recipe("3.11"))
    done = bakery(folder, "wheel", environment=pushed.mirrored)
    (wheel,) = done.wheels
    assert re.match(r"bakery_example_cpp-1\.0\.0-cp311-cp311-manylinux_2_\d+_x86_64", wheel.name)
    text = (done.runs[-1] / "Dockerfile").read_text()
    assert f'ARG BASE_REGISTRY="{registry}/pypa"\n' in text
    row = pinned_images()[NAME][0]
    assert f"FROM ${{BASE_REGISTRY}}/{NAME}_x86_64:{row.tag}@{pushed.digest} AS base-amd64\n" in text
    assert "FROM base-${TARGETARCH} AS root\n" in text


@pytest.mark.proof
def test_digest_of_the_facts_is_required_of_a_mirror(
    tmp_path: Path, registry: str, manylinux_image: str, engine_environment: Mapping[str, str]
) -> None:
    pushed = stand_in(engine_environment, registry, manylinux_image)
    folder = example(tmp_path / "project", recipe("3.11"))
    place = {"BAKERY_BASE_REGISTRY": pushed.mirrored["BAKERY_BASE_REGISTRY"]}
    done = bakery(folder, "wheel", environment=place, code=7)
    assert pinned_images()[NAME][0].digest in done.err
    assert "not found" in done.err


@pytest.fixture(scope="module")
def many(registry: str, debian: str, engine_environment: Mapping[str, str]) -> Pushed:
    """Give a stand-in with every Python of this machine's pyenv."""
    if not {"cp310-cp310", "cp312-cp312"} <= set(manylinux_many.pythons()):
        pytest.skip("this machine has no pyenv with Python 3.10 and 3.12")
    return stand_in(engine_environment, registry, manylinux_many.make(engine_environment))


@pytest.mark.proof
def test_pythons_that_debian_lacks(tmp_path: Path, many: Pushed) -> None:
    folder = example(tmp_path / "project", recipe("3.10", "3.12"))
    environment = many.mirrored
    done = bakery(folder, "full", environment=environment)
    assert {target["result"] for target in done.results().values()} == {"done"}
    wheels = sorted(done.wheels)
    assert [wheel.name.split("-")[2] for wheel in wheels] == ["cp310", "cp312"]
    for wheel in wheels:
        # The C library of the base: no newer one is promised.
        floors = [int(floor) for floor in re.findall(r"manylinux_2_(\d+)_x86_64", wheel.name)]
        assert floors
        assert min(floors) <= 36
        assert "glibc" in bakery(folder, "audit", str(wheel)).out

    # A lock has the image by its name and digest, and a locked build of it is the same.
    before = {wheel.name: wheel.read_bytes() for wheel in wheels}
    bakery(folder, "lock", environment=environment)
    assert many.digest in (folder / "bakery.lock").read_text()
    bakery(folder, "wheel", "--locked", environment=environment)
    assert {wheel.name: wheel.read_bytes() for wheel in wheels} == before


@pytest.mark.proof
def test_plain_bake_of_a_short_name(
    tmp_path: Path, many: Pushed, engine_environment: Mapping[str, str], ca_bundle: Path | None
) -> None:
    """The generated files work without bakery, also where the platform is chosen by the bake file."""
    folder = example(tmp_path / "project", recipe("3.12"))
    bakery(folder, "generate", environment=many.mirrored)
    given = {**engine_environment, **({"CA_BUNDLE": str(ca_bundle)} if ca_bundle else {})}
    allowed = ("--allow", f"fs.read={ca_bundle}") if ca_bundle else ()
    shell(given, "docker", "buildx", "bake", "-f", "bake/cpp.hcl", *allowed, "wheel", cwd=folder)
    assert list((folder / "wheels").rglob("bakery_example_cpp-1.0.0-cp312-cp312-manylinux*.whl"))
