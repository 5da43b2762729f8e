"""The record of a wheel's test on a GPU, a file that anybody may have written."""

from __future__ import annotations

from pathlib import Path

from bakery.plan.cells import Cell, Merged
from bakery.plan.model import Plan
from bakery.plan.values import Json, substitute
from bakery.runs.records.buildkit import record_path
from wheel_audit.plain_files import file_sha256
from wheel_audit.readers import read_json

GPU_TEST = ".gpu-test.json"
"""Suffix of a wheel's file name."""

MAX_BYTES = 1 << 20
_FORMAT = 2


def gpu_fault(plan: Plan, wheel: Path) -> str:
    """Return why a wheel has no valid record of a passed test on a GPU; empty if it has one, or needs none."""
    if not plan.cibuildwheel.test_gpu:
        return ""
    path = record_path(wheel, GPU_TEST)
    if not path.is_file():
        return "was not tested on a GPU: run `wheel-bakery gpu-test`"
    try:
        record = read_json(path, MAX_BYTES)
    except (OSError, ValueError):
        record = None
    if not isinstance(record, dict) or record.get("format") != _FORMAT or not record.get("gpus"):
        return f"{path.name} is no record of a test on a GPU"
    if record.get("result") != "passed":
        return f"failed its test on a GPU: {str(record.get('fault'))[:100]}"
    is_planned = any(_recorded(record) == planned_tests(plan, cell) for cell in plan.cells)
    about = "" if is_planned else "other tests than the recipe's"
    about = "another file" if record.get("sha256") != file_sha256(wheel) else about
    return f"{path.name} is about {about}" if about else ""


def tested_builds(plan: Plan) -> list[Merged | None]:
    """Return the native builds whose extras are tested, each in an environment of its own; one None without extras."""
    return [build for build in plan.merged if build.extra] or [None]


def planned_tests(plan: Plan, cell: Cell) -> list[dict[str, Json]]:
    """Return what a cell's tests on a GPU do, as its record has it: one for each of `tested_builds`."""
    values, settings, facts = plan.values_of_wheel(cell), plan.of(cell).cibuildwheel, plan.of(cell).facts
    return [
        {
            "extra": build.extra if build else "",
            "load": settings.load,
            "without": [other.folder for other in plan.merged if build and other != build],
            "imports": [*facts.test_imports],
            "command": substitute(settings.test_command["linux"], {**values, **(build.args if build else {})}),
        }
        for build in tested_builds(plan)
    ]


def _recorded(record: dict[str, object]) -> list[object]:
    """Return the tests of a record, without what came of them."""
    tests = record.get("tests")
    came = ("packages", "fault")
    return [
        {key: value for key, value in item.items() if key not in came} if isinstance(item, dict) else item
        for item in (tests if isinstance(tests, list) else [])
    ]
