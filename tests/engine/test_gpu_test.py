"""``gpu-test`` from a wheel to its record, with a library in the driver's place: no machine of the tests has a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from wheels import write_wheel

from bakery.core.files import file_sha256
from bakery.plan.model import Plan
from bakery.recipe.load import load
from bakery.release.gpu_test import prepare
from bakery.resolve.plan import resolve

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
TAG = "py3-none-manylinux_2_17_x86_64"
COMMAND = "test -f tests/one && python -c 'import demo' && test -z \"$PASSWORD\""
RECIPE = f"""\
name = "demo"
[matrix]
python = ["{VERSION}"]
[test]
gpu = true
imports = ["demo"]
files = ["tests"]
command = '''{COMMAND}'''
"""

# What stands for the driver: a library with the seven functions that are called.
DRIVER = """\
int cuInit(unsigned f) { return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGet(int *d, int n) { *d = n; return 0; }
int cuDeviceGetName(char *s, int n, int d) { s[0] = 'G'; s[1] = 0; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : 0; return 0; }
"""


def planned(folder: Path, text: str = RECIPE) -> Plan:
    (folder / "bakery.toml").write_text(text)
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "one").write_text("1")
    return resolve(load(None, folder)[0])


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a library in the driver's place."""
    folder = tmp_path / "driver"
    folder.mkdir()
    words = ["gcc", "-shared", "-x", "c", "-", "-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1")]
    subprocess.run(words, input=DRIVER, text=True, check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))


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
    assert record["packages"]["Demo"] == "1.0"
    assert tested == [wheel]
