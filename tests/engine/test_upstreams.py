"""Recipes that ship, on the projects of others: from the source archive in the package index to audited wheels.

TileLang has 700 C++ files and compiles for an hour on two cores, torch-scatter for ten minutes; each installs torch with
CUDA's libraries (2.6 GB to fetch).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command import bakery

from bakery.recipe.files import shipped

pytestmark = [pytest.mark.engine, pytest.mark.proof]

TIMEOUT_S = 5 * 3600
"""Two cores that do other things, too."""

CUDA = re.compile(r"lib(?:cu|nv)\w*\.so")
"""Libraries of CUDA and of its driver; the project's own stubs are named ``libstub_…``."""


QUICK = '"cmake.define.CMAKE_CXX_FLAGS_RELEASE" = "-O0 -DNDEBUG"'
"""Optimised, the 717 files of TileLang take 90 minutes on two cores. Nothing here depends on it."""


def test_one_wheel_of_tilelang_serves_every_python(tmp_path: Path) -> None:
    settings = "[wheel.config-settings]\n"
    recipe = shipped()["tilelang"].read_text(encoding="utf-8")
    assert settings in recipe
    (tmp_path / "tilelang.toml").write_text(recipe.replace(settings, f"{settings}{QUICK}\n"), encoding="utf-8")
    done = bakery(tmp_path, "full", "-r", "tilelang.toml", timeout_s=TIMEOUT_S)
    (wheel,) = done.wheels
    # The platform is what the base gives; it depends on the Debian release.
    assert re.fullmatch(r"tilelang-0\.1\.14-cp39-abi3-manylinux_2_\d+_x86_64\.whl", wheel.name)
    assert {target["result"] for target in done.results().values()} == {"done"}
    assert set(done.results()) == {"wheel-cp311", "test-cp311", "test-cp313", "test-cp314"}

    (report,) = json.loads(bakery(tmp_path, "audit", str(wheel), "--json").out)
    # The tests loaded each of them, and imported it; where that was known already, no log says so.
    objects = {Path(found["path"]).name for found in report["objects"]}
    assert len(objects) == 7
    assert {"libtilelang.so", "libtvm_compiler.so", "libtvm_runtime.so", "libstub_cuda.so"} <= objects
    assert not [name for name in objects if CUDA.match(name)]
    assert not any(CUDA.match(name) for name in report["external"])
    assert not [found for found in report["objects"] if ".libs/" in found["path"]]

    # Beside the published wheel: for CUDA alone, and for a newer glibc, which has libdl and libpthread inside.
    words = ("adopt", "--check", "dist", "-r", "tilelang.toml", "--release", "0.1.14", "--json")
    changes = json.loads(bakery(tmp_path, *words, code=13).out)["wheels"][wheel.name]
    assert {change["subject"] for change in changes} <= {"tags", "size", "object", "glibc", "libraries"}
    lost = {
        change["file"].rpartition("/")[2] for change in changes if change["subject"] == "object" and not change["new"]
    }
    assert lost == {"libstub_hip.so", "libstub_hiprtc.so"}


def test_torch_scatter_for_one_architecture(tmp_path: Path) -> None:
    done = bakery(tmp_path, "full", "-r", "torch-scatter", timeout_s=TIMEOUT_S)
    (wheel,) = done.wheels
    assert re.fullmatch(r"torch_scatter-2\.1\.2\+cu130torch2\.11-cp311-cp311-manylinux_2_\d+_x86_64\.whl", wheel.name)
    assert {target["result"] for target in done.results().values()} == {"done"}
    (report,) = json.loads(bakery(tmp_path, "audit", str(wheel), "--json").out)
    kinds = [
        {(image["kind"], image["arch"]) for image in found["device_code"]["images"]} for found in report["objects"]
    ]
    assert ("elf", "sm_90") in set.union(*kinds)
    assert not [found for found in report["objects"] if ".libs/" in found["path"]]
