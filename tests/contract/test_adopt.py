"""``adopt``, asked of an index over HTTP: each planted difference is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from elfs import shared_object
from fatbins import for_archs
from servers import Negotiating, Plain, served
from wheels import EXTENSION, write_wheel

from bakery.release.index.store import NewWheel, extend

NOW = "2026-01-02T03:04:05.000006Z"
METADATA = "Metadata-Version: 2.1\nName: Demo\nVersion: 1.0\nRequires-Python: {}\nRequires-Dist: {}\n"
OLD_TAG, NEW_TAG = "cp311-cp311-manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_34_x86_64"


def run(folder: Path, index: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NO_PROXY": "127.0.0.1", "COLUMNS": "200"}
    command = [sys.executable, "-m", "bakery", "adopt", "--index", index, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give a project with a release of wheels for Python 3.11 and 3.12, and a recipe for 3.11 and 3.13."""
    (tmp_path / "old").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1.0"\n')
    (tmp_path / "bakery.toml").write_text('name = "demo"\n[matrix]\npython = ["3.11", "3.13"]\n')
    binary = shared_object(sections={".nv_fatbin": for_archs("sm_80")})
    files = {EXTENSION: binary, "demo/old.py": b""}
    wheels = [
        write_wheel(tmp_path / "old", OLD_TAG, files, metadata=METADATA.format(">=3.9", "numpy")),
        write_wheel(tmp_path / "old", OLD_TAG.replace("311", "312")),
        # Never the counterpart of one for glibc.
        write_wheel(tmp_path / "old", "cp311-cp311-musllinux_1_2_x86_64"),
    ]
    extend(tmp_path / "site", [NewWheel(path, NOW) for path in wheels], NOW)
    return tmp_path


@pytest.mark.proof
@pytest.mark.parametrize("server", [Plain, Negotiating])
def test_the_plan_and_ten_planted_differences(server: type[Plain], project: Path) -> None:
    new = project / "dist"
    new.mkdir()
    binary = shared_object(
        needed=("libc.so.6", "libm.so.6"), versions={"libc.so.6": ["GLIBC_2.34"]},
        sections={".nv_fatbin": for_archs("sm_90")},
    )  # fmt: skip
    files = {EXTENSION: binary, "demo/new.py": b"", "demo/more.so": shared_object()}
    write_wheel(new, NEW_TAG, files, metadata=METADATA.format(">=3.10", "numpy>=2"))
    write_wheel(new, OLD_TAG.replace("311", "313"))
    with served(project / "site", server) as (url, _):
        planned = run(project, f"{url}/simple/")
        built = run(project, f"{url}/simple/", "--check", "dist")
        same = run(project, f"{url}/simple/", "--check", "old")
        as_json = [
            json.loads(run(project, f"{url}/simple/", "--json", *more).stdout) for more in ((), ("--check", "old"))
        ]
        absent = run(project, f"{url}/simple/", "--release", "2.0")
    lines = planned.stdout.splitlines()
    assert planned.returncode == 13, planned.stderr
    for line in (
        "  planned, not published, for linux/amd64: cp313",
        "  published, not planned, for musllinux_1_2_x86_64: cp311-cp311",
        "  published, not planned, for manylinux_2_28_x86_64: cp312-cp312",
        "  Requires-Python is >=3.9; pyproject.toml has none (all wheels)",
        "  requires numpy; neither pyproject.toml nor wheel.requires does (all wheels)",
        "  has device code for sm_80; the recipe compiles no CUDA (all wheels)",
    ):
        assert line in lines, (line, planned.stdout)
    assert built.returncode == 13, built.stderr
    shown = [" ".join(line.split()) for line in built.stdout.splitlines()]
    for line in (
        "tags - manylinux_2_28_x86_64", "tags + manylinux_2_34_x86_64", "glibc 2.17 -> 2.34", "device code - sm_80",
        "device code + sm_90", "libraries + libm.so.6", "file - demo/old.py", "file + demo/new.py",
        "requirements - numpy", "requirements + numpy>=2", "requirements + Python >=3.10",
        "tags + a wheel that the release does not have", "tags - a wheel of the release",
    ):  # fmt: skip
        assert any(text.endswith(line) for text in shown), (line, built.stdout)
    assert any(text.startswith("object demo/more.so: + ") for text in shown)
    assert any(text.startswith("size ") for text in shown)
    assert (same.returncode, same.stdout.count("nothing changed")) == (0, 3)
    assert (as_json[0]["differences"], list(as_json[1]["wheels"].values())) == (
        [line[2:] for line in lines[1 : lines.index("not compared:")]],
        [[], [], []],
    )
    assert (absent.returncode, "no wheel of demo 2.0" in absent.stderr) == (9, True)


def test_a_wheel_with_another_hash_is_refused(project: Path) -> None:
    (served_wheel,) = (project / "site").rglob(f"demo-1.0-{OLD_TAG}.whl")
    served_wheel.chmod(0o644)
    served_wheel.write_bytes(served_wheel.read_bytes() + b"\0")
    with served(project / "site", Plain) as (url, _):
        done = run(project, f"{url}/simple/", "--check", "old")
    assert (done.returncode, "its page says" in done.stderr, "Traceback" in done.stderr) == (9, True, False)


