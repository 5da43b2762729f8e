"""The shipped recipe ``tilelang``: a real project of 700 C++ files, from its source archive to one wheel.

It compiles for an hour and more on two cores, and its test installs torch with CUDA's libraries (2.6 GB to fetch).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command import bakery

pytestmark = [pytest.mark.engine, pytest.mark.proof]

TIMEOUT_S = 5 * 3600
"""Two cores that do other things, too."""

CUDA = re.compile(r"lib(?:cu|nv)\w*\.so")
"""Libraries of CUDA and of its driver; the project's own stubs are named ``libstub_…``."""


def test_one_wheel_serves_every_python_and_bundles_nothing(tmp_path: Path) -> None:
    done = bakery(tmp_path, "full", "-r", "tilelang", timeout_s=TIMEOUT_S)
    (wheel,) = done.wheels
    # The platform is what the base gives; it depends on the Debian release.
    assert re.fullmatch(r"tilelang-0\.1\.14-cp39-abi3-manylinux_2_\d+_x86_64\.whl", wheel.name)
    assert {target["result"] for target in done.results().values()} == {"done"}
    assert set(done.results()) == {"wheel-cp311", "test-cp311", "test-cp313"}
    for test in ("test-cp311", "test-cp313"):
        assert "loaded 7 of 7 shared objects" in done.log(test)
        assert "imported tilelang" in done.log(test)

    (report,) = json.loads(bakery(tmp_path, "audit", str(wheel), "--json").out)
    objects = {Path(found["path"]).name for found in report["objects"]}
    assert {"libtilelang.so", "libtvm_compiler.so", "libtvm_runtime.so", "libstub_cuda.so"} <= objects
    assert not [name for name in objects if CUDA.match(name)]
    assert not any(CUDA.match(name) for name in report["external"])
    assert not [found for found in report["objects"] if ".libs/" in found["path"]]
