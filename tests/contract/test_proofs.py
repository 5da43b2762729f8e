"""The ledger of the proofs: a real pytest runs and records them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date
from pathlib import Path

import proof_ledger
import pytest
from proof_ledger import in_order, read, state
from repositories import commit, git

PROOFS = """
import pytest
pytestmark = pytest.mark.proof
def test_good(): pass
@pytest.mark.parametrize("number", [1, 2])
def test_bad(number): assert number == 1
def test_absent(): pytest.skip("no machine for it")
"""
OTHER = "import pytest\n@pytest.mark.proof\ndef test_other(): pass\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "docs").mkdir()
    for name in ("proofs.md", "index.md"):
        (tmp_path / "docs" / name).write_text("")
    (tmp_path / "code.py").write_text("1")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  proof: slow\n")
    (tmp_path / "tests/test_a.py").write_text(PROOFS)
    (tmp_path / "tests/test_b.py").write_text(OTHER)
    (tmp_path / "tests/proof_packages.toml").write_text(
        '"tests/test_a.py" = ["code.py"]\n"tests/test_b.py" = ["docs"]\n'
    )
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, 1_700_000_000)
    return tmp_path


def run(project: Path, *words: str, seconds: float = 60) -> str:
    here = Path(proof_ledger.__file__).parents
    environment = {**os.environ, "PYTHONPATH": f"{here[0]}{os.pathsep}{here[2]}"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "proof_ledger",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
    ]
    until = f"--proofs-until={time.time() + seconds}"
    return subprocess.run(
        [*command, until, *words], check=False, cwd=project, env=environment, capture_output=True, text=True
    ).stdout


def states(project: Path) -> str:
    """Return what became of good, bad, absent and other; `gone` if it is not in the ledger."""
    proof_ledger.digest_of.cache_clear()
    proof_ledger._tracked.cache_clear()
    found = {proof.partition("::")[2]: state(project, proof, entry) for proof, entry in read(project).items()}
    return " ".join(found.get(f"test_{name}", "gone") for name in ("good", "bad", "absent", "other"))


def test_what_became_of_each(project: Path) -> None:
    run(project, "-n", "2", "--dist", "loadfile")
    entries = read(project)
    assert {proof.partition("::")[2]: (entry.result, entry.cases) for proof, entry in entries.items()} == {
        "test_good": ("passed", 1),
        "test_bad": ("failed", 2),
        "test_absent": ("skipped", 1),
        "test_other": ("passed", 1),
    }
    assert {entry.commit for entry in entries.values()} == {
        proof_ledger._git(project, "rev-parse", "--short=12", "HEAD")
    }
    assert states(project) == "fresh failed skipped fresh"
    (project / "code.py").write_text("2")
    # The run itself writes this page.
    (project / "docs/proofs.md").write_text("new")
    assert states(project) == "stale failed skipped fresh"
    (project / "docs/index.md").write_text("new")
    assert states(project) == "stale failed skipped stale"


def test_no_proof_starts_after_the_end(project: Path) -> None:
    assert "4 passed" not in run(project, seconds=-1)
    assert read(project) == {}


def test_some_of_them(project: Path) -> None:
    run(project, "--proofs-only=test_other")
    assert list(read(project)) == ["tests/test_b.py::test_other"]
    run(project)
    (project / "tests/test_a.py").write_text(PROOFS.replace("number == 1", "number"))
    run(project, "--proofs-failed")
    assert states(project) == "stale fresh skipped fresh"
    # A proof that is gone is no longer in the ledger.
    (project / "tests/test_b.py").write_text("")
    run(project, "--proofs-only=test_good")
    assert states(project).endswith("gone")


def test_the_oldest_first(project: Path) -> None:
    run(project)
    entries = read(project)
    proofs = ["tests/test_b.py::test_other", "tests/test_a.py::test_good", "tests/test_c.py::test_new"]
    # Of one day, those that are not fresh.
    entries = {proof: entries[proof] for proof in proofs[:2]}
    stale = {**entries, proofs[1]: replace(entries[proofs[1]], digest="")}
    assert in_order(project, proofs, stale) == ["tests/test_c.py", "tests/test_a.py", "tests/test_b.py"]
    older = {**stale, proofs[0]: replace(entries[proofs[0]], on=date(2026, 11, 2))}
    assert in_order(project, proofs, older) == ["tests/test_c.py", "tests/test_b.py", "tests/test_a.py"]