DECLARED = """name = "demo"
[matrix]
python = ["3.11", "3.12"]
cuda = ["13.0.3"]
[builder]
base = "manylinux_2_28"
toolkit = "wheels"
environment = { CUDAARCHS = "80-real;90-real" }
[wheel]
requires = ["torch==2.11.*"]
repair = { exclude = ["libcudart.so.*"] }
"""
PROJECT = """[project]
name = "demo"
version = "1.0"
requires-python = ">=3.10"
dependencies = ["numpy>=2", "packaging", "nvidia-cuda-runtime"]
[project.optional-dependencies]
fast = ["numba>=0.60; python_version < '3.14'"]
"""


def test_ten_differences_to_the_plan_are_planted_in_a_release(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "bakery.toml").write_text(DECLARED)
    head = "Metadata-Version: 2.1\nName: Demo\nVersion: 1.0\nProvides-Extra: fast\n"
    right = (
        "Requires-Python: >=3.10\nRequires-Dist: numpy >= 2\nRequires-Dist: nvidia-cuda-runtime\nRequires-Dist: packaging\nRequires-Dist: torch==2.11.*\n"
        "Requires-Dist: numba>=0.60; python_version < '3.14' and extra == 'fast'\n"
    )
    wrong = "Requires-Python: >=3.9\nRequires-Dist: numpy>=1\nRequires-Dist: torch==2.10.*\n"
    sections = {".nv_fatbin": for_archs("sm_80", "sm_90")}
    good = shared_object(needed=("libc.so.6", "libcudart.so.13"), sections=sections)
    bad = shared_object(
        needed=("libc.so.6", "libodd.so.1", "libcudart.so.12"), sections={".nv_fatbin": for_archs("sm_75", "sm_80")}
    )
    places = {python: f"demo/_core.cpython-{python}-x86_64-linux-gnu.so" for python in ("311", "312", "310")}
    tag = "cp{0}-cp{0}-{1}_x86_64"
    same, different = tmp_path / "same", tmp_path / "different"
    same.mkdir()
    different.mkdir()
    old = [
        write_wheel(same, tag.format(python, "manylinux_2_28"), {places[python]: good}, metadata=head + right)
        for python in ("311", "312")
    ]
    runtime = {"demo.libs/libcudart-0a1b2c3d.so.13": shared_object(soname="libcudart-0a1b2c3d.so.13")}
    new = [
        write_wheel(
            different, tag.format("311", "manylinux_2_17"), {places["311"]: bad, **runtime}, metadata=head + wrong
        ),
        write_wheel(different, tag.format("310", "manylinux_2_28"), {places["310"]: good}, metadata=head + right),
    ]
    extend(tmp_path / "site-same", [NewWheel(path, NOW) for path in old], NOW)
    extend(tmp_path / "site-different", [NewWheel(path, NOW) for path in new], NOW)
    with served(tmp_path / "site-same", Plain) as (url, _):
        as_planned = run(tmp_path, f"{url}/simple/")
    with served(tmp_path / "site-different", Plain) as (url, _):
        planted = run(tmp_path, f"{url}/simple/")
    # All but the tool that made the device code of these tests.
    told = as_planned.stdout.splitlines()
    assert told[0].startswith("demo 1.0: 1 difference; 2 wheels read"), as_planned.stdout
    assert "it has a tool of CUDA 12.8, which is CUDA 12's" in told[1], as_planned.stdout
    assert planted.returncode == 13, planted.stderr
    for text in (
        "planned, not published, for linux/amd64: cp312",
        "published, not planned, for manylinux_2_28_x86_64: cp310-cp310",
        "is tagged manylinux_2_17_x86_64; the base has glibc 2.28: a new wheel may need glibc 2.28",
        "Requires-Python is >=3.9; pyproject.toml has >=3.10",
        "requires numpy>=1; neither pyproject.toml nor wheel.requires does",
        "does not require packaging; pyproject.toml does",
        "does not require numba>=0.60; python_version < '3.14' (extra fast); pyproject.toml does",
        "requires torch==2.10.*, which refuses torch==2.11.*",
        "has no device code for sm_90",
        "has device code for sm_75",
        "needs libcudart.so.12, which is CUDA 12's",
        "needs libodd.so.1, which",
        "contains libcudart.so.13",
    ):
        assert text in planted.stdout, (text, planted.stdout)


def test_without_a_recipe_init_writes_it_first(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "__init__.py").write_text("")
    (tmp_path / "dist").mkdir()
    wheel = write_wheel(tmp_path / "dist", "cp39-abi3-manylinux_2_28_x86_64", {"demo/_core.abi3.so": shared_object()})
    extend(tmp_path / "site", [NewWheel(wheel, NOW)], NOW)
    with served(tmp_path / "site", Plain) as (url, _):
        done = run(tmp_path, f"{url}/simple/", "--json")
        # A recipe that is named is taken where there is no project, too; nothing is written.
        (tmp_path / "elsewhere").mkdir()
        named = run(tmp_path / "elsewhere", f"{url}/simple/", "--json", "-r", str(tmp_path / "bakery.toml"))
    assert done.returncode == 13, done.stderr
    assert (tmp_path / "bakery.toml").is_file()
    told = json.loads(done.stdout)
    assert json.loads(named.stdout) == told, named.stderr
    assert not [*(tmp_path / "elsewhere").iterdir()]
    assert any("is for the stable ABI (cp39-abi3)" in line for line in told["differences"]), told
