"""The outputs on the pages why-audit and size are those of the commands above them, for wheels of the package index."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
from pages import ROOT
from sample import sampled

from wheel_audit.checks import check_ids

_BLOCK = re.compile(r"(?ms)^```(sh|text)\n(.*?)^```")
_SCRIPTS = sysconfig.get_path("scripts")


def examples(page: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the page, each script on it, and the outputs between that script and the next one.

    An output with its own command above it is of a project that is not here.
    """
    scripts: list[tuple[str, str, tuple[str, ...]]] = []
    for kind, text in _BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        if kind == "sh":
            scripts.append((page, text, ()))
        elif not text.startswith("$ "):
            _, script, outputs = scripts.pop()
            scripts.append((page, script, (*outputs, *text.splitlines())))
    return scripts


# The smallest wheels first: `make test` downloads one.
EXAMPLES = sorted(
    (example for page in ("why-audit.md", "size.md") for example in examples(page)),
    key=lambda example: "ujson" not in example[1],
)


@pytest.mark.parametrize(("page", "script", "lines"), sampled(EXAMPLES, len(EXAMPLES)))
def test_the_page_shows_what_the_command_prints(page: str, script: str, lines: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-uc", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{_SCRIPTS}:{os.environ['PATH']}", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    printed = " ".join(done.stdout.split())
    assert lines
    assert [line for line in lines if " ".join(line.split()) not in printed] == [], done.stdout[-4000:] + done.stderr
    assert done.returncode == (8 if " error [" in printed else 0)


def test_the_page_names_only_findings_that_exist() -> None:
    text = (ROOT / "docs/why-audit.md").read_text(encoding="utf-8")
    named = {*re.findall(r"(?m)^(?:error|warning) \[([a-z-]+)\]", text), *re.findall(r"(?m)\| `([a-z-]+)` \|$", text)}
    assert len(named) > 15
    assert sorted(named - set(check_ids())) == []
