"""Small hostile files: each is answered in time and memory that its size explains, by a finding and never a traceback."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import hostile_files as hostile
import pytest
from plans import plan_of
from processes import is_running
from sample import sampled
from wheels import write_wheel

from bakery.core.errors import AuditError, OutputError
from bakery.release.index.store import NewWheel, extend
from bakery.release.verify import verify
from bakery_iree.errors import ModuleError
from bakery_iree.mlir import read_module
from bakery_iree.vmfb import read_vmfb
from wheel_audit.auditor import audit_in_worker, audit_wheel
from wheel_audit.byte_difference import differences
from wheel_audit.checks import check_ids
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import error, info
from wheel_audit.limits import Limits
from wheel_audit.plain_files import open_plain, read_plain
from wheel_audit.tools import exceeded_limit
from wheel_audit.worker import LimitExceeded, call

LOOP = "for turn in range(2_000_000): turn * turn % 7"
LOOPS = 15
"""The limit, in times of `LOOP`: 2 seconds where Python makes 15 million turns in one."""
MEMORY = 300 << 20
EXPECTED = ExpectedWheel(name="demo", version="1.0", python="3.11", requires=("torch==2.11.*",))
BAKERY = (sys.executable, "-P", "-m", "bakery")

_MEASURED = """
import resource, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
{imports}
def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
start = used()
{loop}
between = used()
{read}
end = used()
# Not ru_maxrss: that begins with the peak of the process that started this one.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print((end - between) / (between - start), int(peak.split()[1]) * 1024)
"""


def measured(imports: str, read: str, *arguments: object) -> tuple[float, int]:
    """Run ``read`` in a process of its own; return its CPU time, in times of `LOOP`, and its peak of memory."""
    program = _MEASURED.format(imports=imports, loop=LOOP, read=read)
    command = [sys.executable, "-P", "-c", program, str(Path(__file__).parent), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    loops, memory = done.stdout.split()
    return float(loops), int(memory)


AUDIT = "from wheel_audit.auditor import audit_wheel"


@pytest.mark.parametrize("name", sampled(hostile.WHEELS, 6))
def test_a_hostile_wheel_is_answered_in_time_and_memory(name: str, tmp_path: Path) -> None:
    check, make = hostile.WHEELS[name]
    path = make(tmp_path)
    assert path.stat().st_size < 1 << 20
    loops, memory = measured(AUDIT, "audit_wheel(Path(sys.argv[2]))", path)
    assert loops < LOOPS
    assert memory < MEMORY
    report = audit_in_worker(path, EXPECTED)
    found = {finding.check for finding in report.findings}
    assert not report.ok
    assert check in found or not check
    assert "audit-failed" not in found
    assert found <= check_ids().keys()
    json.dumps(report.to_json())


@pytest.mark.parametrize(
    "name", sampled([name for name, (check, _) in hostile.WHEELS.items() if check == "audit-limit"], 3)
)
def test_the_finding_names_the_limit_and_no_tool_is_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wheel_audit.wheel.run_auditwheel", lambda path: pytest.fail("asked"))
    monkeypatch.setattr("wheel_audit.wheel.run_tools", lambda path, **about: pytest.fail("asked"))
    report = audit_wheel(hostile.WHEELS[name][1](tmp_path))
    (finding,) = [finding for finding in report.findings if finding.check == "audit-limit"]
    assert any(number in finding.message for number in ("MiB", "times", "more than", "100,000"))


READERS: dict[str, tuple[str, str, Callable[[Path], tuple[Path, ...]]]] = {
    "declarations of a module": (
        "from bakery_iree.vmfb import read_vmfb",
        "read_vmfb(Path(sys.argv[2]))",
        lambda folder: (written(folder / "x.vmfb", hostile.vmfb_declarations()),),
    ),
    "SPIR-V in SPIR-V": (
        "from bakery_iree.vmfb import read_vmfb\nfrom bakery.core.errors import AuditError",
        "try: read_vmfb(Path(sys.argv[2]))\nexcept AuditError: pass",
        lambda folder: (hostile.vmfb_spirv(folder),),
    ),
    "types of MLIR": (
        "from bakery_iree.mlir import read_module\nfrom bakery_iree.errors import ModuleError",
        "try: read_module(Path(sys.argv[2]))\nexcept ModuleError: pass",
        lambda folder: (written(folder / "x.mlir", hostile.mlir_types().encode()),),
    ),
    "blanks of MLIR": (
        "from bakery_iree.mlir import read_module\nfrom bakery_iree.errors import ModuleError",
        "try: read_module(Path(sys.argv[2]))\nexcept ModuleError: pass",
        lambda folder: (written(folder / "x.mlir", b'"func.func" ()' + b" " * 100_000),),
    ),
    "dimensions of MLIR": (
        "from bakery_iree.mlir import Type",
        "Type('tensor<' + '1x' * 100_000 + 'f32').shape; Type('tensor<' + '9' * 6000 + 'xf32>').shape",
        lambda folder: (),
    ),
    "lines that differ": (
        "from wheel_audit.byte_difference import read_differences",
        "assert read_differences(Path(sys.argv[2]), Path(sys.argv[3]))",
        lambda folder: pair(folder, {"demo/a.txt": hostile.lines("a")}, {"demo/a.txt": hostile.lines("b")}),
    ),
    "lines that are alike": (
        "from wheel_audit.byte_difference import read_differences",
        "assert read_differences(Path(sys.argv[2]), Path(sys.argv[3]))",
        lambda folder: pair(
            folder,
            {"demo/a.txt": b"".join(b"%d" % n + b"a" * 500 + b"\n" for n in range(900))},
            {"demo/a.txt": b"".join(b"%d" % n + b"a" * 499 + b"b\n" for n in range(900))},
        ),
    ),
    "sections over the same bytes": (
        "from wheel_audit.byte_difference import read_differences",
        "assert read_differences(Path(sys.argv[2]), Path(sys.argv[3]))",
        lambda folder: pair(
            folder,
            hostile.of_objects(hostile.fatbin_sections()),
            hostile.of_objects(hostile.fatbin_sections()[:-1] + b"1"),
        ),
    ),
}


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def pair(folder: Path, old: dict[str, bytes], new: dict[str, bytes]) -> tuple[Path, ...]:
    for name in ("a", "b"):
        (folder / name).mkdir()
    return write_wheel(folder / "a", files=old), write_wheel(folder / "b", files=new)


@pytest.mark.parametrize("name", sampled(READERS, 4))
def test_a_reader_is_linear(name: str, tmp_path: Path) -> None:
    imports, read, make = READERS[name]
    loops, memory = measured(imports, read, *make(tmp_path))
    assert loops < LOOPS
    assert memory < MEMORY


def test_what_is_wrong_with_hostile_modules_is_told(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="overlap"):
        read_vmfb(hostile.vmfb_spirv(tmp_path))
    with pytest.raises(ModuleError, match="a type without end"):
        read_module(written(tmp_path / "x.mlir", hostile.mlir_types().encode()))
    assert read_vmfb(written(tmp_path / "y.vmfb", hostile.vmfb_declarations())).functions == ()


# --- the limits of the process


@pytest.mark.parametrize(
    ("call_", "limits", "said"),
    sampled(
        [
            ((exec, "while True: pass"), Limits(memory=1 << 30, cpu=1, seconds=60), "more than 1 seconds of CPU time"),
            ((time.sleep, 60), Limits(memory=1 << 30, cpu=60, seconds=1), "more than 1 seconds"),
            ((bytearray, 2 << 30), Limits(memory=1 << 30, cpu=60, seconds=60), "more than 1024 MiB of memory"),
            ((os._exit, 3), Limits(memory=1 << 30, cpu=60, seconds=60), "ended with 3"),
        ],
        2,
    ),
    ids=["cpu", "time", "memory", "end"],
)
def test_a_process_over_its_limit_is_ended_and_replaced(
    call_: tuple[Callable[..., object], object], limits: Limits, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = call(os.getpid, size=0)
    with monkeypatch.context() as patch:
        patch.setattr("wheel_audit.limits.Limits.of", lambda size: limits)
        start = time.monotonic()
        with pytest.raises(LimitExceeded, match=said):
            call(*call_, size=0)
        assert time.monotonic() - start < 30
    assert call(os.getpid, size=0) != before
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)


def test_a_worker_is_used_again_and_hands_on_what_is_raised() -> None:
    before = call(os.getpid, size=0)
    with pytest.raises(FileNotFoundError, match="no-such-folder"):
        call(os.listdir, "no-such-folder", size=0)
    assert call(os.getpid, size=0) == before
    assert before != os.getpid()


def test_a_tool_that_a_wheel_keeps_busy_ends_with_its_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wheel_audit.limits.Limits.of", lambda size: Limits(1 << 30, 60, 1))
    marker = tmp_path / "pid"
    with pytest.raises(LimitExceeded):
        call(subprocess.run, ["sh", "-c", f"echo $$ > {marker}; sleep 60"], size=0)
    number = int(marker.read_text())
    end = time.monotonic() + 5
    while is_running(number):
        assert time.monotonic() < end, "the tool runs on"
        time.sleep(0.1)


def test_a_wheel_over_the_limit_gets_a_report_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wheel_audit.limits.Limits.of", lambda size: Limits(memory=1 << 30, cpu=60, seconds=0))
    report = audit_in_worker(write_wheel(tmp_path))
    (finding,) = report.findings
    assert finding.check == "audit-limit"
    assert "more than 0 seconds" in finding.message
    assert (report.name, report.ok) == ("demo", False)
    json.dumps(report.to_json())


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", "took more CPU time"),
        ("raise MemoryError", "took more memory"),
        ("raise ValueError", ""),
        ("", ""),
    ],
)
def test_a_tool_over_the_limit_names_it(program: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert said in exceeded_limit(done)
    assert bool(said) == bool(exceeded_limit(done))


def test_limits_grow_with_the_file() -> None:
    small, large = Limits.of(1 << 10), Limits.of(900 << 20)
    assert small.memory <= 513 << 20
    assert large.memory > 4 << 30
    assert large.cpu > 900
    assert large.seconds > 3600


@pytest.mark.usefixtures("no_tools")
def test_a_check_that_stumbles_fails_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wheel_audit.checks.libraries.check", lambda wheel, expected: 1 / 0)
    found = audit_wheel(write_wheel(tmp_path)).findings
    assert [finding.message for finding in found if finding.check == "audit-failed"] == [
        "a check failed: ZeroDivisionError: division by zero"
    ]


@pytest.mark.usefixtures("no_tools")
def test_many_remarks_hide_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [*[info("bundled-library", "small")] * 60, error("bundled-library", "wrong")]
    monkeypatch.setattr("wheel_audit.checks.libraries.check", lambda wheel, expected: iter(findings))
    report = audit_wheel(write_wheel(tmp_path))
    assert not report.ok
    assert [finding.message for finding in report.findings if finding.check == "bundled-library"] == [
        "wrong",
        *["small"] * 50,
        "and 10 more findings of this kind",
    ]


def test_the_same_report_in_another_process(tmp_path: Path) -> None:
    path = write_wheel(tmp_path)
    assert audit_in_worker(path).to_json() == audit_wheel(path).to_json()
    assert audit_in_worker(path).path == path


# --- what is no plain file, and one bad file among many


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo-1.0-py3-none-any.whl"
    os.mkfifo(path)
    return path


def test_no_reader_waits_for_a_pipe(fifo: Path, tmp_path: Path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    for path in (fifo, tmp_path / "zero", tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            open_plain(path)
    with pytest.raises(OSError, match="larger than 2 bytes"):
        read_plain(written(tmp_path / "x", b"123"), 2)
    # More than any machine has in memory: refused by its size.
    os.truncate(tmp_path / "x", 1 << 40)
    with pytest.raises(OSError, match="larger than"):
        read_plain(tmp_path / "x", 1 << 39)
    for read, kind in ((audit_wheel, OSError), (audit_in_worker, OSError), (read_vmfb, AuditError)):
        with pytest.raises(kind, match="not a regular file"):
            read(fifo)
    with pytest.raises(ModuleError, match="not a regular file"):
        read_module(fifo)
    with pytest.raises(OSError, match="not a regular file"):
        differences(fifo, fifo)


def bakery(*arguments: object, columns: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"COLUMNS": columns} if columns else {})}
    command = [*BAKERY, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment, cwd=cwd)


def test_audit_judges_the_others(fifo: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    good, bad = (write_wheel(tmp_path), hostile.WHEELS["a member without a name"][1](tmp_path / "bad"))
    done = bakery("audit", fifo, bad, good)
    assert done.returncode == OutputError.exit_code
    assert f"ok      {good.name}" in done.stdout
    assert f"FAILED  {bad.name}" in done.stdout
    assert "not a regular file" in done.stderr
    assert "Traceback" not in done.stderr


def test_verify_judges_the_others(tmp_path: Path) -> None:
    plan = plan_of('name = "demo"\nplatforms = ["linux/amd64", "macos/arm64"]\n')
    bad = write_wheel(tmp_path, "cp311-cp311-macosx_11_0_arm64", metadata=hostile.METADATA + "X: y\n" * 20_000)
    pipe = tmp_path / "demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    os.mkfifo(pipe)
    odd = tmp_path / "_-1.0-py3-none-any.whl"
    odd.write_bytes(b"")
    with pytest.raises(AuditError) as caught:
        verify([plan], [bad, pipe, odd], tmp_path / "memory")
    told = "\n".join(caught.value.details)
    assert f"cannot read {pipe}: not a regular file" in told
    assert f"{bad.name}: the fields of METADATA have 20,003 lines, more than 10,000" in told
    assert "begins and ends with a letter" in told


def test_index_names_every_bad_file(fifo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    huge = "Metadata-Version: 2.1\nName: Demo\nVersion: " + "1" * 6000 + "\n"
    paths = [
        write_wheel(folder, metadata=huge),
        hostile.odd_name("_-1.0-py3-none-any.whl", folder),
        hostile.odd_name("demo-1.0-py3-none-\x1b[31many.whl", folder),
        fifo,
        tmp_path / "gone-1.0-py3-none-any.whl",
    ]
    with pytest.raises(OutputError) as caught:
        extend(tmp_path / "site", [NewWheel(path, "now") for path in paths], "now")
    details = "\n".join(caught.value.details)
    for part in (
        *("METADATA says Demo 111", "begins and ends with a letter", "printable ASCII"),
        *("not a regular file", "No such file"),
    ):
        assert part in details
    assert len(caught.value.details) == len(paths)
    assert "\x1b" not in details


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (hostile.WHEELS["METADATA of 36 MB"][1], "more than 4,194,304 bytes"),
        (hostile.WHEELS["METADATA with 50,000 fields"][1], "more than 10,000"),
        (hostile.WHEELS["too much to unpack"][1], "unpacks to more than"),
    ],
)
def test_index_bounds_its_work(make: Callable[[Path], Path], said: str, tmp_path: Path) -> None:
    path = make(tmp_path)
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    with pytest.raises(OutputError) as caught:
        extend(tmp_path / "site", [NewWheel(path, "now")], "now")
    assert said in caught.value.details[0]
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.process_time()
    exec(LOOP)
    assert end.ru_utime - start.ru_utime < LOOPS * (time.process_time() - began)


def test_no_file_name_reaches_a_terminal_raw(tmp_path: Path) -> None:
    """Names on a page of an index that somebody else made."""
    project = tmp_path / "site" / "simple" / "demo"
    project.mkdir(parents=True)
    page = {
        "filename": "demo-1.0-py3-none-\x1b[31many.whl",
        "hashes": {"sha256": "0"},
        "core-metadata": {"sha256": "0"},
    }
    text = json.dumps({"files": [{**page, "size": 1, "upload-time": "x"}]})
    (project / "index.v1_json").write_text(text)
    done = bakery("index", write_wheel(tmp_path), "--output", tmp_path / "site")
    assert done.returncode == OutputError.exit_code
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("columns", sampled(["0", "00", "1", "5"], 4))
def test_a_terminal_without_columns_shows_something(columns: str, tmp_path: Path) -> None:
    path = write_wheel(tmp_path)
    done = bakery("audit", path, columns=columns)
    assert done.returncode == 0
    assert path.name in done.stdout


def test_a_page_of_an_index_may_not_be_nested(tmp_path: Path) -> None:
    project = tmp_path / "simple" / "demo"
    project.mkdir(parents=True)
    (project / "index.v1_json").write_text("[" * 100_000)
    with pytest.raises(OutputError, match="was not changed"):
        extend(tmp_path, [], "now")
    (project / "index.v1_json").unlink()
    os.mkfifo(project / "index.v1_json")
    with pytest.raises(OutputError, match="was not changed"):
        extend(tmp_path, [], "now")
