"""``logs``: which logs of the kept runs are printed, and which of their lines; where ``shell`` opens."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from runs import runs_of
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.runs.kept_logs import failed_step, lines
from bakery.runs.run_report import RunReport, TargetReport

COMPILE = "# [compile 1/1] RUN make\na.c:1:1: error: no\n# [not a step] of a tool\n# exit code: 1\n"
LOG = f"# [system 1/1] RUN apt\n# CACHED\n{COMPILE}# [wheel-cp311 demo-test 2/2] RUN pytest\nok\n"


def write_report(run: Path, results: dict[str, str], stage: str = "") -> None:
    rows = [TargetReport(name, name.removeprefix("wheel-"), result) for name, result in results.items()]
    document = RunReport("demo", tuple(rows), Path("dist"), run, 1.0).to_json()
    document["failures"] = [
        {"cell": row.cell, "message": "", "hint": "", "details": [], "log": "", "stage": stage, "step": "1/3"}
        for row in rows
        if stage
    ]
    (run / "report.json").write_text(json.dumps(document))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a project with two runs: cp313 failed in the older one, cp311 was baked in both."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    (tmp_path / "bakery.toml").write_text('name = "demo"\n[matrix]\npython = ["3.11", "3.13"]\n')
    runs = {
        "1": {"wheel-cp311": ("done", "old\n"), "wheel-cp313": ("failed", LOG)},
        "2": {"wheel-cp311": ("done", LOG)},
        # A run with nothing to bake has no logs.
        "3": {},
    }
    for number, targets in runs.items():
        run = runs_of(tmp_path) / number
        (run / "logs").mkdir(parents=True)
        for name, (_, text) in targets.items():
            (run / "logs" / f"{name}.log").write_text(text)
        write_report(run, {name: result for name, (result, _) in targets.items()})
        os.utime(run, (int(number), int(number)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def logs(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["logs", *arguments])
    assert not result.exception, result.exception
    return result.stdout


def test_the_newest_log_of_a_cell(project: Path) -> None:
    assert logs("cp311") == LOG
    assert logs("cp313") == LOG
    assert logs() == LOG
    os.utime(runs_of(project) / "1", (9, 9))
    assert logs("cp311") == "old\n"
    # The log of the cell that failed, and no other one.
    assert logs() == LOG


def test_the_steps_of_a_stage(project: Path) -> None:
    assert logs("cp311", "--step", "compile") == COMPILE
    assert logs("cp311", "--step", "test") == "# [wheel-cp311 demo-test 2/2] RUN pytest\nok\n"


def test_a_stage_that_asked_for_the_repository_has_two_steps(project: Path) -> None:
    log = runs_of(project) / "2" / "logs" / "wheel-cp311.log"
    again = COMPILE.replace("[compile ", "[compile-again ")
    log.write_text(f"{COMPILE}# [compile-asked 1/2] COPY x\n{again}{LOG}")
    assert logs("cp311", "--step", "compile") == COMPILE + again + COMPILE
    assert logs("cp311", "--step", "compile-again") == again


def test_a_run_that_was_killed_has_logs_too(project: Path) -> None:
    for report in runs_of(project).glob("*/report.json"):
        report.unlink()
    assert logs("cp313") == LOG


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["cp399"], "no kept run has a log of cp399", "there are logs of wheel-cp311, wheel-cp313"),
        (["cp311", "--step", "repair"], "the run has no step of repair", "it has system, compile, demo-test"),
    ],
)
def test_what_there_is_instead(project: Path, arguments: list[str], message: str, hint: str) -> None:
    error = CliRunner().invoke(app, ["logs", *arguments]).exception
    assert str(error) == message
    assert getattr(error, "hint", "") == hint


def test_a_line_without_end_comes_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x" * 1_000_000 + "\nlast\n")
    found = list(lines(tmp_path / "log"))
    assert max(map(len, found)) == 1 << 16
    assert "".join(found) == "x" * 1_000_000 + "last"


def test_a_shell_opens_at_the_step_that_failed_last(project: Path) -> None:
    runs = runs_of(project)

    def write(number: str, cell: str, result: str, stage: str) -> None:
        write_report(runs / number, {f"wheel-{cell}": result}, stage)

    nothing = ("", "")
    assert failed_step(runs.parent, "demo", "cp311") == nothing
    write("1", "cp311", "failed", "requirements")
    # What was kept, or not started, is no bake.
    write("2", "cp311", "kept", "")
    write("3", "cp311", "canceled", "")
    assert failed_step(runs.parent, "demo", "cp311") == ("requirements", "1/3")
    assert failed_step(runs.parent, "demo", "cp313") == nothing
    assert failed_step(runs.parent, "other", "cp311") == nothing
    # An audit that failed has no stage.
    write("2", "cp311", "done", "")
    assert failed_step(runs.parent, "demo", "cp311") == nothing
    write("2", "cp311", "failed", "demo-test")
    error = CliRunner().invoke(app, ["shell", "cp311"]).exception
    assert getattr(error, "hint", "") == "wheel-bakery logs cp311 --step demo-test --recipe demo"
    write("2", "cp311", "failed", "gone")
    error = CliRunner().invoke(app, ["shell", "cp311"]).exception
    assert getattr(error, "hint", "") == "wheel-bakery logs cp311 --step compile --recipe demo"


def test_links_are_not_read(project: Path, tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("own")
    log = runs_of(project) / "2" / "logs" / "wheel-cp311.log"
    log.unlink()
    log.symlink_to(tmp_path / "own.txt")
    assert logs("cp311") == "old\n"
