"""The sandbox: each thing that a program in it may not do is tried."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from command import ROOT, shell
from sample import sampled
from waiting import wait_for

from bakery.core.errors import EngineError, OutputError
from bakery_iree.sandbox import LABEL, USER, WATCHER, Limits, ProgramResult, Sandbox, _owner, open_sandbox

pytestmark = pytest.mark.engine

MB = 1024**2

Try = Callable[..., ProgramResult]


@pytest.fixture
def box(engine_environment: Mapping[str, str], tmp_path: Path) -> Iterator[Sandbox]:
    with open_sandbox(engine_environment, tmp_path) as made:
        yield made
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def tried(box: Sandbox, debian: str) -> Try:
    """Run a line of shell in the sandbox."""

    def run(line: str, limits: Limits | None = None) -> ProgramResult:
        return box.run(debian, ["sh", "-c", line], {"in/a": b"hello"}, outputs=("a",), limits=limits)

    return run


def containers(environment: Mapping[str, str], run_id: str) -> list[str]:
    return shell(environment, "docker", "ps", "--all", "--quiet", "--filter", f"label={LABEL}.run={run_id}").split()


def test_files_go_in_and_come_out(tried: Try) -> None:
    ran = tried("cat in/a > out/a; echo said; exit 3")
    assert (ran.code, ran.files["a"].read_bytes(), ran.log) == (3, b"hello", "said\n")


def test_it_gets_no_proxy_of_docker(engine_environment: Mapping[str, str], debian: str, tmp_path: Path) -> None:
    """The configuration of docker names proxies, with their passwords, for all containers."""
    own = Path(engine_environment.get("DOCKER_CONFIG") or Path.home() / ".docker")
    merged = json.loads((own / "config.json").read_text()) if (own / "config.json").is_file() else {}
    address = "http://me:canary@127.0.0.1:9"
    merged["proxies"] = {"default": {f"{kind}Proxy": address for kind in ("http", "https", "ftp", "all")}}
    (tmp_path / "config.json").write_text(json.dumps(merged))
    if (own / "cli-plugins").is_dir():
        (tmp_path / "cli-plugins").symlink_to(own / "cli-plugins")
    environment = {**engine_environment, "DOCKER_CONFIG": str(tmp_path)}
    assert "canary" in shell(environment, "docker", "run", "--rm", debian, "env")
    (tmp_path / "box").mkdir()
    with open_sandbox(environment, tmp_path / "box") as box:
        assert "canary" not in box.run(debian, ["sh", "-c", "env; cat /proc/1/environ"], {}).log


TRIES = """
cd /work 2>/dev/null || { mkdir -p /work/out && cd /work && echo hello > a; }
cp /bin/true out/true; out/true 2>/dev/null && echo exec; rm -f out/true
echo x 2>/dev/null > /etc/x && echo root
echo x 2>/dev/null > /tmp/x && echo tmp
echo x 2>/dev/null > /dev/shm/x && echo shm
[ "$(ls /sys/class/net)" = lo ] || echo network
touch out/b; chown 1 out/b 2>/dev/null && echo chown; rm -f out/b
mknod out/n c 1 3 2>/dev/null && echo mknod; rm -f out/n
chroot / true 2>/dev/null && echo chroot
su -c true nobody -s /bin/sh 2>/dev/null && echo su
setpriv --reuid 1 --clear-groups true 2>/dev/null && echo setuid
ls /var/run/docker.sock /run/docker.sock 2>/dev/null
grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Uid)' /proc/self/status
"""
"""Each line prints its name only where what it tries works."""


def test_what_is_forbidden_does_not_work(tried: Try, engine_environment: Mapping[str, str], debian: str) -> None:
    """One container for all, for time; and another, without the sandbox, where all of it works."""
    ordinary = shell(engine_environment, "docker", "run", "--rm", debian, "sh", "-c", TRIES)
    works = [line for line in ordinary.splitlines() if ":\t" not in line]
    assert works == ["exec", "root", "tmp", "shm", "network", "chown", "mknod", "chroot", "su", "setuid"]
    said = tried(TRIES).log.splitlines()
    assert [line for line in said if ":\t" not in line] == []
    kept = dict(line.split(":\t", 1) for line in said)
    assert kept.pop("Uid").split() == ["65534"] * 4
    assert kept.pop("NoNewPrivs") == "1"
    assert set(kept.values()) == {"0" * 16}
    assert len(kept) == 5


def test_memory_is_bounded(tried: Try) -> None:
    ran = tried("x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}", Limits(memory=64 * MB, files=16 * MB))
    assert (ran.code, ran.timed_out) == (137, False)
    assert "200000000" not in ran.log


def test_files_are_bounded(tried: Try) -> None:
    ran = tried("head -c 100000000 /dev/zero > out/a", Limits(memory=64 * MB, files=16 * MB))
    assert "No space left on device" in ran.log
    assert ran.files["a"].stat().st_size <= 16 * MB


def test_fork_bomb_ends(tried: Try, box: Sandbox, engine_environment: Mapping[str, str]) -> None:
    ran = tried("bomb() { bomb | bomb & }; bomb; sleep 60", Limits(processes=40, seconds=5))
    assert "Cannot fork" in ran.log
    assert ran.code != 0
    assert containers(engine_environment, box.run_id) == []


@pytest.mark.parametrize("line", sampled(["trap '' TERM; while :; do sleep 1; done", "sleep 300"], 2))
def test_time_is_bounded(line: str, tried: Try) -> None:
    ran = tried(line, Limits(seconds=1))
    assert ran.timed_out


STOPS_ALL = """
trap '' TERM INT HUP
(setsid sh -c "trap '' TERM INT HUP; while :; do kill -STOP -1; sleep 0.1; done" &)
while :; do kill -STOP 1 -1 $PPID; kill -KILL 1; sleep 0.1; done
"""
"""A program that stops the shell and the clock above it, and leaves another one that does the same."""


@pytest.mark.proof
def test_a_program_that_stops_its_own_clock_is_ended(
    tried: Try, box: Sandbox, engine_environment: Mapping[str, str]
) -> None:
    began = time.monotonic()
    ran = tried(STOPS_ALL, Limits(seconds=2))
    assert ran.timed_out
    assert time.monotonic() - began < 60
    assert containers(engine_environment, box.run_id) == []


def test_the_first_process_belongs_to_another_user(tried: Try) -> None:
    line = (
        "stat -c %u /proc/1; for n in STOP KILL TERM; do kill -$n 1; done; head -c1 /proc/1/mem; ls /proc/1/fd; id -u"
    )
    said = tried(line).log.splitlines()
    assert (said[0], said[-1]) == (str(WATCHER), str(USER))
    assert sum("Operation not permitted" in text for text in said) == 3
    assert sum("Permission denied" in text for text in said) == 2


def test_program_is_held_to_its_cores(tried: Try) -> None:
    ran = tried("grep Cpus_allowed_list /proc/self/status", Limits(cores="0"))
    assert ran.log.split() == ["Cpus_allowed_list:", "0"]


@pytest.mark.parametrize(
    "line",
    sampled(
        [
            "ln -s /etc/passwd out/a", "mkfifo out/a", "mkdir out/a", "echo x > out/other",
            "ln in/a out/a; ln in/a out/b", "rmdir out; ln -s /etc out", "head -c 3000000 /dev/zero > out/a",
        ],
        3,
    ),
)  # fmt: skip
def test_what_nobody_asked_for_does_not_come_out(line: str, tried: Try, box: Sandbox) -> None:
    with pytest.raises(OutputError):
        tried(line, Limits(output=1 * MB))
    assert not [path for path in box.scratch.rglob("*") if path.is_file()]


def test_output_without_end_ends(tried: Try) -> None:
    assert len(tried("timeout 3 yes", Limits(seconds=10)).log) <= 64 * 1024


def test_image_that_is_not_there(box: Sandbox) -> None:
    with pytest.raises(EngineError, match="does not run the container") as caught:
        box.run("bakery-test/none:0", ["true"], {})
    assert any("No such image" in line for line in caught.value.details)


def test_halt_ends_what_runs(box: Sandbox, debian: str, engine_environment: Mapping[str, str]) -> None:
    raised: list[Exception] = []

    def run() -> None:
        try:
            box.run(debian, ["sleep", "300"], {})
        except EngineError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert wait_for(lambda: bool(containers(engine_environment, box.run_id)), 120)
    box.halt()
    thread.join(60)
    assert "was ended" in str(raised[0])
    assert wait_for(lambda: not containers(engine_environment, box.run_id), 60)


PROGRAM = """
import os, sys
from pathlib import Path
from bakery.cli.app import _interrupt
from bakery.engine.discover import find
from bakery_iree.sandbox import open_sandbox
import signal
signal.signal(signal.SIGTERM, _interrupt)
signal.signal(signal.SIGINT, _interrupt)
with open_sandbox({**os.environ, **find().environment}, Path(sys.argv[1])) as box:
    print(box.run_id, flush=True)
    box.run(sys.argv[2], ["sh", "-c", sys.argv[3]], {})
