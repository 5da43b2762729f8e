"""``gpu-test`` from a wheel to its record, with a library in the driver's place: no machine of the tests has a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from gpu_tests import COMMAND, RECIPE, VERSION, make_driver, planned
from hostile_packages import served
from wheels import write_wheel

from bakery.release.gpu_test import prepare
from wheel_audit.plain_files import file_sha256

TAG = "py3-none-manylinux_2_17_x86_64"


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a library in the driver's place."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(make_driver(tmp_path / "driver")))


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize("command", [COMMAND, "false"])
def test_a_wheel_is_installed_and_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("PASSWORD", "secret")
    plan = planned(tmp_path, RECIPE.replace(COMMAND, command))
    wheel = write_wheel(tmp_path, "py3-none-any", {})
    folder = tmp_path / "prepared"
    tested = prepare([(tmp_path, plan)], [wheel], folder)
    done = subprocess.run([sys.executable, folder / "run.py", "--installed"], env=os.environ, check=False)
    record = json.loads((folder / "records" / f"{wheel.name}.gpu-test.json").read_text())
    assert done.returncode == (command == "false")
    assert record["fault"] == ("test command" if command == "false" else "")
    assert record["gpus"] == [{"name": "G", "capability": "9.0"}]
    assert record["sha256"] == file_sha256(wheel)
    assert record["tests"][0]["packages"]["Demo"] == "1.0"
    assert tested == [wheel]


TELLS = """import os; f = open({told!r}, 'a'); f.write(' '.join(os.environ.values())); f.close()
"""


def write_dependency(folder: Path, pth: bytes, name: str = "dep", version: str = "1.0") -> None:
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.pth", pth)
        archive.writestr(f"{name}-{version}.dist-info/METADATA", metadata)
        archive.writestr(
            f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{name}-{version}.dist-info/RECORD", "")


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize("installed", [False, True])
def test_no_package_runs_with_a_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    """The code of a ``.pth`` file runs whenever Python starts in the environment, also for pip."""
    told = tmp_path / "told"
    pth = {"hostile.pth": TELLS.format(told=str(told)).encode()}
    (tmp_path / "index").mkdir()
    write_dependency(tmp_path / "index", pth["hostile.pth"])
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:hunter2@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    requirement = "" if installed else 'requirements = ["dep"]\n'
    plan = planned(tmp_path, RECIPE.replace("gpu = true\n", f"gpu = true\n{requirement}"))
    wheel = write_wheel(tmp_path, "py3-none-any", pth if installed else {})
    folder = tmp_path / "prepared"
    prepare([(tmp_path, plan)], [wheel], folder)
    words = [sys.executable, str(folder / "run.py"), *["--installed"] * installed]
    done = subprocess.run(words, env=os.environ, check=False)
    record = json.loads((folder / "records" / f"{wheel.name}.gpu-test.json").read_text())
    assert record["fault"] == ""
    assert done.returncode == 0
    assert "hunter2" not in told.read_text()
    assert record["tests"][0]["packages"].get("dep") == (None if installed else "1.0")


@pytest.mark.usefixtures("driver")
def test_the_framework_s_index_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index" / "cu130" / "torch").mkdir(parents=True)
    (tmp_path / "empty" / "torch").mkdir(parents=True)
    write_dependency(tmp_path / "index" / "cu130" / "torch", b"", "torch", "2.11.0+cu130")
    matrix = f'python = ["{VERSION}"]'
    with served(tmp_path / "index") as (index, _), served(tmp_path / "empty") as (main, _):
        monkeypatch.setenv("PIP_INDEX_URL", main)
        builder = f'[builder]\nframework = "torch"\nframework-index = "{index}/cu${{CUDA_TAG}}"\n[test]'
        text = RECIPE.replace(matrix, f'{matrix}\ntorch = ["2.11.0"]\ncuda = ["13.0.3"]').replace("[test]", builder)
        wheel = write_wheel(tmp_path, TAG, {})
        folder = tmp_path / "prepared"
        prepare([(tmp_path, planned(tmp_path, text))], [wheel], folder)
        done = subprocess.run([sys.executable, str(folder / "run.py")], env=os.environ, check=False)
    record = json.loads((folder / "records" / f"{wheel.name}.gpu-test.json").read_text())
    assert (done.returncode, record["tests"][0]["packages"]["torch"]) == (0, "2.11.0+cu130")


EXTRAS = """
[builder]
toolkit = "cuda"
[native]
command = "make"
merge = ["cuda"]
into = "src/demo/cu${CUDA_MAJOR}"
extra = "cuda${CUDA_MAJOR}"
"""


@pytest.mark.usefixtures("driver")
def test_each_extra_has_an_environment_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index").mkdir()
    for name in ("runtime12", "runtime13"):
        write_dependency(tmp_path / "index", b"", name)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    text = RECIPE.replace(COMMAND, "test ${CUDA_MAJOR} = 12").replace("[test]", f"{EXTRAS}[test]", 1)
    plan = planned(tmp_path, text.replace("[matrix]", '[matrix]\ncuda = ["12.9.1", "13.0.3"]'))
    extras = {name: [f"Requires-Dist: runtime{name[4:]}; extra == '{name}'"] for name in ("cuda12", "cuda13")}
    lines = [line for name, listed in extras.items() for line in (f"Provides-Extra: {name}", *listed)]
    metadata = "\n".join(["Metadata-Version: 2.1", "Name: Demo", "Version: 1.0", *lines, ""])
    wheel = write_wheel(tmp_path, TAG, {}, metadata=metadata)
    folder = tmp_path / "prepared"
    prepare([(tmp_path, plan)], [wheel], folder)
    done = subprocess.run([sys.executable, str(folder / "run.py")], env=os.environ, check=False)
    record = json.loads((folder / "records" / f"{wheel.name}.gpu-test.json").read_text())
    assert (done.returncode, record["result"], record["fault"]) == (1, "failed", "cuda13: test command")
    runtimes = {"runtime12", "runtime13"}
    assert {item["extra"]: runtimes & item["packages"].keys() for item in record["tests"]} == {
        "cuda12": {"runtime12"},
        "cuda13": {"runtime13"},
    }
