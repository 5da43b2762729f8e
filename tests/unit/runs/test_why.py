"""Why ccache did not have what was compiled: from its log in the step to the command ``why``."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import runs_of
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.runs.cell_profile import CellProfile, Command
from bakery.toolchains import programs

LOG = """\
[2026-11-23T16:35:29.520659 14   ] Command line: ccache g++ -O2 @ -c src/a.cpp -o /tmp/tmpq1w2/a.o
[2026-11-23T16:35:29.520659 14   ] Working directory: /work
[2026-11-23T16:35:29.520700 15   ] Command line: ccache g++ --version
[2026-11-23T16:35:29.521039 14   ] Source file: src/a.cpp
[2026-11-23T16:35:29.521045 14   ] Object file: /tmp/tmpq1w2/a.o
[2026-11-23T16:35:29.521400 15   ] Result: called_for_link
[2026-11-23T16:35:29.809900 14   ] Result: cache_miss
"""
"""Lines of ccache 4.11; 4.7 has the same."""


@pytest.fixture
def explain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Give a function that returns what the program prints for a log of a compile in a project."""
    (tmp_path / "program.py").write_text(programs.text("count-ccache"))
    texts = tmp_path / "texts.txt"
    texts.write_text("/tmp/tmpq1w2/a.o\t\t1a=src/a.cpp\t2b=src/own.h\n")
    names: dict[str, Any] = runpy.run_path(str(tmp_path / "program.py"))
    monkeypatch.setitem(names["explain"].__globals__, "CALLS", str(tmp_path / "calls-%s.json"))
    monkeypatch.setitem(names["explain"].__globals__, "TEXTS", str(texts))
    monkeypatch.setitem(names["explain"].__globals__, "STOPPED", str(tmp_path / "asked"))

    def told(log: str) -> str:
        names["explain"](log.replace("/work", str(tmp_path)))
        return capsys.readouterr().out

    return told


def test_reasons(explain: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = "bakery: timed missed 0.000 0.000 0 /tmp/*/a.o: "
    assert explain(LOG) == f"{start}never compiled here\n"
    # Folders of random names are no difference.
    again = LOG.replace("tmpq1w2", "tmpe3r4")
    assert "neither command nor source changed" in explain(again)
    assert explain(LOG.replace("@", "-DX=1")) == f"{start}arguments: now -DX=1, before @\n"
    # A header that is new, another that changed.
    (tmp_path / "texts.txt").write_text("/tmp/tmpe3r4/a.o\t\t1a=src/a.cpp\t3b=src/own.h\t1=b/new.h\n")
    assert explain(LOG.replace("@", "-DX=1")) == f"{start}changed: b/new.h, src/own.h\n"
    assert explain(LOG.replace("cache_miss", "preprocessed_cache_hit")) == ""
    (tmp_path / "texts.txt").write_text("/tmp/tmpe3r4/a.o\toption -march=native\n")
    assert explain(LOG.replace("cache_miss", "preprocessor_error")) == f"{start}not cached: option -march=native\n"
    (tmp_path / "texts.txt").write_text("/tmp/tmpe3r4/a.o\t\t1a=src/a.cpp\n")
    # Another Python has other arguments, and that is no change.
    monkeypatch.setenv("PYTHON_VERSION", "3.99")
    assert explain(LOG) == f"{start}never compiled here\n"


def test_a_command_that_was_stopped_forgets_nothing(explain: Callable[[str], str], tmp_path: Path) -> None:
    """It asked git after its first compiles, and runs again in another step."""
    explain(LOG)
    (tmp_path / "asked").symlink_to("state")
    (tmp_path / "texts.txt").write_text("/tmp/tmpe3r4/try.o\t\t1a=src/try.cpp\n")
    assert "try.o: never compiled here" in explain(LOG.replace("a.o", "try.o").replace("a.cpp", "try.cpp"))
    (tmp_path / "asked").unlink()
    (tmp_path / "texts.txt").write_text("/tmp/tmpe3r4/a.o\t\t3c=src/a.cpp\t2b=src/own.h\n")
    assert explain(LOG).endswith("a.o: changed: src/a.cpp\n")


@pytest.mark.parametrize("text", ["[", "[]", '{"/tmp/*/a.o": 1}', '{"/tmp/*/a.o": [1, 2]}'])
def test_calls_that_the_project_wrote(explain: Callable[[str], str], tmp_path: Path, text: str) -> None:
    explain(LOG)
    (path,) = tmp_path.glob("calls-*.json")
    path.write_text(text)
    assert explain(LOG).startswith("bakery: timed missed")


def test_the_command_shows_the_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bakery.toml").write_text('name = "demo"\n[matrix]\npython = ["3.11"]\n')
    command = Command(kind="compile", start=0, seconds=1, mb=0, name="g++/a.cpp")
    profile = CellProfile(
        recipe="demo", cell="cp311", cores=2, steps=(), commands=(command,), misses=("a.o: changed: src/own.h",)
    )
    folder = runs_of(tmp_path) / "one" / "profiles"
    folder.mkdir(parents=True)
    (folder / "cp311.json").write_text(profile.model_dump_json())
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["why", "cp311", "--compiler-cache", "--json"])
    assert '"object": "a.o",' in done.stdout
    assert '"reason": "changed: src/own.h"' in done.stdout
    done = CliRunner().invoke(app, ["why", "cp311", "--compiler-cache"])
    assert done.stdout == "a.o\n  changed: src/own.h\n"
