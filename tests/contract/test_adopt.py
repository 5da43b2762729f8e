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
    assert (planned.returncode, planned.stdout.splitlines()[:4]) == (
        13,
        [
            "demo 1.0: 3 differences, by the names of its files",
            "  planned, not published: cp313 for linux/amd64",
            "  published, not planned: demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
            f"  published, not planned: demo-1.0-{OLD_TAG.replace('311', '312')}.whl",
        ],
    )
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
    assert (len(as_json[0]["differences"]), list(as_json[1]["wheels"].values())) == (3, [[], [], []])
    assert (absent.returncode, "no wheel of demo 2.0" in absent.stderr) == (9, True)


def test_a_wheel_with_another_hash_is_refused(project: Path) -> None:
    (served_wheel,) = (project / "site").rglob(f"demo-1.0-{OLD_TAG}.whl")
    served_wheel.chmod(0o644)
    served_wheel.write_bytes(served_wheel.read_bytes() + b"\0")
    with served(project / "site", Plain) as (url, _):
        done = run(project, f"{url}/simple/", "--check", "old")
    assert (done.returncode, "its page says" in done.stderr, "Traceback" in done.stderr) == (9, True, False)
