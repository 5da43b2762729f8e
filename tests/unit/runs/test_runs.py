"""Many cells: what becomes of each, what is left out, what is said at the end, and with which exit code."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bakery.cli.tables.run import markdown, render, warnings
from bakery.core.errors import AuditError, BakeryError, EngineError, InterruptedBake, OutputError
from bakery.core.target_kinds import Kind
from bakery.plan.model import Plan
from bakery.recipe.load import from_python
from bakery.recipe.models import Builder, Matrix, Recipe, Wheel
from bakery.resolve.plan import resolve
from bakery.runs.buildx.bake_outcome import BakeOutcome, Failure, TargetOutcome
from bakery.runs.buildx.failures import BakeFailure
from bakery.runs.cell_tasks import CellState, cell_keys, cell_tasks, publish_groups
from bakery.runs.conclusion import conclusion, result_of
from bakery.runs.journal import Result
from bakery.runs.loop import Verdict, judge
from bakery.runs.run_report import CellFailure, PublishedWheel, RunReport, TargetReport
from bakery.runs.scheduler import schedule_items
from bakery.runs.source_files import source_of

WHEEL = PublishedWheel(Path("/p/dist/demo-1.0-py3-none-any.whl"), "ab", 1500)


def planned(root: Path, *, abi3: bool = False, job_memory: str | None = None) -> Plan:
    (root / "pyproject.toml").write_text('[build-system]\nrequires = []\n[project]\nname = "demo"\n')
    recipe = Recipe(name="demo", matrix=Matrix(python=("3.11", "3.13")), wheel=Wheel(abi3="3.11" if abi3 else None))
    return resolve(from_python(recipe.model_copy(update={"builder": Builder(job_memory=job_memory)}), root))


def bake_failure(cell: str, error: str = "exit code: 1") -> CellFailure:
    failure = Failure(
        (f"wheel-{cell}",), "[compile 1/1] RUN make", error, ("tail",), Path("/p/log"), "a hint", "compile", "compile"
    )
    return CellFailure(cell, BakeFailure(BakeOutcome({}, (failure,)), cell, "demo"))


def report(results: dict[str, str], *failures: CellFailure, stopped: str = "") -> RunReport:
    reasons = {failure.cell: failure.error.message for failure in failures}
    targets = tuple(
        TargetReport(
            name=f"wheel-{cell}",
            cell=cell,
            result=result,
            seconds=61.0,
            steps=9,
            cached=3,
            log=Path(f"/p/logs/wheel-{cell}.log"),
            wheels=(WHEEL,) if result in ("done", "kept") else (),
            tries=2,
            reason="" if result in ("done", "kept") else reasons.get(cell, "stopped because another cell failed"),
        )
        for cell, result in results.items()
    )
    return RunReport("demo", targets, Path("/p/dist"), Path("/p/.bakery/runs/1"), 125.0, failures, stopped)


def judged(*reports: RunReport) -> tuple[int, str]:
    error = conclusion(reports)
    return (error.exit_code, error.message) if error else (0, "")


def test_all_done_is_no_failure() -> None:
    assert judged(report({"a": "done", "b": "kept"})) == (0, "")
    assert report({"a": "done", "b": "kept"}).succeeded == "all"


def test_one_cell_fails_as_ever() -> None:
    failure = bake_failure("a")
    assert conclusion([report({"a": "failed"}, failure)]) is failure.error


def test_some_have_a_code_of_their_own() -> None:
    code, message = judged(report({"a": "done", "b": "failed"}, bake_failure("b")))
    assert (code, message) == (11, "1 of 2 cells failed: b: compile failed: exit code: 1")
    one = conclusion([report({"a": "done", "b": "failed"}, bake_failure("b"))])
    assert one
    assert (
        "the whole log: /p/log; a shell before that step: wheel-bakery shell b --at compile --recipe demo; logs: "
        in one.hint
    )


@pytest.mark.parametrize("is_shared", [False, True])
def test_cells_that_fail_alike_are_named_once(is_shared: bool) -> None:
    # The engine runs a step that both need once, so that it fails in one of them.
    failures = [replace(bake_failure("a"), skipped=("b",))] if is_shared else [bake_failure("a"), bake_failure("b")]
    error = conclusion([report({"a": "failed", "b": "canceled" if is_shared else "failed", "c": "kept"}, *failures)])
    assert isinstance(error, BakeryError)
    assert (error.exit_code, error.message) == (11, "2 of 3 cells failed")
    assert error.details == (
        "a, b: compile failed: exit code: 1", "    tail", "    → a hint", "    → the whole log: /p/log",
        "    → a shell before that step: wheel-bakery shell a --at compile --recipe demo",
    )  # fmt: skip
    assert "--failed" in error.hint
    assert "/p/.bakery/runs/1/logs" in error.hint


def test_cells_that_fail_for_several_reasons_show_each() -> None:
    audit = CellFailure("c", AuditError("c: a wheel did not pass the audit", details=["x.so: needs glibc 2.38"]))
    log, messages = ("g++ -c x.cpp", "x.cpp:1: error: no", "", "TIP pass --env-dir"), ("x.cpp:1: error: no",)
    failed = Failure(("w",), "RUN", "x", log, None, "", messages=messages)
    other = CellFailure("b", BakeFailure(BakeOutcome({}, (failed,))))
    states = dict.fromkeys("abc", "failed")
    error = conclusion([report(states, bake_failure("a"), other, audit)])
    assert isinstance(error, BakeryError)
    assert error.details[5:] == (
        *("b: RUN failed: x", "    x.cpp:1: error: no"),
        *("c: a wheel did not pass the audit", "    x.so: needs glibc 2.38"),
    )


@pytest.mark.parametrize(("kind", "code"), [(AuditError, 8), (OutputError, 10)])
def test_none_has_the_code_of_the_first_failure(kind: type[BakeryError], code: int) -> None:
    failed = CellFailure("a", kind("kept out"))
    assert judged(report({"a": "failed", "b": "canceled"}, failed)) == (code, "1 of 2 cells failed: a: kept out")


def test_recipes_are_judged_together() -> None:
    assert judged(report({"a": "done"}), report({"a": "failed"}, bake_failure("a")))[0] == 11


def test_ends_by_a_signal_and_by_time() -> None:
    stopped = report({"a": "done", "b": "canceled"}, stopped="SIGTERM")
    error = conclusion([stopped])
    assert isinstance(error, InterruptedBake)
    assert error.message == "interrupted by SIGTERM: the build was ended"
    assert error.hint.startswith("1 of 2 cells are done; continue with --resume")
    late = report({"a": "done", "b": "canceled"}, stopped="timeout")
    assert judged(late) == (11, "time limit reached with 1 of 2 cells done")
    assert judged(report({"a": "canceled"}, stopped="timeout"))[0] == 7


def test_summary_is_markdown_whatever_a_build_printed() -> None:
    nasty = CellFailure("b", BakeryError("| <b>x</b> `y`"))
    text = markdown([report({"a": "done", "b": "failed"}, nasty)])
    assert "### demo: 1 of 2 cells, 2m05s" in text
    assert "| wheel-a | ✅ done | 1m01s | 3/9 | 2 | `demo-1.0-py3-none-any.whl` 2 kB, audit: passed |" in text
    assert "\\| \\<b\\>x\\</b\\> \\`y\\`" in text
    assert "log: `/p/logs/wheel-b.log`" in text
    assert all(line.count(" | ") <= 6 for line in text.splitlines())


def test_json_tells_what_machines_need() -> None:
    document = report({"a": "done", "b": "failed"}, bake_failure("b")).to_json()
    assert (document["version"], document["succeeded"], document["stopped"]) == (3, "some", "")
    targets = document["targets"]
    assert isinstance(targets, list)
    assert isinstance(targets[1], dict)
    assert (targets[1]["tries"], targets[1]["reason"]) == (2, "compile failed: exit code: 1")


def test_work_is_by_cell_and_shared_wheels_belong_together(tmp_path: Path) -> None:
    plan = planned(tmp_path, abi3=True)
    chosen = cell_tasks(plan.select(("full",)))
    assert {name: [target.name for target in work.targets] for name, work in chosen.items()} == {
        "cp311": ["wheel-cp311", "test-cp311"],
        "cp313": ["test-cp313"],
    }
    assert publish_groups(chosen) == {"cp311": ("cp311", "cp313"), "cp313": ("cp311", "cp313")}
    first, second = schedule_items(plan, chosen.values(), 8, 16000, {"cp313": 700})
    assert (first.after, second.after) == ("", "cp311")
    assert (first.memory, second.memory) == (0, 700_000_000)
    assert first.group == second.group
    tests = cell_tasks(plan.select(("test",)))
    assert [item.after for item in schedule_items(plan, tests.values(), 8, 16000, {})] == ["", ""]


@pytest.mark.parametrize(("shares_slots", "memory"), [(False, 8000_000_000), (True, 2000_000_000)])
def test_memory_that_a_recipe_declares_wins(tmp_path: Path, shares_slots: bool, memory: int) -> None:
    plan = replace(planned(tmp_path, job_memory="2 GB"), shares_slots=shares_slots)
    chosen = cell_tasks(plan.select(("wheel",)))
    items = schedule_items(plan, chosen.values(), 4, 16_000_000_000, {"cp311": 1})
    assert [item.memory for item in items] == [memory, memory]


def test_keys_change_with_what_defines_a_cell_and_nothing_else(tmp_path: Path) -> None:
    plan = planned(tmp_path)

    def now(other: Plan = plan, group: str = "wheel") -> dict[str, str]:
        tree = source_of(tmp_path, other).digest
        return cell_keys(other, tree, cell_tasks(other.select((group,))).values())

    first = now()
    assert len(set(first.values())) == 2
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "x.whl").write_text("published")
    (tmp_path / ".bakery").mkdir()
    (tmp_path / ".bakery" / "x").write_text("state")
    assert now() == first
    assert all(now(group="full")[name] != key for name, key in first.items())
    assert all(now(replace(plan, output="wheels"))[name] == key for name, key in first.items())
    changed = now(replace(plan, cells=(replace(plan.cells[0], args={**plan.cells[0].args, "X": "1"}), plan.cells[1])))
    assert changed["cp311"] != first["cp311"]
    assert changed["cp313"] == first["cp313"]
    (tmp_path / "new.c").write_text("")
    assert all(now()[name] != key for name, key in first.items())


def report_of(**cells: tuple[str, ...]) -> RunReport:
    """Return the report of a run with one wheel, and its warnings, for each cell."""
    targets = tuple(
        TargetReport(
            f"wheel-{cell}", cell, "done", 1.0, 2, 1, None, (PublishedWheel(Path(f"{cell}.whl"), "0", 1000, found),)
        )
        for cell, found in cells.items()
    )
    return RunReport("demo", targets, Path("dist"), Path(".bakery"), 1.0)


def shown(told: RunReport) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(render(told))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_each_warning_is_said_once_with_its_cells() -> None:
    told = report_of(cp311=("a", "b"), cp312=("a",), cp313=("a",), cp314=("a",))
    assert warnings(told) == ("a (cp311, cp312, cp313 and 1 more cell)", "b (cp311)")
    assert shown(told).splitlines()[-2:] == ["warning: a (cp311, cp312, cp313 and 1 more cell)", "warning: b (cp311)"]


def test_two_names_of_one_wheel_share_a_warning() -> None:
    wheels = tuple(PublishedWheel(Path(name), "0", 1, ("a",)) for name in ("x.whl", "y.whl"))
    target = TargetReport("wheel-cp311", "cp311", "done", 1.0, 2, 1, None, wheels)
    assert warnings(RunReport("demo", (target,), Path("dist"), Path(".bakery"), 1.0)) == ("a (cp311)",)


def test_warnings_are_few() -> None:
    found = warnings(report_of(cp311=tuple("abcdefg")))
    assert len(found) == 6
    assert found[-1] == "and 2 more: wheel-bakery audit dist/*.whl"


def test_no_warnings_no_words() -> None:
    assert "warning" not in shown(report_of(cp311=()))


def test_machines_get_them_by_wheel() -> None:
    (target,) = report_of(cp311=("a",)).to_json()["targets"]  # type: ignore[misc, union-attr]
    assert target["wheels"] == [{"path": "cp311.whl", "sha256": "0", "size": 1000, "warnings": ["a"], "device": {}}]  # type: ignore[index, call-overload]


GONE = "failed to receive status: rpc error: code = Unavailable desc = error reading from server: EOF"
FAILED = 'process "/bin/sh -c make" did not complete successfully: exit code: 2'


def target(result: Result) -> TargetOutcome:
    return TargetOutcome(result, 1.0, 1, 0, Path(), {})


def outcome(*errors: str, result: Result = Result.FAILED, given_up: bool = False) -> BakeOutcome:
    failures = tuple(Failure((), "[compile 1/1] RUN make", error, (), None, "", "compile") for error in errors)
    return BakeOutcome({"wheel-a": target(result)}, failures, given_up=given_up)


@pytest.mark.parametrize(
    ("ended", "facts", "verdict"),
    [
        (outcome(result=Result.DONE), {}, Verdict.PASSED),
        (outcome(GONE), {"is_watched"}, Verdict.UNCLEAR),
        (outcome(GONE, FAILED), {"is_watched"}, Verdict.FAILED),
        (outcome(result=Result.CANCELED, given_up=True), {}, Verdict.GIVEN_UP),
        (outcome(GONE), {"is_lost"}, Verdict.NODE_LOST),
        (outcome(result=Result.CANCELED), {"is_lost"}, Verdict.NODE_LOST),
        (outcome(FAILED), {"is_lost"}, Verdict.FAILED),
        (outcome(result=Result.CANCELED), {"may_retry"}, Verdict.CANCELED),
        (outcome(GONE), {"recovers", "may_retry"}, Verdict.RECOVERS),
        (outcome(GONE), {"may_retry"}, Verdict.RETRY),
        (outcome(GONE), {}, Verdict.FAILED),
        (outcome(FAILED), {"may_retry"}, Verdict.FAILED),
        (outcome(FAILED), {"failed_before"}, Verdict.FAILED_ELSEWHERE),
    ],
)
def test_what_became_of_a_try(ended: BakeOutcome, facts: set[str], verdict: Verdict) -> None:
    judged = judge(
        ended,
        is_watched="is_watched" in facts,
        has_node="is_lost" not in facts,
        recovers="recovers" in facts,
        may_retry="may_retry" in facts,
        failed_before="failed_before" in facts,
    )
    assert judged is verdict


FAILURE = BakeFailure(outcome(FAILED))


@pytest.mark.parametrize(
    ("state", "ended", "kind", "result"),
    [
        (CellState(), None, Kind.WHEEL, Result.CANCELED),
        (CellState(result=Result.DONE), None, Kind.TEST, Result.DONE),
        (CellState(result=Result.FAILED, error=EngineError("no node")), None, Kind.WHEEL, Result.CANCELED),
        (CellState(result=Result.FAILED, error=FAILURE), Result.FAILED, Kind.WHEEL, Result.FAILED),
        (CellState(failed_in="b"), Result.FAILED, Kind.WHEEL, Result.CANCELED),
        (CellState(failed_in="b"), Result.DONE, Kind.WHEEL, Result.DONE),
        (CellState(result=Result.FAILED, error=FAILURE), Result.DONE, Kind.WHEEL, Result.DONE),
        (CellState(result=Result.FAILED, error=AuditError("refused")), Result.DONE, Kind.WHEEL, Result.FAILED),
        (CellState(result=Result.FAILED, error=AuditError("refused")), Result.DONE, Kind.TEST, Result.DONE),
    ],
)
def test_what_became_of_a_target(state: CellState, ended: Result | None, kind: Kind, result: Result) -> None:
    assert result_of(state, target(ended) if ended else None, kind) is result


@pytest.mark.parametrize("name", ["message", "reason", "hint", "details", "exit_code", "title"])
def test_no_error_changes(name: str) -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        setattr(BakeryError("it failed"), name, "other")
