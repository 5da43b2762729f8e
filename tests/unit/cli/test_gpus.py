"""``wheel-bakery gpus``: what it prints, for people and machines, and its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from gpus_page import PATH, page
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.core.errors import UsageError
from bakery.toolchains.facts import gpus

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> tuple[str, str]:
    result = CliRunner().invoke(app, ["gpus", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout, result.stderr


def test_a_table() -> None:
    text, warnings = run("8.0;8.6;9.0+PTX")
    assert not warnings
    lines = {line.split()[0]: line for line in text.splitlines()[1:]}
    assert set(lines) == {gpu.capability for gpu in gpus()}
    assert "native  sm_86" in lines["8.9"]
    assert "PTX     compute_90" in lines["12.0"]
    assert "none" in lines["7.5"]
    assert "not verified" in lines["10.7"]


def test_several_words_are_one_list() -> None:
    assert run("8.0", "8.6", "9.0+PTX") == run("8.0;8.6;9.0+PTX")


def test_json() -> None:
    text, _ = run("80;90a;120-virtual", "--json", "--cuda", "12.4")
    document = json.loads(text)
    assert document["version"] == 1
    assert document["archs"] == ["sm_80+compute_80", "sm_90a+compute_90a", "compute_120"]
    assert document["cuda"] == "12.4"
    how = {row["capability"]: (row["how"], row["by"]) for row in document["gpus"]}
    assert how["9.0"] == ("native", "sm_90a")
    assert how["10.0"] == ("ptx", "compute_80")
    assert how["12.1"] == ("ptx", "compute_120")
    assert how["7.5"] == ("missed", "")
    assert document["warnings"] == ["CUDA 12.4 does not support sm_120 yet; the first release with it is CUDA 12.8"]


def test_warnings_for_a_release() -> None:
    text, warnings = run("7.0;9.0", "--cuda", "13.0.3")
    assert "CUDA 13.0 no longer supports sm_70" in warnings
    assert "driver 580 or newer" in text


def test_what_no_release_has_is_told_without_one() -> None:
    _, warnings = run("8.5;7.0")
    assert warnings == "warning: no CUDA release supports sm_85; the nearest are sm_86 and sm_87\n"


def test_mistakes() -> None:
    for arguments in (["9.O"], ["9.0", "--cuda", "12.7"], [""]):
        result = CliRunner().invoke(app, ["gpus", *arguments])
        assert isinstance(result.exception, UsageError)


def test_the_page_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / PATH, page())
