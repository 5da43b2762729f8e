"""``wheel.max-size``: the project's own limit replaces the package index's."""

from __future__ import annotations

from pathlib import Path

import plans
import pytest
from wheels import write_wheel

from bakery.runs.expectations import promises
from wheel_audit.checks import size
from wheel_audit.wheel import read_wheel


@pytest.mark.parametrize(
    ("limit", "mebibytes", "fault"),
    [
        ("", 90, ""),
        ("", 101, "PyPI accepts 100.0 MiB"),
        ('max-size = "300 MB"', 101, ""),
        ('max-size = "300 MB"', 300, "expected at most 286.1 MiB"),
        ('max-size = "50 MB"', 90, "expected at most 47.7 MiB"),
    ],
)
def test_limits(tmp_path: Path, limit: str, mebibytes: int, fault: str) -> None:
    text = f'name = "demo"\n[wheel]\n{limit}\nnaming = {{ clean = true, index = "public" }}\n'
    plan = plans.written(tmp_path, text)
    path = write_wheel(tmp_path)
    (promise,) = promises(plan, plan.cells[0], None, [path])
    wheel = read_wheel(path)
    wheel.archive.size = mebibytes << 20
    found = [item.message for item in size.check(wheel, promise) if item.check == "size-limit"]
    assert len(found) == bool(fault)
    assert fault in "".join(found)
