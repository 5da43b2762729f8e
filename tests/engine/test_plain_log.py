"""The plain log of a run that builds everything anew: what is done, in few lines, and nothing of how."""

from __future__ import annotations

import re
import time
import uuid
from pathlib import Path

import pytest
from command import finish, start
from projects import SOURCE, extension

pytestmark = [pytest.mark.engine, pytest.mark.proof]

RECIPE = """\
name = "tiny"
[matrix]
python = ["3.11", "3.13"]
flavour = ["a", "b", "c"]
[builder]
environment = { FLAVOUR = "${FLAVOUR}" }
[wheel]
naming = { local = "${FLAVOUR}" }
"""
INSTRUCTIONS = re.compile(r"\b(?:RUN|COPY|ADD|WORKDIR|FROM|ENV)\b|<<|/programs/|/opt/|\.py\b")


def test_six_wheels_with_nothing_cached_in_sixty_lines(tmp_path: Path) -> None:
    folder = extension(tmp_path / "project", RECIPE, f"{SOURCE}// {uuid.uuid4()}\n")
    # A process of its own: a fork of this one would have the width of this one's output.
    began = time.monotonic()
    done = finish(start(folder, "wheel", "--no-cache"), folder, began, timeout_s=1200)
    assert done.code == 0, done.err
    lines = (done.err + done.out).splitlines()
    assert len(done.wheels) == 6
    assert len(lines) <= 60, done.err
    assert [line for line in lines if INSTRUCTIONS.search(line)] == []
    # It takes long enough for a line on any machine.
    assert any(re.match(r"cp31[13]-flavour[abc] +compilers and Python  \d", line) for line in lines), done.err
