"""Many cells: some fail, some are killed, and the rest is built; what is finished stays finished."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from pathlib import Path

import pytest
from command import Done, bakery, digests, finish, start
from projects import flavours
from runs import runs_of
from waiting import command_lines, wait_for

pytestmark = pytest.mark.engine

BAD = "if flavour == 'bad':\n    sys.exit('no ' + flavour + ' today')"


def results(done: Done) -> dict[str, str]:
    """Return cell's flavour → result."""
    return {name.rpartition("flavour")[2]: str(target["result"]) for name, target in done.results().items()}


def wheels(folder: Path) -> list[str]:
    """Return the flavours whose wheels are in dist/; nothing else may be there."""
    names = sorted(path.name for path in (folder / "dist").iterdir() if path.name != ".provenance")
    assert all(name.startswith("demo-1.0+") and name.endswith("-py3-none-any.whl") for name in names), names
    return [name.removeprefix("demo-1.0+").partition("-")[0] for name in names]


@pytest.mark.proof
def test_failed_cell_stops_nothing_and_is_all_that_is_built_again(tmp_path: Path) -> None:
    folder = flavours(tmp_path / "project", ["a", "bad", "c"], BAD)
    summary = tmp_path / "summary.md"
    done = bakery(folder, "wheel", code=11, environment={"GITHUB_STEP_SUMMARY": str(summary)})
    assert results(done) == {"a": "done", "bad": "failed", "c": "done"}
    assert wheels(folder) == ["a", "c"]
    report = json.loads((done.runs[-1] / "report.json").read_text())
    assert (report["version"], report["succeeded"], report["stopped"]) == (3, "some", "")
    (failure,) = report["failures"]
    assert (failure["cell"], Path(failure["log"]).parent) == ("cp311-flavourbad", done.runs[-1] / "logs")
    page = done.runs[-1] / "report.html"
    assert f"report: {page}" in done.err
    # The end of the log of the failed step is on the page, and the times of a cell that was built.
    assert "no bad today" in page.read_text()
    assert '"name":"cp311-flavoura","steps":[[' in page.read_text()
    failed = done.results()["wheel-cp311-flavourbad"]
    # Its setup.py fails as soon as it is asked what it requires.
    assert "ask the build backend what it requires failed: exit code: 1" in str(failed["reason"])
    assert failed["tries"] == 1
    assert "no bad today" in Path(str(failed["log"])).read_text()
    assert "1 of 3 cells failed" in done.err
    assert "2 of 3 cells" in summary.read_text()

    again = bakery(folder, "wheel", "--resume", code=11)
    assert results(again) == {"a": "kept", "bad": "failed", "c": "kept"}
    assert sorted(path.name for path in again.wheels) == sorted(path.name for path in done.wheels)
    assert results(bakery(folder, "wheel", "--failed", code=7)) == {"bad": "failed"}

    # A wheel that is gone is built again; so is everything when the source has changed.
    (folder / "dist" / "demo-1.0+a-py3-none-any.whl").unlink()
    assert results(bakery(folder, "wheel", "--resume", code=11)) == {"a": "done", "bad": "failed", "c": "kept"}
    backend = folder / "backend.py"
    backend.write_text(backend.read_text().replace("'bad'", "'worse'"))
    assert results(bakery(folder, "wheel", "--resume")) == {"a": "done", "bad": "done", "c": "done"}
    assert bakery(folder, "wheel", "--failed").err.endswith("nothing to bake\n")
    assert wheels(folder) == ["a", "bad", "c"]


@pytest.mark.proof
@pytest.mark.parametrize("parallel", ["1", "3"])
def test_a_step_that_cells_share_fails_once(tmp_path: Path, parallel: str) -> None:
    folder = flavours(tmp_path / "project", ["a", "b", "c", "other"], "")
    recipe = folder / "bakery.toml"
    # Resolved for Python 3.11 alone, where there is none; of content that no run had before.
    wanted = f"bakery-has-no-such-package==0.{uuid.uuid4().int % 10**9}; python_version < '3.12'"
    text = recipe.read_text().replace("[builder]", f'[builder]\nrequirements = ["{wanted}"]')
    excluded = [f'{{ python = "3.13", flavour = "{name}" }}' for name in "abc"] + [
        '{ python = "3.11", flavour = "other" }'
    ]
    recipe.write_text(text.replace('["3.11"]', f'["3.11", "3.13"]\nexclude = [{", ".join(excluded)}]'))
    done = bakery(folder, "wheel", "--max-parallel", parallel, code=11)
    told = results(done)
    assert told.pop("other") == "done"
    assert sorted(told.values()) == ["canceled", "canceled", "failed"]
    (failed,) = (name for name, result in told.items() if result == "failed")
    for name in set(told) - {failed}:
        reason = str(done.results()[f"wheel-cp311-flavour{name}"]["reason"])
        assert reason.startswith(
            f"skipped: it needs a step that failed in cp311-flavour{failed}: resolve build requirements"
        ), reason
    assert len([title for title in done.ran() if "no-such-package" in title and "requirements" in title]) >= 1
    end = done.err[done.err.index("bake: 3 of 4 cells failed") :]
    assert end.count("No matching distribution") == end.count("→ the whole log: ") == 1, end
    assert all(f"cp311-flavour{name}" in end.splitlines()[1] for name in "abc"), end
    assert wheels(folder) == ["other"]
    # What was stopped is taken up again with what failed.
    recipe.write_text(recipe.read_text().replace(f'"{wanted}"', ""))
    assert set(results(bakery(folder, "wheel", "--failed")).values()) == {"done"}
    assert wheels(folder) == ["a", "b", "c", "other"]