"""


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.proof)]
)
def test_nothing_is_left_of_a_run_that_is_ended(
    number: signal.Signals, engine_environment: Mapping[str, str], debian: str, tmp_path: Path
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), debian, STOPS_ALL],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert child.stdout is not None
        run_id = child.stdout.readline().strip()
        assert wait_for(lambda: bool(containers(engine_environment, run_id)), 120)
        child.send_signal(number)
        child.wait(90)
    finally:
        child.kill()
        child.wait()
    if number is signal.SIGKILL:
        # Nobody is left to end it: it ends by itself.
        assert wait_for(lambda: not containers(engine_environment, run_id), 60)
    else:
        assert containers(engine_environment, run_id) == []
        assert list(tmp_path.iterdir()) == []


def test_the_next_run_removes_what_a_dead_one_left(
    engine_environment: Mapping[str, str], debian: str, tmp_path: Path
) -> None:
    with open_sandbox(engine_environment, tmp_path) as mine:
        own = ("docker", "run", "--detach", "--network=none", f"--label={LABEL}.run={mine.run_id}")
        dead = _owner().rpartition(":")[0] + ":0"
        shell(engine_environment, *own, f"--label={LABEL}={dead}", debian, "sleep", "250")
        shell(engine_environment, *own, f"--label={LABEL}={_owner()}", debian, "sleep", "250")
        assert len(containers(engine_environment, mine.run_id)) == 2
        other = tmp_path / "other"
        other.mkdir()
        with open_sandbox(engine_environment, other):
            assert wait_for(lambda: len(containers(engine_environment, mine.run_id)) == 1, 60)
    assert containers(engine_environment, mine.run_id) == []
