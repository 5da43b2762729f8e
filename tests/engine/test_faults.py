"""Faults of the machine, really injected: what is in the output folder stays whole, and each ends in one clear error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from command import bakery, digests, finish, start, states
from farm import FORWARD, free_port
from onebake import bake
from projects import flavours, pure
from runs import runs_of
from waiting import wait_for

from bakery.core.target_kinds import Kind
from bakery.engine import private_engine
from bakery.plan.cells import Cell, Target
from bakery.runs.buildx.bake import BakeRequest
from bakery.runs.buildx.failures import BakeFailure
from bakery.runs.journal import Result

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


@pytest.mark.proof
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
    """All of it goes through bakery, and into the log as far as the client passes it on."""
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
    assert len(done.wheels) == 1
    assert (done.runs[-1] / "logs" / "wheel-cp311.log").stat().st_size > 100 * 1024**2


@pytest.mark.proof
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
    kept = list(runs_of(folder).glob("2*"))
    assert last.runs[-1] in kept
    assert len(kept) <= 6


def step_of(flavour: str) -> int:
    """Return the process id of the step that builds a cell; 0 before it is there."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            known = (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it is gone, or another's
            continue
        if f"FLAVOUR={flavour}".encode() in known:
            return int(process.name)
    return 0


def limit_memory(process: int, size: int) -> bool:
    """Limit the memory of a step's control group; say whether that is possible here."""
    groups = dict(line.split(":", 2)[1:] for line in Path(f"/proc/{process}/cgroup").read_text().splitlines())
    old = Path("/sys/fs/cgroup/memory" + groups.get("memory", "/nowhere")) / "memory.limit_in_bytes"
    new = Path("/sys/fs/cgroup" + groups.get("", "/nowhere")) / "memory.max"
    for path in (old, new):
        if path.parent != Path("/sys/fs/cgroup") and path.exists():
            path.write_text(str(size))
            return True
    return False


@pytest.mark.skipif(os.geteuid() != 0, reason="the control groups of steps are root's")
@pytest.mark.proof
def test_a_cell_that_uses_all_memory_ends_alone(tmp_path: Path) -> None:
    """The kernel kills it in its own control group, which is given less than it takes."""
    hungry = f"hungry{uuid.uuid4().hex[:8]}"
    behaviour = (
        f"if flavour == '{hungry}':\n    time.sleep(8)\n    taken = [bytearray(b'x' * (1 << 20)) for _ in range(3000)]"
    )
    folder = flavours(tmp_path / "project", ["a", hungry], behaviour)
    began = time.monotonic()
    child = start(folder, "wheel", "--max-parallel", "2")
    assert wait_for(lambda: bool(step_of(hungry)), 300)
    if not limit_memory(step_of(hungry), 200 << 20):
        child.terminate()
        child.communicate()
        pytest.skip("the control groups of the engine's steps are not here")
    done = finish(child, folder, began)
    assert done.code == 11, done.err[-3000:]
    found = {name.rpartition("flavour")[2]: target for name, target in done.results().items()}
    assert (found["a"]["result"], found[hungry]["result"], found[hungry]["tries"]) == ("done", "failed", 1)
    assert "memory" in done.err
    assert [path.name for path in folder.glob("dist/*.whl")] == ["demo-1.0+a-py3-none-any.whl"]


@pytest.mark.proof
def test_an_engine_that_goes_away_is_one_error(tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    """What stands between is ended, and with it all connections: so a remote engine goes, or one that is stopped."""
    place = engine_environment.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    port = free_port()
    there = {**engine_environment, "DOCKER_HOST": f"tcp://127.0.0.1:{port}"}
    folder = flavours(tmp_path / "project", ["gone"], "time.sleep(8)")

    def opened() -> subprocess.Popen[str]:
        words = [sys.executable, str(FORWARD), "127.0.0.1", str(port), place, "0"]
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert child.stdout
        assert child.stdout.readline() == "listening\n"
        return child

    def closed(child: subprocess.Popen[str]) -> None:
        child.kill()
        child.communicate()

    way, began = opened(), time.monotonic()
    try:
        running = start(folder, "wheel", "--retries", "0", environment=there)
        assert wait_for(lambda: bool(step_of("gone")) or running.poll() is not None, 300)
    finally:
        closed(way)
    done = finish(running, folder, began)
    assert done.code == 6, done.err[-3000:]
    assert "the engine is gone" in done.err
    assert "start it again, then continue with --resume" in " ".join(done.err.split())
    assert not list(folder.glob("dist/*.whl"))
    way = opened()
    try:
        assert len(bakery(folder, "wheel", "--resume", environment=there).wheels) == 1
    finally:
        closed(way)


@pytest.mark.skipif(os.geteuid() != 0, reason="a private engine needs root")
def test_a_full_disk_of_the_engine_is_one_error_and_no_end(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, mounted: Callable[..., None], tiny_rootfs: Path
) -> None:
    place = tmp_path_factory.mktemp("e")
    mounted(place, "size=160m")
    environ = {**os.environ, "BAKERY_ENGINE_DIR": str(place)}
    for name in ("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT"):
        environ.pop(name, None)
    try:
        engine = private_engine.start(private_engine.install(lambda _: None, environ), lambda _: None, environ)
        shutil.copytree(tiny_rootfs, tmp_path / "rootfs", symlinks=True)

        def request(number: int, step: str) -> BakeRequest:
            steps = f"FROM scratch AS base\nCOPY rootfs/ /\nFROM base AS compile\nWORKDIR /out\nRUN {step}\n"
            (tmp_path / "Dockerfile").write_text(f"{steps}FROM scratch\nCOPY --from=compile /out/ /\n")
            (tmp_path / "bake.hcl").write_text(
                'variable "DEST" { default = "" }\ntarget "wheel-a" { output = ["type=local,dest=${DEST}"] }\n'
            )
            state = tmp_path / ".bakery" / str(number)
            return BakeRequest(
                root=tmp_path,
                bakefile=Path("bake.hcl"),
                targets=(Target("wheel-a", Kind.WHEEL, Cell("a", {"platform": "linux/amd64"}, {}), "wheel"),),
                environment=environ | private_engine.environment(engine, environ),
                variables={"DEST": str(state / "stage")},
                state=state,
                scope="test",
            )

        with pytest.raises(BakeFailure) as caught:
            bake(request(0, "seq 100000000 > large"))
        assert "No space left on device" in "\n".join([caught.value.message, *caught.value.details])
        assert "space" in caught.value.hint

        def again() -> bool:
            try:
                return bake(request(1, "echo x > small")).targets["wheel-a"].result is Result.DONE
            except BakeFailure:
                return False

        # The engine gives back what the failed step wrote when its collector comes to it, moments after the answer.
        assert wait_for(again, 60)
    finally:
        private_engine.remove(environ)
