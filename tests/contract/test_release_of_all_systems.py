"""Wheels of all systems are one release: `verify` on real files."""

from __future__ import annotations

from pathlib import Path

import plans
import pytest
from wheels import write_wheel

from bakery.core.errors import AuditError
from bakery.plan.model import Plan
from bakery.release.verify import verify


def plan(folder: Path, text: str, *sets: str) -> Plan:
    return plans.written(folder, f'name = "demo"\n{text}', *sets)


def test_a_release_has_the_wheels_of_all_systems(tmp_path: Path) -> None:
    made = plan(tmp_path, 'platforms = ["linux/amd64", "macos/arm64", "windows/amd64"]\n')
    tags = ("manylinux_2_28_x86_64", "macosx_11_0_arm64", "win_arm64")
    wheels = [write_wheel(tmp_path, f"cp311-cp311-{tag}") for tag in tags]
    with pytest.raises(AuditError) as caught:
        verify([made], wheels, tmp_path / "memory")
    told = "\n".join(caught.value.details)
    # Each wheel is of one system only: two have arm64, and one machine of Windows is not the other.
    assert "demo cp311-win_amd64: a wheel is missing" in told
    assert "cp311-macosx_arm64: demo-1.0-cp311-cp311-macosx_11_0_arm64.whl: " in told
    assert "demo-1.0-cp311-cp311-win_arm64.whl: in no plan" in told
    assert told.count("in no plan") == 1
    assert told.count("is missing") == 1


@pytest.mark.parametrize(
    ("names", "own", "told"),
    [
        (("demo-1.0", "demo-1.1"), "", ["demo-1.0-cp311-cp311-{}: other wheels have version 1.1: build it again"]),
        (("demo-1.1", "demo-1.1+cu130"), "", []),
        (("demo-1.0", "other-1.0"), "demo", ["other-1.0-cp313-cp313-{}: is no wheel of demo; "]),
        (("other-1.0", "other-1.0"), "demo", ["other-1.0-cp31{}: is no wheel of demo; "] * 2),
        (("other-1.0", "other-1.0"), "", []),
    ],
)
def test_the_wheels_of_a_release_have_one_source(
    tmp_path: Path, names: tuple[str, str], own: str, told: list[str]
) -> None:
    made = plan(tmp_path, '[matrix]\npython = ["3.11", "3.13"]\n')
    tags = [f"cp31{minor}-cp31{minor}-manylinux_2_28_x86_64" for minor in (1, 3)]
    wheels = [write_wheel(tmp_path, tag, filename=f"{name}-{tag}.whl") for name, tag in zip(names, tags, strict=True)]
    with pytest.raises(AuditError) as caught:  # Their METADATA is that of demo 1.0, which the audit tells.
        verify([made], wheels, tmp_path / "memory", names={"demo": own})
    found = [line for line in caught.value.details if "other wheels" in line or "is no wheel" in line]
    assert len(found) == len(told)
    for line, start in zip(found, told, strict=True):
        assert all(part in line for part in start.split("{}"))
