"""Commands whose reader is gone go on to their end, and keep their exit code; results that cannot be written are a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from file_trees import write_files
from sample import sampled


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_files(
        tmp_path, {"pyproject.toml": '[project]\nname = "demo"\nversion = "1"\n', "bakery.toml": 'name = "demo"\n'}
    )


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(("words", "code"), [(["plan"], 0), (["check"], 0), (["plan", "--only", "cp399"], 2)])
def test_a_closed_pipe_is_no_failure(stream: str, words: list[str], code: int, project: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    streams: dict[str, int] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: writer}
    argv = [sys.executable, "-m", "bakery", *words]
    done = subprocess.run(argv, cwd=project, check=False, stdout=streams["stdout"], stderr=streams["stderr"])
    os.close(writer)
    assert done.returncode == code


CLOSED = ("<&-", ">&-", "2>&-", "<&- >&- 2>&-")
ENDS = {"plan": 0, "schema": 0, "plan --only cp399": 2, "check -r none": 3}


@pytest.mark.parametrize(
    ("words", "code", "closed"), sampled([(*end, closed) for end in ENDS.items() for closed in CLOSED], 3)
)
def test_a_stream_that_is_closed_is_no_failure(closed: str, words: str, code: int, project: Path) -> None:
    argv = ["sh", "-c", f'exec "$0" -m bakery {words} {closed}', sys.executable]
    done = subprocess.run(argv, cwd=project, check=False, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "streams", "code"),
    [
        (["plan"], ["stdout"], 10),
        (["schema"], ["stdout"], 10),
        (["--version"], ["stdout"], 10),
        (["--help"], ["stdout"], 10),
        # Messages are no results.
        (["plan"], ["stderr"], 0),
        (["plan", "--only", "cp399"], ["stdout", "stderr"], 2),
    ],
)
def test_a_full_disk_for_results_is_a_failure(words: list[str], streams: list[str], code: int, project: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        places = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | dict.fromkeys(streams, full.fileno())
        argv = [sys.executable, "-m", "bakery", *words]
        done = subprocess.run(
            argv, cwd=project, stdout=places["stdout"], stderr=places["stderr"], text=True, check=False
        )
    assert done.returncode == code
    if code == 10:
        assert done.stderr.startswith("files: cannot write to standard output: No space left on device\n")
        assert "Traceback" not in done.stderr
