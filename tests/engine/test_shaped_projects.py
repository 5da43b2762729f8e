"""Projects in the shape of SageAttention and jaxmg, baked with the recipes that ship for those."""

from __future__ import annotations

import hashlib
import re
import shutil
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from command import ROOT, Done, bakery, shell

from wheel_audit.auditor import audit_wheel

pytestmark = pytest.mark.engine

LIBRARIES = ("potrs", "potri", "syevd", "residual", "potrs_mg", "syevd_mg")
MODULES = ("_fused", "_qattn_sm80", "_qattn_sm89", "_qattn_sm90")
OLD_ENOUGH_S = 3600


def checkout(project: str, folder: Path) -> Path:
    """Copy a project as a checkout of it would be, without what a build left there; no step of it is in any cache."""
    ignored = shutil.ignore_patterns("bin", "build", "*.egg-info", "__pycache__")
    shutil.copytree(Path(__file__).parent / "shaped" / project, folder, ignore=ignored)
    (folder / "fresh.txt").write_text(str(uuid.uuid4()))
    return folder


def objects(wheel: Path) -> dict[str, str]:
    """Return name → sha256 of the shared objects in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if ".so" in Path(name).name
        }


def metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [item for item in archive.namelist() if item.endswith(".dist-info/METADATA")]
        return archive.read(name).decode()


def archs(wheel: Path) -> set[str]:
    """Return the GPU architectures that a wheel has device code for."""
    return {image.arch for found in audit_wheel(wheel).objects for image in found.device_code.images}


def were_loaded(log: str, number: int) -> bool:
    """Whether a test loaded that many shared objects, now or when another run had the very same wheel."""
    known = re.search(r"# \[[^\n]*/opt/bakery/smoke\.py [^\n]*\n# CACHED", log)
    return bool(known) or f"loaded {number} of {number} shared objects" in log


def check_jaxmg(done: Done, cuda: str, cusolver: str, cudart: str) -> None:
    wheels = [wheel for wheel in done.wheels if f"+{cuda}-" in wheel.name]
    assert [wheel.name.split("-")[2] for wheel in wheels] == ["cp311", "cp313"]
    first, second = map(objects, wheels)
    assert set(first) == {f"jaxmg/bin/lib{name}.so" for name in LIBRARIES}, "CUDA's libraries stay outside"
    assert first == second, "compiled once"
    for wheel in wheels:
        assert wheel.stat().st_size < 15_000_000
        assert archs(wheel) == {"sm_80", "compute_80", "sm_90", "compute_90"}
        needed = {name for found in audit_wheel(wheel).objects for name in found.needed}
        assert {f"libcusolver.so.{cusolver}", f"libcusolverMg.so.{cusolver}", f"libcudart.so.{cudart}"} <= needed


@pytest.mark.proof
def test_jaxmg_is_compiled_once_for_two_pythons(tmp_path: Path) -> None:
    done = bakery(checkout("jaxmg", tmp_path / "jaxmg"), "full", "-r", "jaxmg", "--only", "*-cu130")
    check_jaxmg(done, "cu130", cusolver="12", cudart="13")
    assert were_loaded(done.log("test-cp311-cu130"), len(LIBRARIES))


@pytest.mark.proof
def test_jaxmg_for_both_majors_of_cuda(tmp_path: Path) -> None:
    done = bakery(checkout("jaxmg", tmp_path / "jaxmg"), "full", "-r", "jaxmg", timeout_s=OLD_ENOUGH_S)
    check_jaxmg(done, "cu130", cusolver="12", cudart="13")
    check_jaxmg(done, "cu128", cusolver="11", cudart="12")


@pytest.mark.proof
def test_sageattention_for_two_architectures(tmp_path: Path) -> None:
    folder = checkout("sage", tmp_path / "sage")
    archs_wanted = "TORCH_CUDA_ARCH_LIST=8.0;9.0"
    done = bakery(folder, "full", "-r", "sageattention", "--set", archs_wanted, timeout_s=OLD_ENOUGH_S)
    public, private = sorted(done.wheels, key=lambda wheel: "+" in wheel.name)
    assert public.name.startswith("sageattention-2.2.0-cp311-cp311-manylinux")
    assert private.name.startswith("sageattention-2.2.0+cu130torch2.11-cp311-cp311-manylinux")
    for wheel in (public, private):
        assert "Requires-Dist: torch==2.11.*" in metadata(wheel).splitlines()
        assert archs(wheel) == {"sm_80", "sm_90a"}
        found = objects(wheel)
        assert set(found) == {f"sageattention/{name}.cpython-311-x86_64-linux-gnu.so" for name in MODULES}
    assert objects(public) == objects(private)
    assert were_loaded(done.log("test-cp311"), len(MODULES))
    assert re.search(
        r"with-jobs: CMAKE_BUILD_PARALLEL_LEVEL=\d+ EXT_PARALLEL=\d+ MAX_JOBS=\d+", done.log("wheel-cp311")
    )


def test_sageattention_takes_no_architecture_that_it_has_no_kernels_for(tmp_path: Path) -> None:
    folder = checkout("sage", tmp_path / "sage")
    done = bakery(folder, "plan", "-r", "sageattention", "--set", "TORCH_CUDA_ARCH_LIST=7.5;8.0", code=4)
    assert "TORCH_CUDA_ARCH_LIST" in done.err
    older = ("--set", "CUDA_VERSION=12.4.1", "--set", "TORCH_VERSION=2.10.0")
    done = bakery(folder, "wheel", "-r", "sageattention", *older, "--set", "TORCH_CUDA_ARCH_LIST=8.0;12.0", code=4)
    assert "sm_120" in done.err
    # What this CUDA knows is the default with it.
    assert "8.0;8.6;8.9;9.0" in bakery(folder, "plan", "-r", "sageattention", *older, "--explain").out


def test_jobs_that_need_more_memory_than_the_machine_has_are_refused(tmp_path: Path) -> None:
    folder = checkout("sage", tmp_path / "sage")
    recipe = (ROOT / "bakery" / "recipe" / "shipped" / "sageattention.toml").read_text()
    (folder / "bakery.toml").write_text(recipe.replace("environment = {", 'environment = { MAX_JOBS = "4096",'))
    done = bakery(folder, "wheel", code=4)
    assert "jobs-memory: MAX_JOBS = 4096: 4096 compilers of 3.5 GB need 14336.0 GB" in done.err
    # Files are for any machine.
    bakery(folder, "generate")


@pytest.mark.parametrize(("limit", "fitting"), [("1g", 1), ("3g", 5)])
def test_jobs_follow_the_memory_of_the_container(
    limit: str, fitting: int, debian: str, engine_environment: Mapping[str, str]
) -> None:
    script = ROOT / "bakery" / "toolchains" / "programs" / "with-jobs"
    cores = int(shell(engine_environment, "docker", "info", "--format", "{{.NCPU}}"))
    said = shell(
        engine_environment,
        *("docker", "run", "--rm", f"--memory={limit}", f"--volume={script}:/with-jobs:ro"),
        *(debian, "sh", "/with-jobs", "500MB", "auto", "printenv", "MAX_JOBS", "EXT_PARALLEL"),
    )
    assert said.split() == [str(min(fitting, cores)), "1"]
