"""``coverage``, asked of an index over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers import Negotiating, Plain, served
from test_index_site import wheel

from bakery.release.index.store import NewWheel, extend

NOW = "2026-01-02T03:04:05.000006Z"


def run(folder: Path, index: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PIP_INDEX_URL": index, "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-m", "bakery", "coverage", index, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("server", [Plain, Negotiating])
def test_a_published_index_is_compared(server: type[Plain], tmp_path: Path) -> None:
    own = wheel(tmp_path / "dist", "1.0", project="demo")
    named = own.with_name("demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl")
    own.rename(named)
    wheels = [named, *(wheel(tmp_path / "dist", version, project="torch") for version in ("2.11.0", "2.12.0"))]
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\n')
    (tmp_path / "bakery.toml").write_text(
        'name = "demo"\n[variables]\nTORCH_VERSION = "2.11.0"\n[matrix]\npython = ["3.11", "3.13"]\n'
        '[builder]\nframework = "torch"\n'
    )
    # Yanked releases are the newest for nobody.
    bad = [wheel(tmp_path / "dist", "9.0", project=project) for project in ("demo", "torch")]
    new = [*(NewWheel(path, NOW) for path in wheels), *(NewWheel(path, NOW, yanked="broken") for path in bad)]
    extend(tmp_path / "site", new, NOW)
    with served(tmp_path / "site", server) as (url, _):
        done = run(tmp_path, f"{url}/simple/", "--json", "--ignore", "python=*")
        (found,) = json.loads(done.stdout)
        assert (done.returncode, found["missing"], found["newer"]) == (8, ["cp313"], {"torch": ["2.12"]})
        told = run(tmp_path, f"{url}/simple/", "--ignore", "python=*").stdout.split()
        assert told[-5:] == ["missing", "cp313", "new", "torch", "2.12"]
        fine = run(
            tmp_path, f"{url}/simple/", "--set", "PYTHON_VERSION=3.11", "--ignore", "python=*", "--ignore", "torch=2.12"
        )
        assert (fine.returncode, fine.stdout) == (0, "demo: 1 of 1 cells have a wheel of demo 1.0\n")


@pytest.mark.parametrize("words", [("--ignore", "ruby=3"), ("--ignore", "torch"), ("--version", "one")])
def test_what_cannot_be_understood(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, "https://index.invalid/simple/", *words)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
