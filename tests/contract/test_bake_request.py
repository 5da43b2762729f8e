"""What surrounds a bake: its arguments, its entitlements, its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from processes import is_running

from bakery.core.errors import EngineError, PlanError
from bakery.plan.cells import Target
from bakery.runs import processes
from bakery.runs.buildx.bake import OPEN, BakeRequest, LogFiles, bake_argv, bake_environment
from bakery.runs.buildx.entitlements import Allowed
from bakery.runs.buildx.progress import LogLines, StepFinished, StepStarted
from bakery.runs.processes import Children, Ended, Stopped, caught


def test_arguments() -> None:
    request = BakeRequest(
        root=Path("/project"),
        bakefile=Path("bake/x.hcl"),
        targets=(cast(Target, SimpleNamespace(name="wheel-cp311")),),
        environment={},
        variables={},
        state=Path("/state"),
        scope="0123",
        overrides=("*.args.X=a b", "*.args.BUILDKIT_CACHE_MOUNT_NS=mine"),
        builder="two",
        no_cache=True,
        pull=True,
        defer_errors=True,
    )
    argv = bake_argv(request, ["/usr/bin/docker", "--host", "unix:///x"], ["--allow=fs.write=/out"])
    assert argv == [
        *("/usr/bin/docker", "--host", "unix:///x", "buildx", "bake", "--file=bake/x.hcl", "--progress=rawjson"),
        *("--metadata-file=/state/metadata/wheel-cp311.json", "--builder=two", "--no-cache", "--pull"),
        *("--execution=defer-error", "--allow=fs.write=/out"),
        # The last one wins.
        *("--set=*.args.X=a b", "--set=*.args.BUILDKIT_CACHE_MOUNT_NS=mine"),
        *("--set=*.args.BUILDKIT_CACHE_MOUNT_NS=0123", "wheel-cp311"),
    ]


def test_what_the_environment_says_of_the_record_does_not_count(tmp_path: Path) -> None:
    said = {"BUILDX_METADATA_PROVENANCE": "disabled", "BUILDX_GIT_INFO": "true", "BUILDX_GIT_LABELS": "full"}
    request = BakeRequest(
        root=tmp_path,
        bakefile=Path("bake/x.hcl"),
        targets=(),
        environment={**said, "DOCKER_CLI_HINTS": "true"},
        variables={},
        state=tmp_path,
        scope="0123",
    )
    environment = bake_environment(request)
    assert {name: environment[name] for name in said} == {
        "BUILDX_METADATA_PROVENANCE": "min",
        "BUILDX_GIT_INFO": "false",
        "BUILDX_GIT_LABELS": "false",
    }
    assert environment["DOCKER_CLI_HINTS"] == "true"


def test_flags_name_only_what_is_outside(tmp_path: Path) -> None:
    inside = tmp_path / "state"
    allowed = Allowed(tmp_path, reads=(Path("/etc/ca.pem"), Path("ca.pem")), writes=(inside, Path("/out")))
    assert allowed.flags() == ["--allow=fs.read=/etc/ca.pem", "--allow=fs.write=/out"]


@pytest.mark.parametrize(
    "override",
    [
        "*.output=type=local,dest=/etc", "*.output+=type=local,dest=../x", "*.output=/etc",
        '*.output="type=tar","dest=/etc/x"', "*.output=link/x", "w.cache-to=type=local,dest=/var/cache",
        "w.cache-from=type=local,src=/var/cache", "w.secrets=id=x,src=/etc/shadow", "w.contexts.src=/root",
        "w.context=..", "w.dockerfile=/etc/passwd", "w.network=host", "w.entitlements+=security.insecure",
    ],
)  # fmt: skip
def test_overrides_that_reach_out_are_refused(tmp_path: Path, override: str) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(PlanError, match=r"outside|entitlement"):
        Allowed(tmp_path).require([override])


@pytest.mark.parametrize(
    "override",
    [
        "*.args.X=/etc", "*.platform=linux/arm64", "*.output=type=local,dest=out", "*.output=type=docker",
        "*.output=type=tar,dest=/allowed/x.tar", "w.cache-from=type=gha", "w.contexts.src=docker-image://x",
        "w.secrets=id=x,src=/read/x", "w.no-cache=true", "nonsense",
    ],
)  # fmt: skip
def test_other_overrides_pass(tmp_path: Path, override: str) -> None:
    Allowed(tmp_path, (Path("/read"),), (Path("/allowed"),)).require([override])


def execute(code: str, lines: list[bytes], **more: float) -> Ended:
    """Run Python code as the only child."""
    return run([sys.executable, "-c", code], lines.append, more.get("timeout_s"))


def run(argv: list[str], line: Callable[[bytes], None], timeout_s: float | None = None) -> Ended:
    with caught() as signals, Children(signals) as children:
        children.start(argv, cwd=Path("/"), environment=os.environ, line=line, timeout_s=timeout_s)
        while True:
            for _, ended in children.turn():
                return ended


def test_lines_and_exit_code() -> None:
    lines: list[bytes] = []
    code = "import sys; print('no'); print('a\\nb', file=sys.stderr); sys.exit(1 if sys.stdin.read() else 7)"
    ended = execute(code, lines)
    assert (ended, lines) == (Ended(7, Stopped.NO), [b"a\n", b"b\n"])


def test_time_limit() -> None:
    began = time.monotonic()
    ended = execute("import time; time.sleep(30)", [], timeout_s=0.3)
    assert ended.stopped is Stopped.TIMEOUT
    assert time.monotonic() - began < 5


def test_stubborn_child_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "KILL_DELAY_S", 0.3)
    code = (
        "import signal, time, subprocess; signal.signal(15, signal.SIG_IGN); subprocess.Popen(['sleep', '30']).wait()"
    )
    ended = execute(code + "; time.sleep(30)", [], timeout_s=2.0)
    assert ended == Ended(-9, Stopped.TIMEOUT)


def test_signal_is_told_and_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    ended = execute("import time; time.sleep(30)", [])
    assert ended.stopped is Stopped.SIGNAL
    assert signal.getsignal(signal.SIGTERM) is before


def test_several_at_once_hand_their_lines_over_one_by_one() -> None:
    code = "import sys, time\nfor n in range(20):\n    print('{0}' * 40, file=sys.stderr, flush=True); time.sleep(0.01)"
    lines: dict[str, list[bytes]] = {"a": [], "b": [], "c": []}
    with caught() as signals, Children(signals) as children:
        for name, own in lines.items():
            argv = [sys.executable, "-c", code.format(name)]
            children.start(argv, cwd=Path("/"), environment=os.environ, line=own.append)
        ended = []
        while len(ended) < 3:
            ended += children.turn()
    assert [end.code for _, end in ended] == [0, 0, 0]
    assert lines == {name: [f"{name * 40}\n".encode()] * 20 for name in lines}


def test_leaving_ends_all_that_run() -> None:
    with caught() as signals, Children(signals) as children:
        started = [
            children.start(["sleep", "60"], cwd=Path("/"), environment=os.environ, line=lambda _: None)
            for _ in range(3)
        ]
        children.turn()
    for child in started:
        with pytest.raises(ProcessLookupError):
            os.kill(child.process.pid, 0)


KILLED = """
import os, sys
from pathlib import Path
from bakery.runs.processes import Children
from bakery.runs.processes import caught
with caught() as signals, Children(signals) as children:
    for _ in range(3):
        child = children.start(["sleep", "60"], cwd=Path("/"), environment=os.environ, line=print)
        print(child.process.pid, flush=True)
    while True:
        children.turn()
