"""``native.merge``: one wheel has the results of several native builds."""

from __future__ import annotations

import zipfile
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


def test_both_results_in_each_wheel(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
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
