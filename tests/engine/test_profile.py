"""``profile``: the times of real compilers, also after a run whose compile is cached."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from command import bakery, digests
from projects import SOURCE, extension

pytestmark = pytest.mark.engine

RECIPE = 'name = "tiny"\n[matrix]\npython = ["3.11"]\n'


@pytest.mark.proof
def test_a_profile_has_the_compilers_of_the_run_that_compiled(tmp_path: Path) -> None:
    folder = extension(tmp_path / "project", RECIPE, f"{SOURCE}\n// {uuid.uuid4().hex}\n")
    first = bakery(folder, "wheel")
    built = digests(folder / "dist")
    assert "bakery: timed" not in first.log("wheel-cp311")
    fresh = json.loads(bakery(folder, "profile", "cp311", "--json").out)
    names = [item["name"].rpartition("/")[2] for item in fresh["commands"]]
    assert names[0] == "core.cpp"
    assert names[1].endswith(".so")
    assert fresh["cores"] >= 1
    compile_step = next(step for step in fresh["steps"] if step["title"].startswith("[compile "))
    for item in fresh["commands"]:
        assert compile_step["start"] - 0.5 <= item["start"]
        assert item["start"] + item["seconds"] <= compile_step["start"] + compile_step["seconds"] + 0.5
        assert item["mb"] > 0

    bakery(folder, "wheel", "--rebuild")
    trace = tmp_path / "trace.json"
    done = bakery(folder, "profile", "cp311", "--json", "--trace", str(trace))
    assert "the compile steps were cached; times are those of" in done.err
    again = json.loads(done.out)
    assert (again["commands"], again["run"], again["cached_since"]) == (fresh["commands"], fresh["run"], True)
    assert {event["ph"] for event in json.loads(trace.read_text())["traceEvents"]} == {"M", "X"}
    assert digests(folder / "dist") == built