"""


def test_all_end_when_this_process_is_killed() -> None:
    driver = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    started = [int(driver.stdout.readline()) for _ in range(3)]
    driver.kill()
    driver.communicate()
    end = time.monotonic() + 20
    while any(is_running(number) for number in started):
        assert time.monotonic() < end, "something runs on"
        time.sleep(0.05)


def test_one_may_be_ended_and_all_of_them() -> None:
    with caught() as signals, Children(signals) as children:
        for _ in range(2):
            child = children.start(["sleep", "60"], cwd=Path("/"), environment=os.environ, line=lambda _: None)
            child.stop(Stopped.UNWANTED, time.monotonic())
        ended = []
        while len(ended) < 2:
            ended += children.turn()
    assert [end for _, end in ended] == [Ended(-signal.SIGTERM, Stopped.UNWANTED)] * 2


def test_other_threads_install_no_handlers() -> None:
    found: list[Ended] = []
    thread = threading.Thread(target=lambda: found.append(execute("pass", [])))
    thread.start()
    thread.join()
    assert found == [Ended(0, Stopped.NO)]


def test_error_of_a_listener_ends_the_child() -> None:
    def fail(_line: bytes) -> None:
        raise BrokenPipeError

    code = "import sys, os, time; print(os.getpid(), file=sys.stderr, flush=True); time.sleep(30)"
    began = time.monotonic()
    with pytest.raises(BrokenPipeError):
        run([sys.executable, "-c", code], fail)
    assert time.monotonic() - began < 5


def test_program_that_is_missing() -> None:
    with pytest.raises(EngineError, match="cannot start"):
        run(["/no/docker"], lambda _: None)


def test_logs_of_more_targets_than_files_may_be_open(tmp_path: Path) -> None:
    names = tuple(f"t{number}" for number in range(OPEN + 10))
    with LogFiles(tmp_path) as logs:
        logs.write([StepStarted(names, "[c 1/1] RUN x")])
        for text in ("one", "two\udcff"):
            logs.write([LogLines(names, "[c 1/1] RUN x", (text,))])
        logs.write([StepFinished(names[:1], "[c 1/1] RUN x", 1.26, cached=False, error="", canceled=False)])
    assert logs.path("t0").read_text() == "# [c 1/1] RUN x\none\ntwo?\n# done in 1.3 s\n"
    assert logs.path(names[-1]).read_text() == "# [c 1/1] RUN x\none\ntwo?\n"
