"""The record of a wheel's test on a GPU, a file that anybody may have written."""

from __future__ import annotations

from pathlib import Path

from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.plan.values import Json, substitute
from bakery.runs.records.buildkit import record_path
from wheel_audit.plain_files import file_sha256
from wheel_audit.readers import read_json

GPU_TEST = ".gpu-test.json"
"""Suffix of a wheel's file name."""

MAX_BYTES = 1 << 20


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
    if not isinstance(record, dict) or record.get("format") != 1 or not record.get("gpus"):
        return f"{path.name} is no record of a test on a GPU"
    if record.get("result") != "passed":
        return f"failed its test on a GPU: {str(record.get('fault'))[:100]}"
    about = "another file" if record.get("sha256") != file_sha256(wheel) else ""
    about = about or ("" if record.get("tests") in _all_tests(plan) else "other tests than the recipe's")
    return f"{path.name} is about {about}" if about else ""


def planned_test(plan: Plan, cell: Cell) -> dict[str, Json]:
    """Return what a cell's test on a GPU does, as its record has it."""
    plan, values = plan.of(cell), plan.values_of_wheel(cell)
    settings = plan.cibuildwheel
    command = substitute(settings.test_command["linux"], values)
    return {"load": settings.load, "imports": [*plan.facts.test_imports], "command": command}


def _all_tests(plan: Plan) -> list[dict[str, Json]]:
    return [planned_test(plan, cell) for cell in plan.cells]
