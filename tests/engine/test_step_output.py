"""A build that prints whatever controls a terminal or a CI runner: all that Bakery shows and keeps of it is text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import TIMEOUT_S
from printed import is_text
from projects import pure
from runs import runs_of

pytestmark = pytest.mark.engine

PRINTED = (
    "\x1b]52;c;eA==\x07\x1b[2J\x9b2J gnp.\u202etxt \u2066x",
    "  ::add-mask::canary",
    "::set-output name=a::b",
    "x ##[add-path]/tmp/evil",
    "good\rowned",
    "a" * 200_000,
    "<img src=https://evil.example> [a](https://evil.example) [link=https://evil.example]x[/link]",
)


PROJECT = 'name = "demo"\n[builder]\nbase = "debian"\n'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = pure(tmp_path_factory.mktemp("printing"), PROJECT)
    backend = folder / "backend.py"
    head, line = "def build_wheel(", "metadata_directory=None):\n"
    text = backend.read_text()
    assert head in text
    says = f"    print({chr(10).join(PRINTED)!r}, flush=True)\n    raise SystemExit('::error::' + {PRINTED[0]!r})\n"
    backend.write_text(text.replace(line, line + says, 1))
    return folder


def run(folder: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """Run the command; return its exit code and, byte for byte, what it printed."""
    environment = {**os.environ, "COLUMNS": "200", **variables}
    command = [sys.executable, "-m", "bakery", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False, timeout=TIMEOUT_S)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def commands(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.lstrip().startswith("::") or "##[" in line]


@pytest.mark.parametrize("progress", ["plain", "tty", pytest.param("rawjson", marks=pytest.mark.proof)])
def test_what_a_step_prints_is_text(project: Path, tmp_path: Path, progress: str) -> None:
    summary = tmp_path / "summary.md"
    ci = {"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    code, out, err = run(project, "wheel", "--progress", progress, **ci)
    assert code == 7, err
    own = ("::group::steps of", "::endgroup::")
    assert [line for line in commands(out + err) if not line.startswith(own)] == []
    assert is_text(out + err), ascii([line for line in (out + err).splitlines() if not is_text(line)])[:500]
    if progress == "rawjson":
        # buildx may say nothing in a line: {}.
        assert all(isinstance(json.loads(line), dict) for line in out.splitlines())
    code, out, err = run(project, "logs", **ci)
    assert code == 0
    assert "add-mask" in out
    assert "::error::" not in out
    assert is_text(out + err)
    assert commands(out + err) == []
    logs = [log.read_bytes().decode() for log in runs_of(project).rglob("*.log")]
    assert logs
    assert all(map(is_text, logs))
    assert is_text(summary.read_text())
    assert "evil.example" not in summary.read_text()
