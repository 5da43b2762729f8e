"""What ends a run: warnings of the audit are said once, whatever number of wheels they are about."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from bakery.cli.tables.run import render, warnings
from bakery.runs.run_report import PublishedWheel, RunReport, TargetReport


def report(**cells: tuple[str, ...]) -> RunReport:
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
    told = report(cp311=("a", "b"), cp312=("a",), cp313=("a",), cp314=("a",))
    assert warnings(told) == ("a (cp311, cp312, cp313 and 1 more cell)", "b (cp311)")
    assert shown(told).splitlines()[-2:] == ["warning: a (cp311, cp312, cp313 and 1 more cell)", "warning: b (cp311)"]


def test_two_names_of_one_wheel_share_a_warning() -> None:
    wheels = tuple(PublishedWheel(Path(name), "0", 1, ("a",)) for name in ("x.whl", "y.whl"))
    target = TargetReport("wheel-cp311", "cp311", "done", 1.0, 2, 1, None, wheels)
    assert warnings(RunReport("demo", (target,), Path("dist"), Path(".bakery"), 1.0)) == ("a (cp311)",)


def test_warnings_are_few() -> None:
    found = warnings(report(cp311=tuple("abcdefg")))
    assert len(found) == 6
    assert found[-1] == "and 2 more: wheel-bakery audit dist/*.whl"


def test_no_warnings_no_words() -> None:
    assert "warning" not in shown(report(cp311=()))


def test_machines_get_them_by_wheel() -> None:
    (target,) = report(cp311=("a",)).to_json()["targets"]  # type: ignore[misc, union-attr]
    assert target["wheels"] == [{"path": "cp311.whl", "sha256": "0", "size": 1000, "warnings": ["a"], "device": {}}]  # type: ignore[index, call-overload]
