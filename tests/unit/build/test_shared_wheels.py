"""Which cells one wheel serves without ``wheel.abi3``: by the names of what was built, and by the last run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from elfs import shared_object
from wheels import write_wheel

from bakery.build.cell_tasks import cell_tasks, publish_groups
from bakery.build.journal import Record, RecordedWheel, last_run, open_journal
from bakery.build.records.buildkit import PROVENANCE, Machine, record_path
from bakery.build.records.provenance import definition, statement
from bakery.build.result import Result
from bakery.build.schedule_items import schedule_items
from bakery.build.shared_wheels import families, is_for_several, known_builders, serves, wheel_builders
from bakery.core.errors import AuditError
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.recipe.load import load
from bakery.release.verify import verify
from bakery.resolve.plan import resolve

LINUX = "manylinux_2_28_x86_64"
PYTHONS = '[matrix]\npython = ["3.14", "3.14t", "3.13", "3.12", "3.11"]\n'


def planned(folder: Path, text: str = PYTHONS) -> Plan:
    (folder / "bakery.toml").write_text(f'name = "demo"\n{text}[builder]\nbase = "manylinux_2_28"\n')
    return resolve(load(None, folder)[0])


def name(python: str, abi: str, platform: str = LINUX) -> str:
    return f"demo-1.0-{python}-{abi}-{platform}.whl"


def decided(folder: Path, built: Mapping[str, str], text: str = PYTHONS) -> dict[str, str]:
    """Return cell → the cell whose wheel it takes, for cells with wheels of these Python and ABI tags."""
    kin = families(planned(folder, text).cells)
    wheels = {cell: (name(*tags.split("-")),) for cell, tags in built.items()}
    held = {cell: names for cell, names in wheels.items() if is_for_several(names)}
    return wheel_builders(next(iter(kin.values())), held)


def test_the_lowest_python_builds_for_all(tmp_path: Path) -> None:
    assert decided(tmp_path, dict.fromkeys(("cp314", "cp313", "cp312", "cp311"), "cp311-abi3")) == {
        "cp311": "cp311",
        "cp312": "cp311",
        "cp313": "cp311",
        "cp314": "cp311",
    }


def test_older_and_free_threaded_pythons_keep_their_own(tmp_path: Path) -> None:
    built = {"cp311": "cp311-cp311", "cp314t": "cp314-cp314t"} | dict.fromkeys(
        ("cp312", "cp313", "cp314"), "cp312-abi3"
    )
    assert decided(tmp_path, built) == {"cp312": "cp312", "cp313": "cp312", "cp314": "cp312"}


def test_a_wheel_for_each_python_is_not_touched(tmp_path: Path) -> None:
    assert decided(tmp_path, {"cp311": "cp311-abi3", "cp312": "cp312-cp312", "cp313": "cp313-abi3"}) == {
        "cp311": "cp311",
        "cp313": "cp311",
    }


def test_a_library_without_python_serves_free_threaded_ones_too(tmp_path: Path) -> None:
    cells = ("cp311", "cp312", "cp313", "cp314t", "cp314")
    assert decided(tmp_path, dict.fromkeys(cells, "py3-none")) == dict.fromkeys(cells, "cp311")


@pytest.mark.parametrize(
    ("tags", "several"),
    [
        ("cp312-abi3", True),
        ("py3-none", True),
        ("py2.py3-none", True),
        ("cp312-cp312", False),
        ("cp312.cp313-abi3.cp313", False),
    ],
)
def test_tags_tell_whether_a_wheel_is_for_several(tags: str, several: bool) -> None:
    assert is_for_several([name(*tags.split("-"))]) is several
    assert not is_for_several([name(*tags.split("-")), name("cp312", "cp312")])


def test_names_that_are_no_wheels_share_nothing(tmp_path: Path) -> None:
    (cell, *_) = planned(tmp_path).cells
    assert not is_for_several([])
    assert not is_for_several(["demo.whl"])
    assert not serves(["demo.whl"], cell)


def test_only_cells_that_differ_in_their_python_are_kin(tmp_path: Path) -> None:
    text = 'platforms = ["linux/amd64", "linux/arm64"]\n[matrix]\npython = ["3.13", "3.11"]\nextra = ["a", "b"]\n'
    kin = families(planned(tmp_path, text).cells)
    assert len(kin) == 8
    for name_, family in kin.items():
        assert [cell.axes["python"] for cell in family] == ["3.11", "3.13"]
        assert {(cell.platform, cell.axes["extra"]) for cell in family} == {
            (cell.platform, cell.axes["extra"]) for cell in family if cell.id == name_
        }
    # The recipe says who builds what, or there is nobody to share with.
    assert not families(planned(tmp_path, f'{PYTHONS}[wheel]\nabi3 = "3.12"\n').cells)
    assert not families(planned(tmp_path, '[matrix]\npython = ["3.13"]\n').cells)


def record(cell: str, *wheels: str, result: Result = Result.DONE, wheel_of: str = "") -> Record:
    return Record(cell, "key", result, 0, tuple(RecordedWheel(item, "ab", 1) for item in wheels), wheel_of)


def known(folder: Path, *records: Record) -> dict[str, str]:
    return known_builders(families(planned(folder).cells), {item.cell: item for item in records})


def test_the_last_run_tells_who_waits_for_whom(tmp_path: Path) -> None:
    abi3 = name("cp312", "abi3")
    done = (record("cp312", abi3), record("cp313", wheel_of="cp312"), record("cp311", name("cp311", "cp311")))
    # Python 3.14 is new in the recipe, and so is the free-threaded one, which the wheel does not serve.
    assert known(tmp_path, *done) == {"cp313": "cp312", "cp314": "cp312"}
    # A run that published nothing remembers it, too.
    failed = (record("cp311", result=Result.CANCELED), record("cp313", result=Result.FAILED, wheel_of="cp311"))
    assert known(tmp_path, *failed) == {"cp313": "cp311"}
    assert known(tmp_path, record("cp312", abi3), record("cp313", name("cp313", "cp313"))) == {"cp314": "cp312"}
    assert known(tmp_path) == {}


def test_a_journal_keeps_whose_wheel_it_was(tmp_path: Path) -> None:
    written = record("cp313", wheel_of="cp311")
    open_journal(tmp_path, "demo", [written])
    assert last_run(tmp_path, "demo") == {"cp313": written}


def test_those_that_wait_are_built_together(tmp_path: Path) -> None:
    plan = planned(tmp_path, '[matrix]\npython = ["3.13", "3.11"]\n')
    tasks = cell_tasks(plan.select(("full",)))
    wheel_of = {"cp313": "cp311"}
    assert publish_groups(tasks, wheel_of)["cp311"] == ("cp313", "cp311")
    assert {item.name: item.after for item in schedule_items(plan, tasks.values(), 2, 0, {}, wheel_of)} == {
        "cp313": "cp311",
        "cp311": "",
    }
    assert [target.name for target in tasks["cp313"].without_wheel().targets] == ["test-cp313"]


def problems(plan: Plan, *wheels: Path) -> list[str]:
    """Return what a release lacks, other than what the audit says of single wheels."""
    try:
        verify([plan], wheels, wheels[0].parent / "memory")
    except AuditError as error:
        return [
            line for line in error.details if re.search("missing|in no plan|not tested|about another|incremental", line)
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


def test_a_shared_wheel_of_a_release_was_tested_for_all(tmp_path: Path) -> None:
    plan = planned(tmp_path, '[matrix]\npython = ["3.13", "3.11"]\n')
    lower, higher = sorted(plan.cells, key=lambda cell: cell.id)
    wheel = write_wheel(tmp_path, f"cp311-abi3-{LINUX}", {"demo/_core.abi3.so": shared_object()})
    path = record_path(wheel, PROVENANCE)
    path.parent.mkdir()

    def recorded(*served: Cell, sha256: str) -> list[str]:
        machine, now = Machine("29", "0.30", "linux/amd64"), datetime.now(UTC)
        defined = definition(plan, lower, (), {}, served)
        path.write_text(json.dumps(statement(wheel.name, sha256, defined, machine, now, now)))
        return problems(plan, wheel)

    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert recorded(lower, higher, sha256=sha256) == []
    # Another job built its own wheel of this name.
    (alone,) = recorded(lower, sha256=sha256)
    assert "was not tested for cp313; set wheel.abi3" in alone
    (replaced,) = recorded(lower, higher, sha256="ab" * 32)
    assert "is about another file" in replaced


def test_a_release_has_no_incremental_wheel(tmp_path: Path) -> None:
    plan = planned(tmp_path, '[matrix]\npython = ["3.11"]\n')
    wheel = write_wheel(tmp_path, f"cp311-cp311-{LINUX}")
    path = record_path(wheel, PROVENANCE)
    path.parent.mkdir()
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    machine, now = Machine("29", "0.30", "linux/amd64"), datetime.now(UTC)
    for incremental in (False, True):
        defined = definition(plan, plan.cells[0], (), incremental=incremental)
        path.write_text(json.dumps(statement(wheel.name, sha256, defined, machine, now, now)))
        expected = [f"cp311: {wheel.name}: was built with --incremental; build it again without the option"]
        assert problems(plan, wheel) == expected * incremental
