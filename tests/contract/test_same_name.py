"""Wheels that install on several Pythons of a recipe without a key: which cells they wait for, and when they are refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import plans
import pytest
from elfs import shared_object
from wheels import write_wheel

from bakery.core.errors import AuditError
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.release.verify import verify
from bakery.runs.cell_tasks import cell_tasks, publish_groups
from bakery.runs.journal import Record, Result
from bakery.runs.records.buildkit import PROVENANCE, Machine, Material, record_path
from bakery.runs.records.provenance import definition, statement
from bakery.runs.run_options import Options
from bakery.runs.same_name import SameNames, differ_in_python_only, serves
from bakery.runs.scheduler import Limits, Schedule, Try, schedule_items
from bakery.runs.selection import Run as BakeRun
from bakery.runs.selection import Selection

LINUX = "manylinux_2_28_x86_64"
PYTHONS = '[matrix]\npython = ["3.14", "3.14t", "3.13", "3.12", "3.11"]\n'
TWO = '[matrix]\npython = ["3.13", "3.11"]\n'


def planned(folder: Path, text: str = PYTHONS) -> Plan:
    return plans.written(folder, f'name = "demo"\n{text}[builder]\nbase = "manylinux_2_28"\n')


def name(tags: str, platform: str = LINUX) -> str:
    return f"demo-1.0-{tags}-{platform}.whl"


@pytest.mark.parametrize(
    ("tags", "cells"),
    [
        ("cp312-abi3", {"cp312", "cp313", "cp314"}),
        ("py3-none", {"cp311", "cp312", "cp313", "cp314", "cp314t"}),
        ("py2.py3-none", {"cp311", "cp312", "cp313", "cp314", "cp314t"}),
        ("cp312-cp312", set()),
        ("cp312.cp313-abi3.cp313", set()),
    ],
)
def test_tags_tell_which_pythons_a_wheel_serves(tmp_path: Path, tags: str, cells: set[str]) -> None:
    plan = planned(tmp_path)
    assert {cell.id for cell in plan.cells if serves([name(tags)], cell)} == cells
    assert not any(serves([name(tags), name("cp312-cp312")], cell) for cell in plan.cells)


def test_names_that_are_no_wheels_serve_nothing(tmp_path: Path) -> None:
    (cell, *_) = planned(tmp_path).cells
    assert not serves([], cell)
    assert not serves(["demo.whl"], cell)


def test_cells_of_other_axes_have_other_wheels(tmp_path: Path) -> None:
    text = 'platforms = ["linux/amd64", "linux/arm64"]\n[matrix]\npython = ["3.13", "3.11"]\nextra = ["a", "b"]\n'
    cells = planned(tmp_path, text).cells
    pairs = [(one, other) for one in cells for other in cells if one != other and differ_in_python_only(one, other)]
    assert len(pairs) == 8
    assert all((one.platform, one.axes["extra"]) == (other.platform, other.axes["extra"]) for one, other in pairs)


class Run:
    """A run whose cells ended in some way, with what they exported: cell → name of the wheel → content."""

    def __init__(self, folder: Path, text: str = PYTHONS, *, only: tuple[str, ...] = (), **previous: Result) -> None:
        plan = planned(folder, text)
        targets = plan.select(("full",), only)
        tasks = cell_tasks(targets)
        self.chosen = Selection(
            run=BakeRun.of(folder, plan, Options(("full",), state=folder), {}),
            plan=plan,
            targets=targets,
            tasks=tasks,
            previous={cell: Record(cell, "", result) for cell, result in previous.items()},
            keys={},
        )
        self.schedule = Schedule(schedule_items(plan, tasks.values(), 8, 0, {}), Limits(8, 0, 0, keep_going=True))
        self.schedule.due(0)
        self.stage = folder / "run" / "stage"
        self.same = SameNames(self.chosen, self.stage, self.schedule, publish_groups(tasks))
        self.waiting: dict[str, tuple[str, ...]] = {}

    def end(self, cell: str, wheels: Mapping[str, str], verdict: Try = Try.PASSED) -> bool:
        """End a cell; return whether its wheel waits."""
        for wheel, content in wheels.items():
            path = self.stage / cell / wheel
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.schedule.ended(cell, verdict, 0)
        names = self.same.names_to_wait_for(self.chosen.tasks[cell].cell) if verdict is Try.PASSED else ()
        if names:
            self.waiting[cell] = names
        return bool(names)

    def ready(self) -> list[tuple[tuple[str, ...], str]]:
        """Return the wheels that wait no longer: their cells, and why they are refused."""
        ready = self.same.ready(self.waiting)
        return [(item.builders, item.error.message if item.error else item.missing) for item in ready]


def test_equal_bytes_are_one_wheel_of_all_cells_that_passed(tmp_path: Path) -> None:
    run, abi3 = Run(tmp_path), {name("cp312-abi3"): "same"}
    assert not run.end("cp311", {name("cp311-cp311"): "own"})
    assert run.end("cp313", abi3)
    assert run.end("cp312", abi3)
    assert run.ready() == []
    assert run.end("cp314", abi3)
    assert not run.end("cp314t", {name("cp314-cp314t"): "own"})
    assert run.ready() == [(("cp312", "cp313", "cp314"), "")]


def test_other_bytes_are_an_error_that_names_the_key(tmp_path: Path) -> None:
    run, wheel = Run(tmp_path, TWO), name("cp311-abi3")
    assert run.end("cp311", {wheel: "one"})
    assert run.end("cp313", {wheel: "two"})
    (ready,) = run.same.ready(run.waiting)
    assert ready.builders == ("cp311", "cp313")
    error = ready.error
    assert error
    assert "different files with one name" in error.message
    assert error.hint.startswith('set wheel.abi3 = "3.11"')
    assert error.exit_code == 10


@pytest.mark.parametrize("exported", [{}, {name("cp311-abi3"): "same"}, {name("cp311-abi3"): "other"}])
def test_a_wheel_that_fails_on_another_python_is_not_published(tmp_path: Path, exported: dict[str, str]) -> None:
    run = Run(tmp_path, TWO)
    assert run.end("cp311", {name("cp311-abi3"): "same"})
    run.end("cp313", exported, Try.FAILED)
    assert run.ready() == [(("cp311",), "cp313")]


def test_a_failed_cell_with_a_wheel_of_its_own_holds_nothing_back(tmp_path: Path) -> None:
    run = Run(tmp_path, TWO)
    assert run.end("cp311", {name("cp311-abi3"): "same"})
    run.end("cp313", {name("cp313-cp313"): "own"}, Try.FAILED)
    assert run.ready() == [(("cp311",), "")]


def test_several_names_of_a_build_wait_together(tmp_path: Path) -> None:
    run = Run(tmp_path, TWO)
    first = {name("cp311-abi3"): "a", name("cp311-abi3").replace("1.0", "1.0+cpu"): "b"}
    assert run.end("cp311", first)
    assert run.end("cp313", {**first, name("cp311-abi3").replace("1.0", "1.0+cpu"): "c"})
    assert "different files with one name: demo-1.0+cpu" in run.ready()[0][1]


def new(folder: Path) -> Path:
    folder = folder / "another"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def test_what_failed_before_holds_a_wheel_back_for_it(tmp_path: Path) -> None:
    run = Run(tmp_path, TWO, only=("cp311",), cp313=Result.FAILED)
    assert run.end("cp311", {name("cp311-abi3"): "same"})
    ((members, reason),) = run.ready()
    assert members == ("cp311",)
    assert reason == "cp311: its wheel is for cp313, too, and cp313 failed when it was built last"
    # A wheel for one Python is nobody else's business, and neither is a cell that passed or was never built.
    own = Run(new(tmp_path), TWO, only=("cp311",), cp313=Result.FAILED)
    assert not own.end("cp311", {name("cp311-cp311"): "own"})
    passed = Run(new(tmp_path), TWO, only=("cp311",), cp313=Result.DONE)
    assert passed.end("cp311", {name("cp311-abi3"): "same"})
    assert passed.ready() == [(("cp311",), "")]


def test_with_a_key_nothing_waits(tmp_path: Path) -> None:
    run = Run(tmp_path, f'{TWO}[wheel]\nabi3 = "3.11"\n')
    assert not run.end("cp311", {name("cp311-abi3"): "one"})


@pytest.mark.parametrize("key", ['abi3 = "3.11"', "py3 = true"])
def test_a_key_lets_the_lowest_python_build_for_all(tmp_path: Path, key: str) -> None:
    plan = planned(tmp_path, f"{PYTHONS}[wheel]\n{key}\n")
    own = {"cp311", "cp314t"} if "abi3" in key else {"cp311"}
    assert {cell.id for cell in plan.cells if cell.built_by == cell.id} == own
    assert {cell.built_by for cell in plan.cells if cell.id not in own} == {"cp311"}


def problems(plan: Plan, *wheels: Path) -> list[str]:
    """Return what a release lacks, other than what the audit says of single wheels."""
    try:
        verify([plan], wheels, wheels[0].parent / "memory")
    except AuditError as error:
        return [
            line
            for line in error.details
            if re.search("missing|in no plan|not tested|about another|source changed", line)
        ]
    return []


def test_a_release_may_have_one_wheel_for_several_cells(tmp_path: Path) -> None:
    plan = planned(tmp_path, '[matrix]\npython = ["3.13", "3.12", "3.11"]\n')
    own = write_wheel(tmp_path, f"cp311-cp311-{LINUX}")
    shared = write_wheel(tmp_path, f"cp312-abi3-{LINUX}", {"demo/_core.abi3.so": shared_object()})
    assert problems(plan, own, shared) == []
    assert problems(plan, shared) == ["demo cp311: a wheel is missing: as the project names it"]
    lacking = [f"demo cp31{minor}: a wheel is missing: as the project names it" for minor in (2, 3)]
    assert problems(plan, own) == lacking
    newer = write_wheel(tmp_path, f"cp313-cp313-{LINUX}")
    assert problems(plan, own, shared, newer) == []


def test_the_record_of_a_wheel_of_a_release_tells_its_tests_and_its_source(tmp_path: Path) -> None:
    plan = planned(tmp_path, TWO)
    lower, higher = sorted(plan.cells, key=lambda cell: cell.id)
    wheel = write_wheel(tmp_path, f"cp311-abi3-{LINUX}", {"demo/_core.abi3.so": shared_object()})
    path = record_path(wheel, PROVENANCE)
    path.parent.mkdir()

    def recorded(builder: Cell, *served: Cell, sha256: str, changed: Sequence[str] = ()) -> list[str]:
        machine, now = Machine("29", "0.30", "linux/amd64"), datetime.now(UTC)
        material = Material("source of demo", "source", notes={"changedWhileBuilt": [*changed]})
        defined = definition(plan, builder, [material], {}, served)
        path.write_text(json.dumps(statement(wheel.name, sha256, defined, machine, now, now)))
        return problems(plan, wheel)

    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert recorded(lower, lower, higher, sha256=sha256) == []
    assert recorded(higher, lower, higher, sha256=sha256) == []
    assert "was not tested for cp313; set wheel.abi3" in recorded(lower, lower, sha256=sha256)[0]
    assert "was not tested for cp311; set wheel.abi3" in recorded(higher, higher, sha256=sha256)[0]
    assert "is about another file" in recorded(lower, higher, sha256="0" * 64)[0]
    (said,) = recorded(lower, lower, higher, sha256=sha256, changed=["demo/b.py", "a.c"])
    assert (
        "its source changed while it was built, so nobody knows what is in it: a.c, demo/b.py; build it again" in said
    )


def test_the_wheel_of_an_earlier_run_is_the_one_too_many(tmp_path: Path) -> None:
    plan = planned(tmp_path, '[matrix]\npython = ["3.11"]\n')
    new, old = (write_wheel(tmp_path, f"cp311-cp311-manylinux_2_{minor}_x86_64") for minor in (28, 17))
    os.utime(old, (1, 1))
    text = f"{old.name}: in no plan; {new.name} is in its place: remove it if an earlier run left it"
    assert problems(plan, old, new) == [text]
