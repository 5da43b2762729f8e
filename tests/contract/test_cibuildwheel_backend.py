"""Runs by cibuildwheel: what is kept, what fails, what ends early. The builder stands in; the audit is the real one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import plans
import pytest
from elfs import shared_object
from processes import linux_build
from wheels import write_wheel

from bakery.core.errors import AuditError, SomeFailed, UsageError
from bakery.plan.model import Plan
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.runs.cibuildwheel import process as tool
from bakery.runs.cibuildwheel.run import Host, build_plan
from bakery.runs.conclusion import conclusion
from bakery.runs.run_options import CellSelection, Options
from bakery.runs.run_report import RunReport

RECIPE = 'name = "demo"\n[matrix]\npython = ["3.11", "3.13"]\n'


@dataclass
class Builder:
    """Stands in for cibuildwheel.

    Attributes:
        built: the identifiers that it was asked for, a line for each call.
        fails: identifiers that it fails for.
        tag: platform of the wheels that it writes.
    """

    built: list[str] = field(default_factory=list)
    fails: set[str] = field(default_factory=set)
    tag: str = "manylinux_2_28_x86_64"
    late: bool = False

    def __call__(self, request: tool.Build, _: object, line: Callable[[str], None], stop: tool.Stop) -> tool.Ended:
        self.built.append(" ".join(request.identifiers))
        line("building")
        request.log.parent.mkdir(parents=True, exist_ok=True)
        request.log.write_text("building\n")
        if self.late:
            stopped = stop.requested.wait(request.timeout_s)
            return tool.Ended("killed", late=not stopped, stopped=stopped)
        if request.identifiers[0] in self.fails:
            return tool.Ended("no compiler\nreally none", late=False)
        python = request.identifiers[0].partition("-")[0]
        request.output.mkdir(parents=True, exist_ok=True)
        name = f"demo/_core.cpython-{python[2:]}-x86_64-linux-gnu.so"
        write_wheel(request.output, f"{python}-{python}-{self.tag}", {name: shared_object()})
        return tool.Ended("", late=False)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    made = Builder()
    monkeypatch.setattr(tool, "build", made)
    monkeypatch.setattr(tool, "command", lambda _: ["cibuildwheel"])
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "bakery.toml").write_text(RECIPE)
    return folder


@pytest.fixture
def plan(project: Path) -> Plan:
    (item,) = load(None, project)
    return resolve(item)


def run(folder: Path, plan: Plan, groups: tuple[str, ...] = ("full",), **more: object) -> RunReport:
    environment = {"XDG_CACHE_HOME": str(folder.parent / "cache"), "HOME": str(folder.parent)}
    return build_plan(folder, plan, Options(groups, **more), Host(environment), "linux")  # type: ignore[arg-type]


def results(report: RunReport) -> dict[str, str]:
    return {target.name: target.result for target in report.targets}


def test_what_is_finished_is_not_built_again(project: Path, plan: Plan, builder: Builder) -> None:
    first = run(project, plan)
    assert conclusion([first]) is None
    assert builder.built == ["cp311-manylinux_x86_64", "cp313-manylinux_x86_64"]
    second = run(project, plan, selection=CellSelection.UNFINISHED)
    assert set(results(second).values()) == {"kept"}
    assert sorted(wheel.path for target in second.targets for wheel in target.wheels) == sorted(
        (project / "dist").iterdir()
    )
    # A wheel that is gone, another test, another file: built again.
    next((project / "dist").glob("*cp313*")).unlink()
    assert results(run(project, plan, selection=CellSelection.UNFINISHED))["wheel-cp313"] == "done"
    assert len(builder.built) == 3
    (project / "new.c").write_text("int x;")
    run(project, plan, selection=CellSelection.UNFINISHED)
    assert len(builder.built) == 5


def test_another_base_or_promise_is_another_wheel(project: Path, builder: Builder) -> None:
    # The second one is of the cells of an override; the others keep their wheels.
    own = '[[matrix.overrides]]\nwhere = {{ python = "3.13" }}\nwheel = {{ max-size = "{} MB" }}\n'
    for base, size, built in (("28", 10, 2), ("34", 10, 4), ("34", 20, 5), ("34", 20, 5)):
        plan = plans.written(project, f'{RECIPE}{own.format(size)}[builder]\nbase = "manylinux_2_{base}"\n')
        run(project, plan, selection=CellSelection.UNFINISHED)
        assert len(builder.built) == built


def test_a_failed_cell_stops_no_other(project: Path, plan: Plan, builder: Builder) -> None:
    builder.fails = {"cp311-manylinux_x86_64"}
    report = run(project, plan)
    assert results(report) == {
        "wheel-cp311": "failed",
        "test-cp311": "failed",
        "wheel-cp313": "done",
        "test-cp313": "done",
    }
    judged = conclusion([report])
    assert judged
    assert judged.exit_code == SomeFailed.exit_code
    assert "1 of 2 cells failed: cp311: cibuildwheel failed" in judged.message
    assert judged.details == ("no compiler", "really none")
    builder.fails = set()
    again = run(project, plan, selection=CellSelection.FAILED)
    assert results(again) == {"wheel-cp311": "done", "test-cp311": "done"}
    assert results(run(project, plan, selection=CellSelection.FAILED)) == {}


def test_fail_fast_ends_the_others(project: Path, plan: Plan, builder: Builder) -> None:
    builder.fails = {"cp311-manylinux_x86_64"}
    report = run(project, plan, keep_going=False)
    assert results(report)["wheel-cp313"] == "canceled"
    assert len(builder.built) == 1


def test_time_that_is_over(project: Path, plan: Plan, builder: Builder) -> None:
    run(project, plan, only=("cp313",))
    report = run(project, plan, deadline=time.monotonic() - 1, selection=CellSelection.UNFINISHED)
    assert report.stopped == "timeout"
    assert {name: result for name, result in results(report).items() if name.startswith("wheel")} == {
        "wheel-cp311": "canceled",
        "wheel-cp313": "kept",
    }
    judged = conclusion([report])
    assert judged
    assert "time limit reached with 1 of 2 cells done" in judged.message
    # A cell's own time is no end of the others.
    builder.late = True
    report = run(project, plan, cell_timeout_s=0.1)
    assert set(results(report).values()) == {"failed"}
    assert not report.stopped
    # The time of all may end in the last cell, too.
    report = run(project, plan, only=("cp313",), deadline=time.monotonic() + 5)
    assert set(results(report).values()) == {"canceled"}
    assert report.stopped == "timeout"


def test_a_wheel_that_is_not_what_it_promises_is_kept_out(project: Path, plan: Plan, builder: Builder) -> None:
    builder.tag = "manylinux_2_28_aarch64"
    report = run(project, plan, only=("cp311",))
    assert isinstance(report.failures[0].error, AuditError)
    assert not (project / "dist").exists()
    builder.tag = "manylinux_2_28_x86_64"
    # A test alone publishes nothing.
    assert conclusion([run(project, plan, ("test",))]) is None
    assert not (project / "dist").exists()


def test_what_cibuildwheel_has_nothing_for_is_refused(project: Path, plan: Plan, builder: Builder) -> None:
    with pytest.raises(UsageError, match="--locked, --no-cache, --builder: not supported by cibuildwheel"):
        run(project, plan, locked=True, no_cache=True, builder="farm")
    with pytest.raises(UsageError, match="no images for a shell"):
        run(project, plan, ("dev",))
    assert not builder.built


def test_a_build_ends_when_its_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "slow"
    program.write_text("#!/bin/sh\necho begun\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(tool, "command", lambda _: [str(program)])
    request = linux_build(tmp_path, timeout_s=1)
    lines: list[str] = []
    ended = tool.build(request, {"PATH": "/usr/bin:/bin"}, lines.append, tool.Stop())
    assert ended.late
    assert lines == ["begun"]
