"""Real bakes through the driver, with root file systems of a few programs."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from onebake import bake

from bakery.core.errors import AuditError, InterruptedBake, OutputError, PlanError
from bakery.core.target_kinds import Kind
from bakery.engine.client import Engine
from bakery.plan.cells import Cell, Target
from bakery.runs.buildx.bake import BakeRequest
from bakery.runs.buildx.failures import BakeFailure
from bakery.runs.journal import Result
from bakery.runs.publish import publish, stage_files
from bakery.runs.run_folders import run_folder

pytestmark = pytest.mark.engine

HEAD = """\
FROM scratch AS base
COPY rootfs/ /
FROM base AS toolkit
RUN echo shared toolkit
FROM toolkit AS compile
ARG CELL
WORKDIR /out
"""
TAIL = "\nFROM scratch AS wheel\nCOPY --from=compile /out/ /\n"
WHEEL = "RUN echo compiling $CELL; echo $CELL > demo-1.0-$CELL-none-any.whl"

BAKEFILE = """\
variable "DEST" { default = "nowhere" }
variable "FLAVOUR" { default = "plain" }
target "wheel" {
  name = "wheel-${cell}"
  matrix = { cell = ["cp311", "cp312", "cp313"] }
  target = "wheel"
  args = { CELL = cell, FLAVOUR = FLAVOUR }
  output = ["type=local,dest=${DEST}/${cell}"]
}
"""

MakeRequest = Callable[..., BakeRequest]


@pytest.fixture
def make(tmp_path: Path, tiny_rootfs: Path, engine_environment: Mapping[str, str]) -> MakeRequest:
    """Give a function that makes a request from the steps of the compile stage and the cells."""

    def request(steps: str = WHEEL, cells: tuple[str, ...] = ("cp311", "cp312")) -> BakeRequest:
        if not (tmp_path / "rootfs").exists():
            shutil.copytree(tiny_rootfs, tmp_path / "rootfs", symlinks=True)
        # Another file system in each test, or one test would find its steps cached by another.
        (tmp_path / "rootfs" / "test").write_text(str(tmp_path))
        (tmp_path / "Dockerfile").write_text(HEAD + steps + TAIL)
        (tmp_path / "bake.hcl").write_text(BAKEFILE)
        state = tmp_path / "runs" / f"{len(list(tmp_path.glob('runs/*')))}"
        return BakeRequest(
            root=tmp_path,
            bakefile=Path("bake.hcl"),
            targets=tuple(
                Target(f"wheel-{cell}", Kind.WHEEL, Cell(cell, {"platform": "linux/amd64"}, {}), "wheel")
                for cell in cells
            ),
            environment=engine_environment,
            variables={"DEST": str(state / "stage")},
            state=state,
            scope="test",
        )

    return request


def test_targets_export_to_stages_of_their_own_and_logs_hold_shared_steps(make: MakeRequest) -> None:
    request = make()
    outcome = bake(request)
    assert [target.result for target in outcome.targets.values()] == [Result.DONE] * 2
    for cell in ("cp311", "cp312"):
        (wheel,) = stage_files(request.stage / cell)
        assert (wheel.name, wheel.read_text()) == (f"demo-1.0-{cell}-none-any.whl", f"{cell}\n")
        log = outcome.targets[f"wheel-{cell}"].log.read_text()
        assert f"compiling {cell}\n" in log
        assert "shared toolkit\n" in log
    assert outcome.targets["wheel-cp311"].metadata["buildx.build.ref"]


def test_second_run_is_all_cached(make: MakeRequest) -> None:
    bake(make())
    outcome = bake(make())
    for target in outcome.targets.values():
        assert target.cached == target.steps > 0


def test_no_cache_runs_everything(make: MakeRequest) -> None:
    bake(make())
    outcome = bake(replace(make(), no_cache=True))
    assert "compiling cp311" in outcome.targets["wheel-cp311"].log.read_text()


def test_failing_step_is_told_with_its_log_and_a_hint(make: MakeRequest) -> None:
    steps = (
        "RUN if [ $CELL = cp312 ]; then seq 1 50; echo 'fatal error: cuda.h: No such file or directory'; exit 3; "
        "elif [ $CELL = cp313 ]; then sleep 60; fi\n" + WHEEL
    )
    # One target is through before the other fails.
    request = make(steps, ("cp311",))
    bake(request)
    request = make(steps.replace("seq 1 50", "sleep 3; seq 1 50"), ("cp311", "cp312", "cp313"))
    began = time.monotonic()
    with pytest.raises(BakeFailure) as caught:
        bake(request)
    assert time.monotonic() - began < 30
    results = {name: target.result for name, target in caught.value.outcome.targets.items()}
    assert results == {"wheel-cp311": Result.DONE, "wheel-cp312": Result.FAILED, "wheel-cp313": Result.CANCELED}
    assert stage_files(request.stage / "cp311")
    (failure,) = caught.value.outcome.failures
    assert failure.targets == ("wheel-cp312",)
    assert failure.step.startswith("[compile 2/3] RUN if")
    assert failure.tail[-1] == "fatal error: cuda.h: No such file or directory"
    assert len(failure.tail) == 30
    assert failure.log is not None
    assert "\n1\n2\n3\n" in failure.log.read_text()
    assert "CUDA not found" in caught.value.hint
    assert caught.value.message.endswith("exit code: 3")


def test_failure_of_a_shared_step_is_every_targets(make: MakeRequest) -> None:
    request = make()
    dockerfile = request.root / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace("RUN echo shared toolkit", "RUN echo broken; exit 4"))
    with pytest.raises(BakeFailure) as caught:
        bake(request)
    (failure,) = caught.value.outcome.failures
    assert sorted(failure.targets) == ["wheel-cp311", "wheel-cp312"]
    assert failure.tail == ("broken",)


def test_error_without_a_step_is_told(make: MakeRequest) -> None:
    request = make()
    (request.root / "bake.hcl").write_text('target "x" {\n  nonsense')
    with pytest.raises(BakeFailure, match=r"bake\.hcl:2"):
        bake(request)


def test_time_limit_ends_the_bake(make: MakeRequest) -> None:
    request = replace(make("RUN sleep 60", ("cp311",)), timeout_s=3.0)
    began = time.monotonic()
    with pytest.raises(BakeFailure, match="not done within 3 s") as caught:
        bake(request)
    assert time.monotonic() - began < 20
    assert caught.value.outcome.failures[0].step.endswith("RUN sleep 60")


@pytest.mark.proof
def test_what_does_not_move_is_ended_and_a_command_is_not(make: MakeRequest) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        name = f"127.0.0.1:{silent.getsockname()[1]}/nothing:1"
        request = make(f"COPY --from={name} /x /x\n{WHEEL}", ("cp311",))
        with pytest.raises(BakeFailure, match="nothing moved for 3 s, and no command ran"):
            bake(replace(request, still_s=3.0))
    outcome = bake(replace(make(f"RUN sleep 6\n{WHEEL}", ("cp311",)), still_s=3.0))
    assert outcome.ran
    assert outcome.targets["wheel-cp311"].result is Result.DONE


def test_stray_variable_of_the_environment_changes_nothing(make: MakeRequest) -> None:
    request = make("ARG FLAVOUR\nRUN echo flavour=$FLAVOUR\n" + WHEEL, ("cp311",))
    environment = {**request.environment, "FLAVOUR": "stray", "DEST": "/nowhere"}
    variables = {**request.variables, "FLAVOUR": "plain"}
    outcome = bake(replace(request, environment=environment, variables=variables))
    assert "flavour=plain\n" in outcome.targets["wheel-cp311"].log.read_text()


def test_override_may_not_write_outside(make: MakeRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    override = f"wheel-cp311.output=type=local,dest={elsewhere}"
    request = replace(make(cells=("cp311",)), overrides=(override,))
    with pytest.raises(PlanError, match="outside"):
        bake(request)
    bake(replace(request, writes=(elsewhere,)))
    assert stage_files(elsewhere)


def test_large_log_stays_out_of_memory(make: MakeRequest) -> None:
    request = make("RUN seq 1 400000\n" + WHEEL, ("cp311",))
    outcome = bake(request)
    text = outcome.targets["wheel-cp311"].log.read_text()
    # BuildKit itself cuts a step's output at 2 MiB unless its daemon is told otherwise.
    assert "400000\n" in text or "output clipped" in text


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("RUN ln -s /etc/passwd demo-1.0-py3-none-any.whl", "a link"),
        ("RUN mkdir demo-1.0-py3-none-any.whl", "a folder"),
        ("RUN echo x > notes.txt", "not the name of a wheel"),
        ("RUN echo x > 'demo 1.0.whl'", "not the name of a wheel"),
        ("RUN mkfifo demo-1.0-py3-none-any.whl", "a device, pipe or socket"),
        ("RUN echo x > demo-1.0-py3-none-any.whl; ln demo-1.0-py3-none-any.whl demo-1.1-py3-none-any.whl", "hard link"),
        ("RUN true", "exported no wheel"),
    ],
)
def test_hostile_exports_are_refused(make: MakeRequest, step: str, said: str) -> None:
    request = make(step, ("cp311",))
    try:
        bake(request)
    except BakeFailure:
        # A pipe or a device does not even leave the engine.
        assert "mkfifo" in step
        return
    with pytest.raises(AuditError) as caught:
        stage_files(request.stage / "cp311")
    assert said in caught.value.message + "".join(caught.value.details)


def test_wheels_are_published(make: MakeRequest) -> None:
    with run_folder(make().root) as state:
        request = replace(make(), state=state, variables={"DEST": str(state / "stage")})
        bake(request)
        wheels = [wheel for cell in ("cp311", "cp312") for wheel in stage_files(request.stage / cell)]
        published = publish(wheels, request.root / "dist", root=request.root)
    assert [oct(path.stat().st_mode) for path in published] == ["0o100644"] * 2
    assert not request.stage.exists()
    (request.root / "out").symlink_to("/tmp")
    with pytest.raises(OutputError):
        publish((), request.root / "out", root=request.root)


SCRIPT = """
import os, pickle, signal, sys
sys.path.insert(0, os.path.dirname(sys.argv[2]))
from onebake import bake
from bakery.core.errors import BakeryError
# Whoever runs the tests in the background has SIGINT ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
with open(sys.argv[1], "rb") as file:
    request = pickle.load(file)
