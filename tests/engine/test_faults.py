"""Faults of the machine, really injected: what is in the output folder stays whole, and each ends in one clear error."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import bakery, digests, finish, start, states
from projects import pure

pytestmark = pytest.mark.engine

RECIPE = 'name = "{name}"\n[wheel]\nrepair = false\n'
LARGEST_MB = 300


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Give what mounts a small file system; without the right to mount, the test is skipped."""
    made: list[Path] = []

    def mount(folder: Path, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", ",".join(("size=64k", *options)), "tmpfs", str(folder)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"cannot mount: {done.stderr.strip()}")
        made.append(folder)

    try:
        yield mount
    finally:
        for folder in made:
            subprocess.run(["umount", str(folder)], check=True)


def project(folder: Path, *, bytes_in_wheel: int = 0, prints: str = "") -> Path:
    """Write a project whose wheel holds so many bytes that do not compress."""
    pure(folder, RECIPE.format(name="faults"))
    backend = folder / "backend.py"
    more = f'    files["demo.bin"] = os.urandom({bytes_in_wheel} // 2).hex()\n{prints}'
    text = backend.read_text().replace("    record = [", f"{more}    record = [")
    backend.write_text(f"# {uuid.uuid4()}\n{text}")
    return folder


def test_a_read_only_output_folder_is_one_error(tmp_path: Path, mounted: Callable[..., None]) -> None:
    folder = project(tmp_path / "project é x")
    mounted(folder / "dist", "ro")
    done = bakery(folder, "wheel", code=10)
    assert "cannot write" in done.err
    assert "Read-only file system" in done.err
    assert list((folder / "dist").iterdir()) == []


def test_a_full_output_folder_stays_as_it_was(tmp_path: Path, mounted: Callable[..., None]) -> None:
    folder = project(tmp_path / "project é x", bytes_in_wheel=500_000)
    mounted(folder / "dist")
    (folder / "dist" / "old.whl").write_bytes(b"old")
    before = states(folder / "dist")
    done = bakery(folder, "wheel", code=10)
    assert "No space left on device" in done.err
    assert states(folder / "dist") == before


def test_a_full_project_is_one_error(tmp_path: Path, mounted: Callable[..., None]) -> None:
    mounted(tmp_path / "small")
    folder = project(tmp_path / "small" / "project")
    filled = subprocess.run(["dd", "if=/dev/zero", f"of={folder}/filler", "bs=512"], capture_output=True, check=False)
    assert filled.returncode
    done = bakery(folder, "wheel", code=10)
    assert "No space left on device" in done.err
    assert not list(folder.glob("dist/*.whl"))


def test_two_thousand_files_in_the_output_folder_are_left_alone(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    (folder / "dist").mkdir()
    for number in range(2000):
        (folder / "dist" / f"other-{number}-py3-none-any.whl").write_bytes(b"x")
    before = states(folder / "dist")
    done = bakery(folder, "wheel")
    after = states(folder / "dist")
    assert len(done.wheels) == 1
    assert {name: after[name] for name in before} == before
    assert done.wheels[0].name in digests(folder / "dist")


@pytest.mark.proof
def test_a_log_of_a_gigabyte_takes_no_memory(tmp_path: Path) -> None:
    """BuildKit clips what a step prints; what reaches bakery before that is bounded, too."""
    prints = "    import sys\n    for _ in range(1024):\n        sys.stdout.write(('x' * 1023 + '\\n') * 1024)\n"
    folder = project(tmp_path / "project", prints=prints)
    began = time.monotonic()
    child = start(folder, "wheel")
    peak = 0
    while child.poll() is None:
        try:
            status = Path(f"/proc/{child.pid}/status").read_text()
        except OSError:
            break
        peak = max(peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
        time.sleep(0.2)
    done = finish(child, folder, began)
    assert done.code == 0, done.err[-2000:]
    assert 0 < peak < LARGEST_MB * 1024
    log = done.runs[-1] / "logs" / "wheel-cp311.log"
    assert "log limit" in log.read_text()
    assert log.stat().st_size < 100 * 1024**2


def test_a_clock_in_the_past_or_the_future_changes_nothing(tmp_path: Path) -> None:
    """Old runs, logs and memories may bear any time; nothing of them is taken for fresh or kept forever."""
    folder = project(tmp_path / "project")
    first = bakery(folder, "wheel")
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            os.utime(path, (4e9, 4e9))
    second = bakery(folder, "wheel")
    assert second.runs
    assert digests(folder / "dist") == {path.name: digests(folder / "dist")[path.name] for path in first.wheels}
    for _ in range(6):
        last = bakery(folder, "wheel")
    kept = list((folder / ".bakery" / "runs").glob("2*"))
    assert last.runs[-1] in kept
    assert len(kept) <= 6
