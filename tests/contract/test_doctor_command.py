"""``python -m bakery doctor`` where there is nothing at all: advice and an exit code, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bakery.core.errors import EngineError


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """Give an environment that leads to no engine and to no package index."""
    folders = {name: str(tmp_path / name) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "BAKERY_ENGINE_DIR")}
    reach = {"DOCKER_HOST": "unix:///nonexistent", "PIP_INDEX_URL": "http://me:secret@127.0.0.1:9/simple"}
    return {"PATH": str(tmp_path), "PYTHONPATH": str(Path.cwd()), "PYTHONUTF8": "1", **folders, **reach}


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bakery", "doctor", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stdout + done.stderr
    return done


def test_for_people(bare: dict[str, str]) -> None:
    done = run(bare)
    assert done.returncode == EngineError.exit_code
    assert done.stdout.startswith("✗ engine")
    assert "engine up" in done.stdout


def test_for_machines(bare: dict[str, str]) -> None:
    done = run(bare, "--json")
    assert done.returncode == EngineError.exit_code
    found = {item["name"]: item for item in json.loads(done.stdout)["checks"]}
    assert found["engine"]["state"] == found["package index"]["state"] == "fail"
    assert found["engine"]["advice"]


@pytest.mark.parametrize("text", ["", "[broken\n"])
def test_a_broken_configuration_of_pip(bare: dict[str, str], tmp_path: Path, text: str) -> None:
    (tmp_path / "pip.conf").write_text(text)
    assert run({**bare, "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}).returncode == EngineError.exit_code
