"""``native.merge``: one wheel has the results of several native builds."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from command import bakery
from projects import REQUIRES

pytestmark = pytest.mark.engine

RECIPE = """\
name = "many"
[variables]
ANSWER = "41"
[matrix]
python = ["3.11", "3.13"]
flavor = ["one", "two"]
[[matrix.overrides]]
where = { flavor = "two" }
variables = { ANSWER = "42" }
[native]
command = 'g++ -shared -fPIC -O2 "-DANSWER=$ANSWER" "-DFLAVOR=$FLAVOR" native/many.cpp -o /native/libmany.so'
into = "src/many/${FLAVOR}"
merge = ["flavor"]
environment = { ANSWER = "${ANSWER}", FLAVOR = "${FLAVOR}" }
[test]
command = "python -c 'import many; assert many.answers() == [41, 42], many.answers()'"
"""

FILES = {
    "native/many.cpp": '#include <vector>\nextern "C" int answer() { std::vector<int> all{ANSWER}; return all.at(0); }\n',
    "src/many/__init__.py": """\
import ctypes
import os

_HERE = os.path.dirname(__file__)


def answers():
    return [ctypes.CDLL(os.path.join(_HERE, name, "libmany.so")).answer() for name in ("one", "two")]
""",
    "pyproject.toml": f"""\
[build-system]
requires = {REQUIRES}
build-backend = "setuptools.build_meta"
[project]
name = "many"
version = "1.0"
[tool.setuptools]
package-dir = {{ "" = "src" }}
packages = ["many"]
package-data = {{ many = ["*/*.so"] }}
""",
    "setup.py": """\
from setuptools import setup
from setuptools.dist import Distribution


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(distclass=Binary)
""",
    "bakery.toml": RECIPE,
}


CUDA = """\
name = "many"
[variables]
CUDA_ARCHS = "80-real;90-real"
[matrix]
python = ["3.11"]
cuda = ["12.4.1", "13.0.3"]
[[matrix.overrides]]
where = { cuda = "12.*" }
variables = { CUDA_ARCHS = "70-real;80-real" }
builder = { toolkit = "debian" }
[builder]
toolkit = "wheels"
[native]
command = "sh build.sh"
into = "src/many/cu${CUDA_MAJOR}"
merge = ["cuda"]
extra = "cuda${CUDA_MAJOR}"
environment = { CUDAARCHS = "${CUDA_ARCHS}" }
[wheel]
repair = { exclude = ["libcudart.so.*"] }
"""

CUDA_FILES = {
    "build.sh": """\
set -eu
flags=$(echo "$CUDAARCHS" | sed -E 's/([0-9]+)-real;?/ -gencode arch=compute_\\1,code=sm_\\1/g')
nvcc -shared -Xcompiler -fPIC -cudart shared $flags many.cu -o /native/libmany.so
""",
    "many.cu": """\
#include <cuda_runtime.h>
__global__ void add(int *value) { ++*value; }
extern "C" int answer() { int *value; cudaMalloc(&value, 4); add<<<1, 1>>>(value); return cudaDeviceSynchronize(); }
""",
    "src/many/__init__.py": """\
import ctypes
import sysconfig
from pathlib import Path

