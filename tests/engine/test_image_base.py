"""Base ``image``: an image in manylinux layout, pulled from a registry by its digest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import bakery
from projects import example
from registry import Pushed

pytestmark = pytest.mark.engine


def recipe(name: str, digest: str) -> str:
    """Return a recipe of examples/cpp on an image."""
    return f"""\
name = "cpp"
[builder]
base = {{ image = "{name}", digest = "{digest}" }}
[wheel.repair]
strip = true
[test]
imports = ["bakery_example_cpp"]
"""


def test_wheel_has_the_platform_of_the_image(tmp_path: Path, pushed: Pushed) -> None:
    folder = example(tmp_path / "project", recipe(pushed.name, pushed.digest))
    done = bakery(folder, "full")
    (wheel,) = done.wheels
    policies = re.findall(r"manylinux_2_(\d+)_x86_64", wheel.name)
    assert policies
    assert min(map(int, policies)) <= 36
    assert wheel.name.startswith("bakery_example_cpp-1.0.0-cp311-cp311-manylinux")
    text = (done.runs[-1] / "Dockerfile").read_text()
    assert f"FROM {pushed.name}@{pushed.digest} AS root\n" in text


def test_dockerfile_is_the_same_but_for_its_base(tmp_path: Path) -> None:
    """The stages above ``root`` are the base's own; the others are the same, and compile and repair to the letter."""
    image = example(tmp_path / "image", recipe("example.invalid/manylinux_2_28_x86_64:1", "sha256:" + "0" * 64))
    lines = recipe("", "").splitlines(keepends=True)
    debian = example(tmp_path / "debian", "".join(line for line in lines if not line.startswith("base =")))
    stages, texts = [], []
    for folder in (image, debian):
        bakery(folder, "generate")
        text = (folder / "dockerfiles" / "cpp.Dockerfile").read_text()
        stages.append(re.findall(r"^FROM .* AS (?!root|python-)(\S+)$", text, re.MULTILINE))
        texts.append(text[text.index("FROM builder AS compile") : text.index("# A clean base")])
    assert stages[0] == stages[1]
    assert texts[0] == texts[1]


def test_digest_that_is_not_there_is_told(tmp_path: Path, pushed: Pushed) -> None:
    wrong = "sha256:" + "1" * 64
    folder = example(tmp_path / "project", recipe(pushed.name, wrong))
    done = bakery(folder, "wheel", code=7)
    assert wrong in done.err
    assert "not found" in done.err


@pytest.mark.proof
def test_registry_that_does_not_answer_is_told(tmp_path: Path) -> None:
    folder = example(tmp_path / "project", recipe("127.0.0.1:9/nothing:1", "sha256:" + "1" * 64))
    done = bakery(folder, "wheel", code=7)
    assert "127.0.0.1:9" in done.err
    assert "→ " in done.err
