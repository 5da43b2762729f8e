"""The command in a checkout whose names, logs and records are full of escape sequences: what it prints is text."""

from __future__ import annotations

import json
import os
from pathlib import Path

import forking
import pytest
from repositories import commit, git

NAME = "e\x1b]52;c;eA==\x07\x9b2J\u202egnp\r::add-mask::x##[group]y"
RECIPE = 'name = "demo"\nplatforms = ["linux/amd64"]\n[matrix]\npython = ["3.11"]\n'
COMMANDS = [
    ["check"],
    ["plan"],
    ["plan", "--since", "HEAD~1"],
    ["plan", "--json", "--since", "HEAD~1"],
    ["wheel", "--since", "HEAD~1", "--print"],
    ["logs"],
    ["logs", "--step", "compile"],
    ["why"],
    ["why", "--compiler-cache"],
    ["report"],
    ["profile"],
    ["shell", "cp311"],
    ["audit", f"{NAME}.whl"],
    ["audit", "--json", f"{NAME}.whl"],
    ["variants", f"{NAME}.whl"],
    ["index", f"{NAME}.whl"],
    ["verify", f"{NAME}.whl"],
    ["reproduce", f"{NAME}.whl"],
    ["gpu-test", f"{NAME}.whl"],
    ["compile", NAME],
    ["validate", NAME],
    ["init", "--print", NAME],
    ["plan", "--recipe", NAME],
    ["plan", "--set", f"{NAME}=1"],
    ["wheel", "--allow", NAME],
    ["explain", NAME],
]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "bakery.toml").write_text(RECIPE)
    (folder / "pyproject.toml").write_text('[build-system]\nrequires = ["setuptools==80.9.0"]\n')

    git(folder, "init", "--quiet")
    commit(folder, 1)
    inside = folder / "src" / NAME
    inside.mkdir(parents=True)
    (inside / f"{NAME}.c").write_text("int x;")
    (folder / f"{NAME}.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
    (folder / f"{NAME}.whl").write_bytes(b"PK\x05\x06" + bytes(18))
    run = folder / ".bakery" / "runs" / "20260101T000000Z-1"
    (run / "logs").mkdir(parents=True)
    (run / "logs" / f"wheel-{NAME}.log").write_text(f"# [compile 1/2] RUN {NAME}\n{NAME}\n")
    (run / "logs" / "wheel-cp311.log").write_text(f"# [compile 1/2] RUN {NAME}\n{NAME}\n")
    (run / "report.json").write_text(json.dumps({"recipe": "demo", "targets": [], "failures": [], "seconds": 1}))
    git(folder, "add", "-f", ".")
    git(folder, "commit", "-q", "-m", NAME.replace("\0", ""))
    return folder


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace(NAME, "NAME"))
def test_what_is_printed_is_text(checkout: Path, words: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "BAKERY_STATE_DIR": str(tmp_path), "CI": "true", "GITHUB_ACTIONS": "true"}
    _, code, out, err = forking.run(words, checkout, environment, 120)
    said = out + err
    assert "Traceback" not in said
    assert "internal error" not in said
    assert all(char.isprintable() or char in "\n\t" for char in said), ascii(said)
    assert not [line for line in said.splitlines() if line.lstrip().startswith("::") or "##[" in line], said
    if "--json" in words and not code:
        json.loads(out)
