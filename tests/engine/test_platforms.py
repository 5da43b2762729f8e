"""Wheels for the other architecture: cross compiled and emulated, audited for their machine and tested on it."""

from __future__ import annotations

import platform
import uuid
from pathlib import Path

import pytest
from command import Done, bakery
from projects import example

from wheel_audit.auditor import audit_wheel

OTHER = "linux/arm64"
CELL = "cp311-linux_aarch64"

pytestmark = [
    pytest.mark.engine,
    pytest.mark.usefixtures("emulation"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="for this machine arm64 is no other architecture"),
]

RECIPE = """\
name = "cpp"
platforms = @platforms@
[builder]
cross = @cross@
[wheel.repair]
strip = true
[test]
imports = ["bakery_example_cpp"]
command = \"\"\"python -c "import platform, bakery_example_cpp as m; print('tested on', platform.machine()); \\
assert m.edit_distance('kitten', 'sitting') == 3" \"\"\"
"""


def project(folder: Path, platforms: str, *, cross: bool) -> Path:
    """Copy the C++ example with a recipe; nothing of it was compiled before."""
    made = example(folder, RECIPE.replace("@platforms@", platforms).replace("@cross@", str(cross).lower()))
    # Debug information is stripped: the same code in a wheel would be one that was tested before.
    for name, comment in (("core.cpp", "//"), ("bakery_example_cpp/__init__.py", "#")):
        source = made / "src" / name
        source.write_text(f"{source.read_text()}{comment} {uuid.uuid4()}\n")
    return made


def machines(done: Done) -> dict[str, set[str]]:
    """Return machine in the wheel's name → machines of the code in it; a wheel that the audit refuses fails."""
    found = {}
    for wheel in done.wheels:
        report = audit_wheel(wheel)
        assert report.ok, report.findings
        found[wheel.stem.rpartition("_2_")[2].partition("_")[2]] = {item.machine for item in report.objects}
    return found


@pytest.mark.proof
def test_cross_compiled(tmp_path: Path) -> None:
    done = bakery(project(tmp_path / "project", f'["{OTHER}"]', cross=True), "wheel")
    assert f"cpp: {OTHER}: cross" in done.err
    assert machines(done) == {"aarch64": {"aarch64"}}
    assert "aarch64-linux-gnu-g++" in done.log("wheel-cp311")


@pytest.mark.proof
def test_cross_compiled_beside_native(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", '["linux/amd64", "linux/arm64"]', cross=True)
    done = bakery(folder, "full")
    assert f"cpp: {OTHER}: cross, test emulated" in done.err
    assert machines(done) == {"x86_64": {"x86_64"}, "aarch64": {"aarch64"}}
    # Both lie beside each other: a platform makes no folder.
    assert sorted(path.name for path in (folder / "dist").glob("*.whl")) == sorted(wheel.name for wheel in done.wheels)
    log = done.log(f"wheel-{CELL}")
    assert "aarch64-linux-gnu-g++" in log
    assert "tested on aarch64" in done.log(f"test-{CELL}")
    assert "tested on x86_64" in done.log("test-cp311-linux_x86_64")


@pytest.mark.proof
def test_emulated(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", '["linux/arm64"]', cross=False)
    done = bakery(folder, "full")
    assert f"cpp: {OTHER}: emulated" in done.err
    assert machines(done) == {"aarch64": {"aarch64"}}
    assert "tested on aarch64" in done.log("test-cp311")