for path in Path(sysconfig.get_path("purelib"), "nvidia").rglob("libcudart.so.*"):
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
""",
    "bakery.toml": CUDA,
}


def write_all(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.proof
def test_nvcc_of_two_cuda_releases(tmp_path: Path) -> None:
    """Debian's nvcc 12.4 and that of NVIDIA's wheels; both results load with the runtime that their own extra brings."""
    write_all(tmp_path, FILES | CUDA_FILES)
    (wheel,) = bakery(tmp_path, "full").wheels
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "unpacked")
        assert {name for name in archive.namelist() if name.endswith(".so")} == {
            "many/cu12/libmany.so",
            "many/cu13/libmany.so",
        }
        lines = archive.read("many-1.0.dist-info/METADATA").decode().splitlines()
    assert [line for line in lines if line.startswith(("Requires-Dist", "Provides-Extra"))] == [
        "Provides-Extra: cuda12",
        "Provides-Extra: cuda13",
        'Requires-Dist: cuda-toolkit[cudart]>=12.4,<13; extra == "cuda12"',
        'Requires-Dist: cuda-toolkit[cudart]>=13.0,<14; extra == "cuda13"',
    ]
    assert bakery(tmp_path, "verify", "dist").code == 0
    # Exchanged folders are refused, each for its own release and GPUs.
    package = tmp_path / "unpacked" / "many"
    (package / "cu12").rename(package / "other")
    (package / "cu13").rename(package / "cu12")
    (package / "other").rename(package / "cu13")
    (tmp_path / "swapped").mkdir()
    pack = [sys.executable, "-m", "wheel", "pack", "unpacked", "--dest-dir", "swapped"]
    subprocess.run(pack, cwd=tmp_path, check=True, capture_output=True)
    said = bakery(tmp_path, "verify", "swapped", code=8).err
    assert "has no device code for sm_70; there is sm_80, sm_90 (many/cu12)" in said
    assert "needs libcudart.so.13, which is CUDA 13's; expected CUDA 12.4.1 (many/cu12/libmany.so)" in said
    assert "needs libcudart.so.12, which is CUDA 12's; expected CUDA 13.0.3 (many/cu13/libmany.so)" in said


@pytest.mark.proof
def test_both_results_in_each_wheel(tmp_path: Path) -> None:
    write_all(tmp_path, FILES)
    done = bakery(tmp_path, "full")
    assert {wheel.name.split("-")[2] for wheel in done.wheels} == {"cp311", "cp313"}
    for wheel in done.wheels:
        with zipfile.ZipFile(wheel) as archive:
            assert {name for name in archive.namelist() if name.endswith(".so")} == {
                "many/one/libmany.so",
                "many/two/libmany.so",
            }
    # Another value of one build: the other one stays.
    (tmp_path / "bakery.toml").write_text(RECIPE.replace('ANSWER = "42"', 'ANSWER = "43"').replace("41, 42", "41, 43"))
    again = bakery(tmp_path, "full")
    assert len(again.wheels) == 2
    builds = {title.split()[0].removeprefix("[") for title in again.ran() if "native/many.cpp" in title}
    assert builds & {"native-flavorone", "native-flavortwo"} == {"native-flavortwo"}


@pytest.mark.proof
def test_each_extra_is_tested_in_a_clean_environment(tmp_path: Path) -> None:
    """The project lists what an extra brings; its test has that, and nothing of the other one."""
    extras = '[project.optional-dependencies]\none = ["iniconfig"]\ntwo = ["sniffio"]\n[tool.setuptools]\n'
    command = (
        'python -c \'import importlib.util as u, os; found = [n for n in ("iniconfig", "sniffio") if u.find_spec(n)]; '
        'want = dict(one=["iniconfig"], two=["sniffio"]); assert found == want[os.environ["FLAVOR"]], found\''
    )
    recipe = RECIPE.replace('python = ["3.11", "3.13"]', 'python = ["3.11"]')
    recipe = recipe.replace('merge = ["flavor"]', 'merge = ["flavor"]\nextra = "${FLAVOR}"').partition("[test]")[0]
    project = FILES["pyproject.toml"].replace("[tool.setuptools]\n", extras)
    changed = {"pyproject.toml": project, "bakery.toml": f'{recipe}[test]\ncommand = """{command}"""\n'}
    write_all(tmp_path, FILES | changed)
    assert len(bakery(tmp_path, "lock").err) > 0
    assert len(bakery(tmp_path, "full", "--locked").wheels) == 1
    # One that brings nothing fails, and is named.
    (tmp_path / "pyproject.toml").write_text(project.replace('two = ["sniffio"]', "two = []"))
    said = bakery(tmp_path, "full", code=7).err
    assert "bake: test of the extra two failed" in said, said
