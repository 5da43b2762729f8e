"""The page of a run: what it is made of; tests/engine/test_report_browser.py opens it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs import ABOUT, make_run, runs_of
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.core.errors import OutputError
from bakery.runs import report_page
from bakery.runs.run_report import about


def embedded(page: Path) -> dict[str, object]:
    text = page.read_text().partition('<script type="application/json" id="data">')[2].partition("</script>")[0]
    document = json.loads(text)
    assert isinstance(document, dict)
    return document


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    (tmp_path / "bakery.toml").write_text('name = "demo"\n[matrix]\npython = ["3.11", "3.13"]\n')
    make_run(tmp_path, "1", ["cp311", "cp313"])
    make_run(tmp_path, "2", ["cp311", "cp313"], failed=["cp313"], seconds=5)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_writes_the_page_of_the_last_run_or_of_a_named_one(project: Path) -> None:
    for arguments, run in ((), "2"), (("1",), "1"):
        result = CliRunner().invoke(app, ["report", *arguments])
        assert not result.exception, result.output
        page = runs_of(project) / run / "report.html"
        assert result.stdout.split() == [str(page)]
        assert embedded(page)["run"] == run


def test_steps_compilers_and_the_run_before(project: Path) -> None:
    document = embedded(report_page.write(runs_of(project) / "2"))
    first, second = document["cells"]
    assert first["steps"] == [[0, 0.0, 2.0, -1], [1, 2.0, 6.0, -1]]
    # The second cell waits for the same first step, and compiles itself.
    assert second["steps"] == [[0, 0.0, 2.0, 0], [1, 2.5, 6.0, -1]]
    assert document["titles"] == ["compilers and Python", "compile"]
    assert max(document["running"]["counts"]) == 4
    assert document["running"]["counts"][0] == 0
    assert first["slowest"][0] == ["a.c", 2.0, 3.0, 120]
    assert document["previous"]["run"] == "1"
    assert document["previous"]["targets"]["wheel-cp311"] == {
        "result": "done",
        "seconds": 8.0,
        "tries": 1,
        "size": 2000,
    }
    (failure,) = document["failures"]
    assert failure["cells"] == ["cp313"]
    assert failure["lines"][-1] == "a.c:1:1: error: no"


def test_gpus_that_run_the_wheels(project: Path) -> None:
    gpus = embedded(report_page.write(runs_of(project) / "2"))["gpus"]
    (wheel,) = gpus["wheels"]
    runs = dict(zip([gpu["capability"] for gpu in gpus["names"]], wheel["by"], strict=True))
    assert (runs["7.5"], runs["8.0"], runs["8.6"], runs["9.0"]) == ("", "sm_80", "sm_80", "compute_90")
    assert wheel["device"] == {"sm_80": 3000, "compute_90": 500}


def test_the_page_says_what_ran_and_what_to_type_next(project: Path) -> None:
    page = report_page.write(runs_of(project) / "2")
    document = embedded(page)
    (failure,) = document["failures"]
    assert failure["commands"] == ["wheel-bakery logs cp313 --recipe demo", "wheel-bakery full --failed --recipe demo"]
    # Only its file finds a recipe that another file than bakery.toml has.
    file = runs_of(project) / "2/report.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"reference": "a b.toml"}))
    (failure,) = embedded(report_page.write(file.parent))["failures"]
    assert failure["commands"][0] == "wheel-bakery logs cp313 --recipe 'a b.toml'"
    assert failure["link"] == "logs/wheel-0.log"
    (wheel,) = document["wheels"]
    assert (wheel["cells"], wheel["platform"], wheel["kept"]) == (["cp311"], "0", False)
    # Each cell compiles itself, and they share a step.
    assert document["counts"] == {"steps": 3, "cached": 0, "compilations": 8, "hits": 2}
    assert document["about"] == ABOUT
    # Without a script, the page still has the result.
    plain = page.read_text().partition("<main>")[2].partition("</main>")[0]
    for text in ("1 of 2 cells done in 10.0s", "make failed", "a.c:1:1: error: no", "demo-1-0.whl", "a warning"):
        assert text in plain


def test_nothing_ends_the_script_or_the_data(project: Path) -> None:
    run = make_run(project, "3", ["</script><img src=x>"])
    text = report_page.write(run).read_text()
    assert "<img" not in text
    assert text.count("</script>") == 2


def test_a_folder_without_a_report_is_an_error(project: Path) -> None:
    run = runs_of(project) / "4"
    run.mkdir()
    with pytest.raises(OutputError, match=r"no report\.json"):
        report_page.write(run)
    for broken in ("[]", '{"recipe": "demo", "targets": [{}]}', "nothing"):
        (run / "report.json").write_text(broken)
        with pytest.raises(OutputError, match=r"report\.json"):
            report_page.write(run)
    result = CliRunner().invoke(app, ["report", "9"])
    assert "no run 9 with a report is kept" in str(result.exception)


def test_the_command_shows_no_credential_of_an_address(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--compiler-cache", "redis://ghp0token@cache.example:6379/0", "--set=X=https://u:hunter2@host/x"]
    monkeypatch.setattr("sys.argv", ["wheel-bakery", "wheel", *words])
    expected = "wheel-bakery wheel --compiler-cache redis://cache.example:6379/0 --set=X=https://host/x"
    assert about(project)["command"] == expected


def test_300_cells_fit_in_3_megabytes(project: Path) -> None:
    run = make_run(project, "5", [f"cp3{number}-cu128-linux_x86_64" for number in range(300)], steps=26, compiles=50)
    assert report_page.write(run).stat().st_size < 3_000_000
