"""slot.py: how many compilers run at a time, and what it knows of their memory."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from bakery.toolchains.programs import slot

PROGRAM = Path(slot.__file__)


def start(
    folder: Path, words: Sequence[str], *, slots: int = 2, queue: str = "queue", sccache: str = slot.SCCACHE, **env: str
) -> subprocess.Popen[str]:
    """Run a command behind the program, with a pool of ``slots`` slots in a folder."""
    code = (
        f"import os, runpy\nos.sched_getaffinity = lambda pid: range({slots})\n"
        f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import slot\n"
        f"slot.SCCACHE = {sccache!r}\n"
        f"status = slot.main({list(words)!r}, dict(os.environ), {str(folder)!r}, {str(folder / queue)!r})\n"
        "os._exit(os.WEXITSTATUS(status))"
    )
    (folder / "log").touch()
    environment = {"PATH": os.environ["PATH"], "BAKERY_SLOT_LOG": str(folder / "log"), **env}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], env=environment, stdout=subprocess.PIPE, text=True
    )


def sleeping(name: str, seconds: float = 0.06) -> list[str]:
    """Return a command that has the arguments of a compiler and takes a while."""
    return ["sh", "-c", f"sleep {seconds}", "-c", f"{name}.cpp"]


def log(folder: Path) -> list[tuple[float, float, int, int, str]]:
    """Return start, end, slot, expected MB and name of each compiler."""
    rows = (line.split("\t") for line in (folder / "log").read_text().splitlines())
    return sorted((float(row[0]), float(row[1]), int(row[2]), int(row[3]), row[5]) for row in rows)


def most_at_once(folder: Path) -> int:
    """Return how many compilers ran at the same time."""
    rows = log(folder)
    return max(sum(start <= row[0] < end for start, end, *_ in rows) for row in rows)


def waiting(folder: Path) -> int:
    """Return how many processes wait in the queue: the next one has a lock of the file, the others one of a byte."""
    inode = (folder / "queue").stat().st_ino if (folder / "queue").exists() else 0
    return sum(f":{inode} " in line and "->" not in line for line in Path("/proc/locks").read_text().splitlines())


def test_no_more_compilers_than_slots(tmp_path: Path) -> None:
    began = [start(tmp_path, sleeping(str(number)), queue=f"queue{number % 3}") for number in range(6)]
    assert [one.wait() for one in began] == [0] * 6
    assert most_at_once(tmp_path) == 2
    assert {row[2] for row in log(tmp_path)} == {0, 1}


def test_large_compilers_come_first_then_the_earlier_ones(tmp_path: Path) -> None:
    for name, mb in (("small", 20), ("large", 300), ("larger", 400)):
        slot.Peaks(str(tmp_path / "peaks"), slot.name_of(sleeping(name))).record(mb)
    began = [
        start(
            tmp_path,
            ["sh", "-c", f"echo >{tmp_path}/runs; while test ! -e {tmp_path}/go; do sleep 0.01; done", "a.cpp"],
            slots=1,
        )
    ]
    while not (tmp_path / "runs").exists():
        time.sleep(0.005)
    # The first of these is next for the slot already, whatever its size.
    for name in ("small", "new", "small2", "large", "larger", "new2"):
        began.append(start(tmp_path, sleeping(name), slots=1))
        while waiting(tmp_path) < len(began) - 1:
            time.sleep(0.005)
    (tmp_path / "go").touch()
    assert [one.wait(timeout=10) for one in began] == [0] * 7
    names = [row[-1].removesuffix(".cpp").removeprefix("sh/") for row in log(tmp_path)]
    assert names == ["a", "small", "larger", "large", "new", "small2", "new2"]


def test_compilers_wait_for_memory_but_never_where_none_runs(tmp_path: Path) -> None:
    # There is room for two of these, and for one that is larger than all the memory.
    small = {"BAKERY_JOB_MEMORY": "400", "BAKERY_SLOT_MEMORY": "1000"}
    began = [start(tmp_path, sleeping(str(number)), slots=3, **small) for number in range(3)]
    assert [one.wait() for one in began] == [0] * 3
    assert most_at_once(tmp_path) == 2
    (tmp_path / "log").unlink()
    (tmp_path / "peaks").unlink()
    began = [start(tmp_path, sleeping(str(number)), slots=3, BAKERY_JOB_MEMORY="900000") for number in range(3)]
    assert [one.wait() for one in began] == [0] * 3
    assert most_at_once(tmp_path) == 1
    # Their real peak is known now, and small.
    (tmp_path / "log").unlink()
    began = [start(tmp_path, sleeping(str(number)), slots=3, BAKERY_JOB_MEMORY="900000") for number in range(3)]
    assert [one.wait() for one in began] == [0] * 3
    assert max(row[3] for row in log(tmp_path)) < 100
    assert most_at_once(tmp_path) > 1


def test_the_peak_is_that_of_the_compiler(tmp_path: Path) -> None:
    for mb in (120, 40):
        words = [sys.executable, "-I", "-S", "-c", f"x = b'x' * {mb} * 10**6", "a.cpp"]
        assert start(tmp_path, words).wait() == 0
        peaks = slot.Peaks(str(tmp_path / "peaks"), slot.name_of(words))
        assert mb <= peaks.expected(0) < mb + 40


def test_the_peak_of_a_compiler_that_fails_is_not_kept(tmp_path: Path) -> None:
    words = ["sh", "-c", "exit 3", "a.cpp"]
    assert start(tmp_path, words).wait() == 3
    assert slot.Peaks(str(tmp_path / "peaks"), slot.name_of(words)).expected(-1) == -1


def test_a_compiler_of_a_compiler_needs_no_slot(tmp_path: Path) -> None:
    inner = f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import os, slot; "
    inner += (
        f"slot.main(['sh', '-c', 'exit 5', 'b.cpp'], dict(os.environ), {str(tmp_path)!r}, {str(tmp_path / 'queue')!r})"
    )
    assert start(tmp_path, [sys.executable, "-I", "-S", "-c", inner, "a.cpp"], slots=1).wait(timeout=10) == 5
    assert len(log(tmp_path)) == 1


def test_what_compiles_nothing_needs_no_slot(tmp_path: Path) -> None:
    with (tmp_path / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        for words in (["printf", "told"], ["printf", "told", "-E", "a.cpp"]):
            assert start(tmp_path, words).communicate(timeout=10)[0] == "told"


def test_a_killed_holder_frees_its_slot_when_its_compiler_ends(tmp_path: Path) -> None:
    holder = start(
        tmp_path, ["sh", "-c", f"echo >{tmp_path}/runs; sleep 0.4; echo >{tmp_path}/ended", "a.cpp"], slots=1
    )
    while not (tmp_path / "runs").exists():
        time.sleep(0.005)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    after = start(tmp_path, ["test", "-e", f"{tmp_path}/ended", "-o", "a.o"], slots=1)
    assert after.wait(timeout=10) == 0


def test_the_server_that_sccache_leaves_keeps_no_slot_and_has_no_peak(tmp_path: Path) -> None:
    server = f"while test ! -e {tmp_path}/stop; do sleep 0.01; done"
    words = ["sh", "-c", f"({server}; echo ended >{tmp_path}/ended) & exit 3", "--crate-name", "a", "src/lib.rs"]
    try:
        for _ in range(2):
            assert start(tmp_path, words, slots=1, sccache="sh").wait(timeout=10) == 3
    finally:
        (tmp_path / "stop").touch()
    rows = [line.split("\t") for line in (tmp_path / "log").read_text().splitlines()]
    assert [row[2:] for row in rows] == [["0", str(slot.UNKNOWN_MB), "0", "rustc/a"]] * 2
    assert start(tmp_path, [*words[:2], "true", *words[3:]], slots=1, sccache="sh").wait(timeout=10) == 0
    assert log(tmp_path)[-1][3] == slot.UNKNOWN_MB
    assert slot.Peaks(str(tmp_path / "peaks"), "rustc/a").expected(-1) == -1


@pytest.mark.parametrize("name", ["turn", "slot-0", "memory", "peaks", "queue"])
def test_a_pool_that_was_tampered_with_is_no_limit(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert start(tmp_path, sleeping("a", 0)).wait(timeout=10) == 0
    assert log(tmp_path)[0][2] == -1
    (tmp_path / name).rmdir()
    (tmp_path / name).symlink_to("/etc/passwd")
    assert start(tmp_path, sleeping("a", 0)).wait(timeout=10) == 0
    assert log(tmp_path)[1][2] == -1


def test_numbers_that_are_none_do_not_stop_anyone(tmp_path: Path) -> None:
    for name in ("memory", "slot-0", "slot-1", "peaks"):
        (tmp_path / name).write_bytes(b"\xff" * 70000)
    began = [start(tmp_path, sleeping(str(number))) for number in range(3)]
    assert [one.wait(timeout=10) for one in began] == [0] * 3


def test_no_pool(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    assert (
        slot.main(["sh", "-c", "exit 4", "a.cpp"], {"PATH": os.environ["PATH"]}, str(tmp_path / "none"), "none") >> 8
        == 4
    )


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("/usr/local/cuda/bin/nvcc -c a.cu", True),
        ("nvcc -c a.cu --time=mine.csv", False),
        ("nvcc -c a.cu -time mine.csv", False),
        ("nvcc -c a.cu -timeout", True),
        ("g++ -c a.cpp", False),
    ],
)
def test_nvcc_tells_the_times_of_its_phases(words: str, asked: bool) -> None:
    added = [f"--time={slot.NVCC_TIMES}"] if asked else []
    assert slot.timed(words.split()) == [*words.split(), *added]


TIMES = """\
source file name , phase name , phase input files , phase output file , arch , tool, metric , unit
/src/src/a.cu , cicc , a.ii , a.ptx , compute_90 , nvcc , 900.0 , ms
/src/src/a.cu , ptxas , a.ptx , a.cubin , sm_90a , nvcc , 500.0 , ms
/src/src/a.cu , ptxas , a.ptx , a.cubin , sm_80 , nvcc , 500.0 , ms
src/b.cu , ptxas , b.ptx , b.cubin , sm_75 , nvcc , 250.0 , ms
"""


def test_the_gpus_of_the_first_file_are_told_once(tmp_path: Path) -> None:
    told, table, step = (str(tmp_path / name) for name in ("told", "table", "step"))
    Path(table).write_text(TIMES)
    for words in (
        "nvcc -c /opt/CMakeCUDACompilerABI.cu -o CMakeFiles/cmTC_123.dir/a.o",
        "nvcc -c src/c.cpp",
        "nvcc -c /src/src/a.cu -o a.o",
        "nvcc -c src/b.cu -o b.o",
    ):
        slot.tell_gpus(words.split(), told, table, step)
    assert Path(step).read_text() == "bakery: nvcc compiled src/a.cu for sm_80 sm_90a\n"


def test_a_table_of_nvcc_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    slot.tell_gpus(["nvcc", "-c", "a.cu"], str(tmp_path / "told"), str(tmp_path / "none"), str(tmp_path / "step"))
    assert not (tmp_path / "step").exists()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("/usr/bin/g++ -O2 -c -o a.o src/a.cpp", "g++/src/a.cpp"),
        ("nvcc -c /src/csrc/sm90/attn.cu -o /tmp/tmpx/attn.o", "nvcc/csrc/sm90/attn.cu"),
        ("g++ -shared a.o b.o -o build/lib.x/_core.so", "g++/build/lib.x/_core.so"),
        ("g++ --version", ""),
        ("g++ -o", ""),
    ],
)
def test_names(words: str, name: str) -> None:
    assert slot.name_of(words.split()) == name


@pytest.mark.parametrize(
    ("words", "package", "name"),
    [
        ("rustc --crate-name itoap --edition=2018 /vendor/itoap/src/lib.rs --crate-type lib", "itoap", "rustc/itoap"),
        ("rustc --crate-name pyo3_ffi src/lib.rs", "pyo3-ffi", "rustc/pyo3_ffi"),
        ("rustc --crate-name build_script_build build.rs", "libc", "rustc/libc/build_script_build"),
        ("rustc --crate-name demo src/lib.rs", "", "rustc/demo"),
        ("rustc - --crate-name ___ --print=file-names", "", ""),
        ("rustc --crate-name probe --crate-type=lib --emit=metadata -", "libc", ""),
        ("rustc -vV", "", ""),
        ("rustc src/lib.rs --crate-name", "", ""),
        ("cc -c hello.c", "", ""),
    ],
)
def test_names_of_crates(words: str, package: str, name: str) -> None:
    environment = {"CARGO_PKG_NAME": package} if package else {}
    assert slot.crate_of([slot.SCCACHE, *words.split()], environment) == name
