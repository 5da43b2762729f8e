"""The library audits a wheel."""

from pathlib import Path

import pytest
from elfs import shared_object
from wheels import write_wheel

import bakery
from bakery.core.errors import UsageError

CUDA = bakery.Variable(default="13.0.2")
MATRIX = bakery.Matrix(python=("3.11",))
RECIPE = bakery.Recipe(
    name="demo", variables={"CUDA_VERSION": CUDA}, matrix=MATRIX, builder=bakery.Builder(toolkit="cuda")
)


def test_a_wheel_is_audited_against_its_cell(tmp_path: Path) -> None:
    plan = bakery.open(tmp_path, environ={}).recipe(RECIPE).plan()
    wheel = write_wheel(tmp_path, "cp311-cp311-manylinux_2_34_x86_64", {"demo/_core.so": shared_object()})
    alone, planned = bakery.audit(wheel), bakery.audit(wheel, plan)
    assert "device-code-absent" not in {finding.check for finding in alone.findings}
    assert planned.path == wheel
    (tmp_path / "other").mkdir()
    other = write_wheel(tmp_path / "other", "cp312-cp312-manylinux_2_34_x86_64", {"demo/_core.so": shared_object()})
    with pytest.raises(UsageError, match="is in no cell of recipe demo"):
        bakery.audit(other, plan)