try:
    bake(request)
except BakeryError as error:
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    print(type(error).__name__, error.message)
    sys.exit(error.exit_code)
"""


Asleep = tuple[subprocess.Popen[str], BakeRequest, str]


@pytest.fixture
def asleep(make: MakeRequest) -> Asleep:
    """Give a process whose bake is in the middle of a step, its request, and a word of the step's command."""
    # A number of seconds that no other sleep on this machine has.
    unique = f"61.{os.getpid()}{time.monotonic_ns()}"
    request = make(f"RUN echo asleep; sleep {unique}", ("cp311", "cp312"))
    pickled = request.root / "request"
    pickled.write_bytes(pickle.dumps(replace(request, environment=dict(request.environment))))
    child = subprocess.Popen([sys.executable, "-c", SCRIPT, str(pickled), __file__], stdout=subprocess.PIPE, text=True)
    log = request.logs / "wheel-cp311.log"
    wait_for(lambda: log.exists() and "\nasleep\n" in log.read_text(), 30)
    return child, request, unique


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_everything(asleep: Asleep, number: signal.Signals) -> None:
    child, request, unique = asleep
    began = time.monotonic()
    child.send_signal(number)
    output, _ = child.communicate(timeout=25)
    assert time.monotonic() - began < 10
    assert child.returncode == InterruptedBake.exit_code
    assert output == f"InterruptedBake interrupted by {number.name}\n"
    assert not commands_with(str(request.state))
    wait_for(lambda: not commands_with(unique), 10)


def test_killed_driver_leaves_nothing_running(asleep: Asleep) -> None:
    child, request, unique = asleep
    child.kill()
    child.communicate()
    wait_for(lambda: not commands_with(str(request.state)), 15)
    wait_for(lambda: not commands_with(unique), 10)


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


def commands_with(text: str) -> list[str]:
    """Return the command lines on this machine that hold a text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if text in command:
            found.append(command.replace("\0", " "))
    return found


def test_engine_tells_what_it_is(engine_environment: Mapping[str, str], make: MakeRequest) -> None:
    engine = Engine(engine_environment)
    info = engine.info()
    assert info.version
    assert info.cpus > 0
    assert info.memory > 2**28


def test_flags_of_bake_are_known_by_its_help(engine_environment: Mapping[str, str]) -> None:
    engine = Engine(engine_environment)
    assert engine.bake_offers("--allow")
    assert engine.bake_offers("--file")
    assert not engine.bake_offers("--allo")
    assert not engine.bake_offers("--nonsense")