@pytest.mark.proof
def test_fail_fast_ends_the_others(tmp_path: Path) -> None:
    folder = flavours(tmp_path / "project", ["bad", "c", "d"], BAD + "\ntime.sleep(60)")
    done = bakery(folder, "wheel", "--fail-fast", "--max-parallel", "2", code=7, timeout_s=300)
    assert results(done) == {"bad": "failed", "c": "canceled", "d": "canceled"}
    assert wheels(folder) == []


@pytest.mark.proof
def test_time_limits(tmp_path: Path) -> None:
    folder = flavours(tmp_path / "project", ["a", "slow"], "if flavour == 'slow':\n    time.sleep(600)")
    bakery(folder, "wheel", "--only", "*-flavoura")
    done = bakery(folder, "wheel", "--resume", "--cell-timeout", "5s", code=11)
    assert results(done) == {"a": "kept", "slow": "failed"}
    assert "not done within 5 s" in str(done.results()["wheel-cp311-flavourslow"]["reason"])
    done = bakery(folder, "wheel", "--resume", "--timeout", "4s", code=11)
    assert results(done) == {"a": "kept", "slow": "canceled"}
    assert "time limit reached with 1 of 2 cells done" in done.err
    assert bakery(folder, "wheel", "--timeout", "soon", code=2).err.startswith("usage: --timeout: 'soon'")


def running(folder: Path) -> list[str]:
    """Return what still runs of bakes in a folder."""
    return [line for line in command_lines() if str(folder) in line or str(runs_of(folder)) in line]


def bake_of(folder: Path, cell: str) -> list[int]:
    """Return the process ids of the bake of a cell: docker, and its plugin in a group of its own."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it is gone
            continue
        if f"wheel-{cell}".encode() in words and any(str(runs_of(folder)).encode() in word for word in words):
            found.append(int(process.name))
    return found


@pytest.mark.proof
def test_killed_bake_is_tried_again_and_a_killed_run_gone_on_with(tmp_path: Path) -> None:
    folder = flavours(tmp_path / "project", ["a", "slow"], "if flavour == 'slow':\n    time.sleep(12)")
    child = start(folder, "wheel", "--max-parallel", "2")
    # Until it is whole, it has another name beside its place.
    assert wait_for(lambda: bool([*folder.glob("dist/*.whl")]), 200)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert wait_for(lambda: not running(folder), 30), running(folder)
    assert wheels(folder) == ["a"]

    child = start(folder, "wheel", "--resume")
    assert wait_for(lambda: len(bake_of(folder, "cp311-flavourslow")) > 1, 60)
    # Either of them alone may still come to a good end.
    for process in bake_of(folder, "cp311-flavourslow"):
        os.kill(process, signal.SIGKILL)
    done = finish(child, folder, time.monotonic(), 200)
    assert done.code == 0, done.err
    assert results(done) == {"a": "kept", "slow": "done"}
    assert done.results()["wheel-cp311-flavourslow"]["tries"] == 2
    assert "cp311-flavourslow: docker buildx bake was ended by SIGKILL; try 2 in 5.0s" in done.err
    assert not list(runs_of(folder).glob("*/stage"))


@pytest.mark.proof
def test_two_runs_at_once_in_one_project(tmp_path: Path) -> None:
    folder = flavours(tmp_path / "project", ["a", "b"], "time.sleep(2)")
    began = time.monotonic()
    children = [start(folder, "wheel") for _ in range(2)]
    done = [finish(child, folder, began) for child in children]
    assert [one.code for one in done] == [0, 0], done[0].err + done[1].err
    assert wheels(folder) == ["a", "b"]
    for one in done:
        for target in one.results().values():
            (wheel,) = target["wheels"]  # type: ignore[misc, attr-defined]
            assert digests(folder / "dist")[Path(wheel["path"]).name]
    assert results(bakery(folder, "wheel", "--resume")) == {"a": "kept", "b": "kept"}
