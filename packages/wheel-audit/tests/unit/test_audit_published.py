"""Wheels that many people install: the audit must have no word against what is right about them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wheel_audit.auditor import audit_wheel
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Severity

pytestmark = pytest.mark.proof

PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_24", "manylinux_2_26", "manylinux_2_27", "manylinux_2_28")
# What is wrong with them was seen with readelf, too: search paths of the machines that built them, and a glibc that is
# newer than the tag says.
PUBLISHED: dict[str, set[str]] = {
    "cryptography==50.0.2": set(),
    "grpcio==1.84.0": set(),
    "h5py==3.16.0": set(),
    "lxml==6.1.3": set(),
    "numpy==2.3.5": set(),
    "nvidia-cuda-runtime-cu12==12.9.79": set(),
    "orjson==3.12.0": set(),
    "pandas==2.3.3": set(),
    "pillow==12.3.0": set(),
    "torchaudio==2.11.0": set(),
    "ujson==6.0.0": set(),
    "bitsandbytes==0.50.2": {"rpath-absolute", "glibc-floor", "auditwheel-policy"},
}


@pytest.mark.parametrize("requirement", PUBLISHED)
def test_a_published_wheel_has_no_error_but_true_ones(requirement: str, tmp_path: Path) -> None:
    platforms = [f"--platform={name}_x86_64" for name in (*PLATFORMS, "manylinux_2_34")]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*pip, "--python-version=3.11", *platforms, f"--dest={tmp_path}", requirement], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    findings = audit_wheel(wheel).findings
    assert {finding.check for finding in findings if finding.severity is Severity.ERROR} == PUBLISHED[requirement]
    assert not [finding for finding in findings if finding.severity is Severity.SKIPPED]


MACOS = tuple(
    f"macosx_{release}_{machine}"
    for machine, releases in {"arm64": ("11_0", "14_0"), "x86_64": ("10_9", "10_10", "10_13")}.items()
    for release in releases
)
SYSTEMS: dict[str, tuple[str, ...]] = {
    "macos/arm64": tuple(tag for tag in MACOS if "arm64" in tag),
    "macos/amd64": tuple(tag for tag in MACOS if "x86_64" in tag),
    "windows/amd64": ("win_amd64",),
    "windows/arm64": ("win_arm64",),
}
# Seen with macholib and pefile, too: Pillow's libjpeg searches a folder of its build machine, and ujson is
# linked with C++'s runtime, which is not in it. Without a expected both are warnings.
ELSEWHERE: dict[str, dict[str, set[str]]] = {
    "markupsafe==3.0.4": {},
    "numpy==2.3.5": {},
    "pillow==13.0.0": {"macos/arm64": {"dylib-rpath"}, "macos/amd64": {"dylib-rpath"}},
    "ujson==5.11.0": {"windows/amd64": {"runtime-missing"}, "windows/arm64": {"runtime-missing"}},
}


@pytest.mark.parametrize("platform", SYSTEMS)
@pytest.mark.parametrize("requirement", ELSEWHERE)
def test_a_published_wheel_of_another_system_is_read_and_judged(
    requirement: str, platform: str, tmp_path: Path
) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    platforms = [f"--platform={tag}" for tag in SYSTEMS[platform]]
    subprocess.run([*pip, "--python-version=3.11", *platforms, f"--dest={tmp_path}", requirement], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    report = audit_wheel(wheel)
    said = {
        finding.check
        for finding in report.findings
        if finding.severity is not Severity.INFO and not finding.check.startswith("wheel-contents")
    }
    assert said == ELSEWHERE[requirement].get(platform, set())
    system, _, _ = platform.partition("/")
    read = report.mach_objects if system == "macos" else report.images
    assert len(read) == len(report.other_binaries) > 0
    # The same wheels in another cell: what they are for is told by their bytes, not by their names.
    other = {"macos/arm64": "macos/amd64", "macos/amd64": "macos/arm64"}.get(platform, "windows/amd64")
    if other != platform:
        found = {finding.check for finding in audit_wheel(wheel, ExpectedWheel(platform=other)).findings}
        assert {"promised-platform", "macho-machine" if system == "macos" else "pe-machine"} <= found
