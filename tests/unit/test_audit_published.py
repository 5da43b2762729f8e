"""Wheels that many people install: the audit must have no word against what is right about them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bakery.audit.auditor import audit_wheel
from bakery.audit.finding import Severity

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
