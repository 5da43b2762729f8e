"""Two runs at once in one checkout, with other settings, and kill -9 at any moment: each wheel has the record of its bytes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import re
import signal
import time
import zipfile
from pathlib import Path

import pytest
from command import bakery, digests, start
from projects import flavours

pytestmark = pytest.mark.engine

CELLS = ["a", "b", "c"]
SPAN_S = float(os.environ.get("BAKERY_TEST_SPAN", "8"))
"""Seconds within which a run may be killed."""


def check_records(folder: Path) -> None:
    """Check that each wheel is whole, and has the provenance and the SBOM of its bytes; nothing else may stand there."""
    dist = folder / "dist"
    for wheel in dist.glob("*.whl") if dist.exists() else ():
        with zipfile.ZipFile(wheel) as archive:
            assert archive.testzip() is None
        sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
        records = [path for path in (dist / ".provenance").iterdir() if path.name.startswith(f"{wheel.name}.")]
        usual = dist / ".provenance" / f"{wheel.name}.provenance.json"
        if usual.exists():
            assert json.loads(usual.read_text())["subject"][0]["digest"]["sha256"] == sha256
        assert any(
            json.loads(path.read_text())["subject"][0]["digest"]["sha256"] == sha256
            for path in records
            if path.name.endswith(".provenance.json")
        ), records
        assert any(sha256 in path.read_text() for path in records if path.name.endswith(".cdx.json")), records


@pytest.mark.proof
@pytest.mark.parametrize("rounds", [1, 50])
def test_each_wheel_has_the_record_of_its_bytes(tmp_path: Path, rounds: int) -> None:
    folder = flavours(tmp_path / "project", CELLS, "time.sleep(0.3)")
    seed = random.randrange(10**6)
    choose = random.Random(seed)
    for number in range(rounds):
        children = []
        for _ in range(2):
            # Another time is another wheel of the same name.
            words = [f"--set=SOURCE_DATE_EPOCH={choose.randrange(1_600_000_000, 1_600_000_009)}"]
            words += choose.choice(
                [["--if-changed"], ["--rebuild"], ["--resume"], ["--only", f"*{choose.choice(CELLS)}"]]
            )
            children.append(start(folder, "wheel", *words))
            time.sleep(choose.uniform(0, 1))
        for child in children:
            if choose.random() < 0.6:
                time.sleep(choose.uniform(0, SPAN_S))
                child.send_signal(signal.SIGKILL)
        for child in children:
            _, err = child.communicate(timeout=900)
            assert child.returncode in (0, -signal.SIGKILL), f"seed {seed}, round {number}\n{err[-4000:]}"
        check_records(folder)
    bakery(folder, "wheel", "--if-changed")
    check_records(folder)
    assert len(digests(folder / "dist")) == len(CELLS)
    assert len(list((folder / "dist/.provenance").iterdir())) == 2 * len(CELLS)
    assert "complete and as planned" in bakery(folder, "verify", "dist").out


@pytest.mark.proof
def test_two_recipes_of_one_command_do_not_replace_each_others_wheel(tmp_path: Path) -> None:
    folder = flavours(tmp_path / "project", ["a"], "")
    recipe = (folder / "bakery.toml").read_text()
    (folder / "other.toml").write_text(
        recipe.replace('name = "demo"', 'name = "other"').replace('"${FLAVOUR}" }', '"${FLAVOUR}", X = "1" }', 1)
    )
    words = ("wheel", "-r", "bakery.toml", "-r", "./other.toml")
    failed = bakery(folder, *words, code=11)
    said = " ".join(failed.err.split())
    assert "2 cells built different files with one name: demo-1.0+a" in said
    assert re.search(r"demo cp311\S*: sha256", said)
    assert re.search(r"other cp311\S*: sha256", said)
    check_records(folder)
    # The other way round, the wheel that is up to date keeps its name, too.
    before = digests(folder / "dist")
    assert "different files with one name" in bakery(folder, *words, "--if-changed", code=11).err
    assert digests(folder / "dist") == before


@pytest.mark.proof
def test_a_wait_for_another_run_ends_with_the_time_limit(tmp_path: Path) -> None:
    folder = flavours(tmp_path / "project", ["a"], "")
    # Its steps are cached then, also on a busy machine.
    for wheel in bakery(folder, "wheel").wheels:
        wheel.unlink()
    handle = os.open(folder / "dist", os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        began = time.monotonic()
        done = bakery(folder, "wheel", "--timeout", "25s", code=7)
        assert time.monotonic() - began < 60
    finally:
        os.close(handle)
    said = " ".join(done.err.split())
    assert "time limit" in said
    assert "waiting for process" in said
    assert f"holds the lock of {folder}/dist" in said
    assert not list((folder / "dist").glob("*.whl"))
