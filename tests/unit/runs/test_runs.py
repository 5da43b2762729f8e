"""Many cells: what is left out, what is said at the end, and with which exit code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bakery.cli.tables.run import markdown
from bakery.core.errors import AuditError, BakeryError, InterruptedBake, OutputError
from bakery.plan.model import Plan
from bakery.recipe.load import from_python
from bakery.recipe.models import Builder, Matrix, Recipe, Wheel
from bakery.resolve.plan import resolve
from bakery.runs.buildx.bake_outcome import BakeFailure, BakeOutcome, Failure
from bakery.runs.cell_tasks import cell_keys, cell_tasks, publish_groups
from bakery.runs.conclusion import conclusion
from bakery.runs.run_report import CellFailure, PublishedWheel, RunReport, TargetReport
from bakery.runs.schedule_items import schedule_items
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
    return CellFailure(cell, BakeFailure(BakeOutcome({}, 1.0, (), (failure,))))


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
    assert "the whole log: /p/log; a shell before that step: wheel-bakery shell b --at compile; logs: " in one.hint


@pytest.mark.parametrize("is_shared", [False, True])
def test_cells_that_fail_alike_are_named_once(is_shared: bool) -> None:
    # The engine runs a step that both need once, so that it fails in one of them.
    failures = [replace(bake_failure("a"), skipped=("b",))] if is_shared else [bake_failure("a"), bake_failure("b")]
    error = conclusion([report({"a": "failed", "b": "canceled" if is_shared else "failed", "c": "kept"}, *failures)])
    assert isinstance(error, BakeryError)
    assert (error.exit_code, error.message) == (11, "2 of 3 cells failed")
    assert error.details == (
        "a, b: compile failed: exit code: 1",
        "    tail",
        "    → a hint",
        "    → the whole log: /p/log",
        "    → a shell before that step: wheel-bakery shell a --at compile",
    )
    assert "--failed" in error.hint
    assert "/p/.bakery/runs/1/logs" in error.hint


def test_cells_that_fail_for_several_reasons_show_each() -> None:
    audit = CellFailure("c", AuditError("c: a wheel did not pass the audit", details=["x.so: needs glibc 2.38"]))
    log, messages = ("g++ -c x.cpp", "x.cpp:1: error: no", "", "TIP pass --env-dir"), ("x.cpp:1: error: no",)
    failed = Failure(("w",), "RUN", "x", log, None, "", messages=messages)
    other = CellFailure("b", BakeFailure(BakeOutcome({}, 1.0, (), (failed,))))
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
    assert "| wheel-a | ✅ done | 1m01s | 3/9 | 2 | `demo-1.0-py3-none-any.whl` 2 kB |" in text
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
