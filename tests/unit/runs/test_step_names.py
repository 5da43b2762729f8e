"""What steps do, in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bakery.runs.buildx.rawjson import parse
from bakery.runs.buildx.step_names import name_step

ROOT = Path(__file__).parents[3]
FILES = sorted([*ROOT.glob("tests/golden/recipes/*/*.Dockerfile"), *ROOT.glob("dockerfiles/*.Dockerfile")])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("[demo-test 2/2] RUN pytest", "test"),
        ("[cuda-13-requirements 1/1] RUN x", "resolve CUDA 13.0.3"),
        ("[cuda-13 1/1] RUN x", "toolkit CUDA 13.0.3"),
        ("[toolkit 1/1] WORKDIR /x", "toolkit CUDA 13.0.3"),
        ("[python-3.13 1/1] FROM docker.io/library/debian:trixie-slim@sha256:12", "image debian:trixie-slim"),
        (
            "[base-amd64 1/1] FROM quay.io/pypa/manylinux_2_28_x86_64:1@sha256:12",
            "image quay.io/pypa/manylinux_2_28_x86_64:1",
        ),
        ("exporting to client directory", "copy the result"),
        ("exporting to image", "write the image"),
        ("[internal] load build context", "[internal] load build context"),
        ("[own-stage 1/2] RUN x", "own-stage"),
    ],
)
def test_names(name: str, words: str) -> None:
    assert name_step(parse(name, ()), "demo", "13.0.3") == words


SAME = ("compile", "repair", "test", "toolkit", "wheel")
"""Stages whose name says it."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_stage_that_runs_a_command_has_words(path: Path) -> None:
    recipe = path.stem
    stages = re.findall(
        r"(?m)^FROM \S+ AS (\S+)\n((?:(?!FROM ).*\n)*)", re.sub(r"(?m)^FROM --\S+", "FROM", path.read_text())
    )
    assert stages
    for stage, body in stages:
        if re.search(r"(?m)^(RUN|ADD) ", body):
            words = name_step(parse(f"[{stage} 1/1] RUN x", ()), recipe)
            assert words not in (stage, stage.removeprefix(f"{recipe}-")) or words in SAME, stage
