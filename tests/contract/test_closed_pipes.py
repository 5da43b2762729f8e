"""Commands whose reader is gone go on to their end, and keep their exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(("words", "code"), [(["plan"], 0), (["check"], 0), (["plan", "--only", "cp399"], 2)])
def test_a_closed_pipe_is_no_failure(stream: str, words: list[str], code: int, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    (tmp_path / "bakery.toml").write_text('name = "demo"\n')
    reader, writer = os.pipe()
    os.close(reader)
    streams: dict[str, int] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: writer}
    argv = [sys.executable, "-m", "bakery", *words]
    done = subprocess.run(argv, cwd=tmp_path, check=False, stdout=streams["stdout"], stderr=streams["stderr"])
    os.close(writer)
    assert done.returncode == code
