#!/opt/bakery/bin/python -IS
"""Run a compiler as soon as there is a slot for it. with-ccache makes ccache call it for files that are not cached.

Usage: slot.py COMPILER ARGUMENT...

with-ccache also makes it the wrapper of rustc, under the name `RUSTC_WRAPPER`. It then puts `SCCACHE` before the compiler of
a crate of a registry or a commit. A crate of the project is always compiled: what macros and assembler read is in no list.

All steps that mount the same `POOL` run at most as many compilers as there are cores. The peaks that these had in
earlier runs together stay within the machine's memory. The pool is a folder:

- ``slot-N`` is locked while a compiler runs; it has the compiler's expected peak memory in MB.
- ``turn`` is locked by the one process that looks for a slot.
- ``memory`` has the MB that were free when no compiler ran.
- ``peaks`` is a table with the last peak of each source file.

The kernel releases a lock when the processes that have it end, so nothing is left over after a crash. The project's
code can write to the pool: a file that is not as expected gives no limit.

Environment:

- ``BAKERY_JOB_MEMORY``: the expected MB of a file that was never compiled here.
- ``BAKERY_SLOT_MEMORY``: the MB that count as free, instead of those that are.
- ``BAKERY_SLOT_LOG``: a file that gets a line for each compiler: start and end in seconds, slot, expected and measured
  MB, and the file.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import time

POOL = "/var/cache/slots"
QUEUE = "/dev/shm/bakery-compilers"
"""The queue of this step. Only its first process queues for the pool, so the steps take turns. Large compilers come
first: one that starts last would run alone in the end.
"""

TAKEN = "BAKERY_SLOT"
"""Set for a compiler that has a slot: compilers that it starts, such as nvcc's gcc, need none."""

LINK = "BAKERY_LINK"
"""Set by `LINK_CACHE`, which calls this program for a link that it does not have."""

LINK_CACHE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "link_cache.py")

RUSTC_WRAPPER = "rustc-wrapper"
SCCACHE = "/opt/bakery/bin/sccache"

FETCHED = ("/crates/vendor/", "/registry/src/", "/git/checkouts/")
"""Parts of the paths of crates that do not change."""

NVCC_TIMES = "/tmp/nvcc-times.csv"
"""nvcc appends the times of its phases to this table, which count-ccache reads. ccache does not see the option."""

TOLD = "/tmp/nvcc-told"
"""Exists once a file's GPUs were told; count-ccache removes it."""

STEP_LOG = "/proc/1/fd/2"
"""The output of the whole step. ccache would keep what a compiler's own output gets."""

PROJECT = "/src/"
"""Where steps have the source."""

UNKNOWN_MB = 200
USABLE = 0.85
"""The share of memory that compilers may use, as in with-jobs."""

EVERY_S = 0.01
"""Seconds between two looks at the slots."""

NEXT_S = 0.03
"""Seconds between two looks of the process that is the next in its queue."""

SHORT_S, LONG_S = 0.001, 0.1
"""Seconds between two looks of a process that is not the next in its queue, at first and in the end."""

ROWS = 1 << 14
"""The rows of the table of peaks: 2 bytes that tell files of the same row apart, and 2 bytes with the MB."""

SOURCES = (".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".cu", ".m", ".mm", ".f", ".f90", ".F", ".F90", ".s", ".S", ".i")


def opened(path: str) -> int:
    """Open a file for reading and writing; create it. Never follows a link, never waits."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)


def number(file: int) -> int:
    """Return the MB in a file, 0 if there are none."""
    text = os.pread(file, 6, 0)
    return int(text) if text.isdigit() else 0


def write_number(file: int, mb: int) -> None:
    """Write MB, in as many bytes as `number` reads."""
    os.pwrite(file, b"%06d" % min(mb, 999999), 0)


def name_of(words: list[str]) -> str:
    """Return a compiler and what it compiles or links; empty if the words do not tell it. Folders of a run differ."""
    sources = [word for word in words[1:] if word.endswith(SOURCES) and not word.startswith("-")]
    files = sources or (words[words.index("-o") + 1 :] if "-o" in words else [])
    return "/".join([os.path.basename(words[0]), *files[0].split("/")[-3:]]) if files else ""


def crate_of(words: list[str], environment: dict[str, str]) -> str:
    """Return rustc and the crate that it compiles; empty if it compiles none. Many packages have a build_script_build."""
    if "--crate-name" not in words[:-1] or not any(word.endswith(".rs") and word[0] != "-" for word in words):
        return ""
    crate, package = words[words.index("--crate-name") + 1], environment.get("CARGO_PKG_NAME", "")
    return "/".join(["rustc", *([package] if package.replace("-", "_") not in ("", crate) else []), crate])


class Peaks:
    """The row of a name in the table of peaks. Two names of the same row replace each other."""

    def __init__(self, path: str, name: str) -> None:
        value = 0
        for byte in os.fsencode(name):
            value = (value * 257 + byte) % 0xFFFFFFFB
        self.at = value % ROWS * 4
        self.mark = (value // ROWS % 0xFFFF + 1).to_bytes(2, "little")
        self.file = opened(path)

    def expected(self, unknown: int) -> int:
        """Return the MB of the last time, or ``unknown``."""
        row = os.pread(self.file, 4, self.at)
        return int.from_bytes(row[2:], "little") if row[:2] == self.mark else unknown

    def record(self, mb: int) -> None:
        """Record the MB of this time."""
        os.pwrite(self.file, self.mark + min(mb, 0xFFFF).to_bytes(2, "little"), self.at)


def free_mb() -> int:
    """Return the MB of memory that are free, as with-jobs counts them."""
    text = os.environ.get("BAKERY_SLOT_MEMORY", "")
    if text.isdigit():
        return int(text)
    with open("/proc/meminfo", encoding="ascii") as file:
        lines = dict(line.split(":") for line in file)
    free = [int(lines["MemAvailable"].split()[0]) * 1024]
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            with open(limit, encoding="ascii") as most, open(used, encoding="ascii") as now:
                free.append(int(most.read()) - int(now.read()))
        except (OSError, ValueError):
            continue
    return min(free) // 1000000


def place_of(mb: int) -> int:
    """Return the place in a queue of a compiler that begins to wait now: before smaller ones, after those of its size."""
    return (0xFFFF - min(mb, 0xFFFF)) << 44 | time.monotonic_ns() // 1000000


def lock_as_first(queue: int, place: int) -> None:
    """Lock a queue as soon as no process waits at a place before this one. Each has a lock of the byte at its place."""
    fcntl.lockf(queue, fcntl.LOCK_SH, 1, place)
    # fcntl(2): struct flock of 64-bit Linux. The kernel says whether one of the bytes is locked.
    before = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, place, 0)
    pause = SHORT_S
    while True:
        if struct.unpack_from("h", fcntl.fcntl(queue, fcntl.F_GETLK, before))[0] == fcntl.F_UNLCK:
            try:
                fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pause = NEXT_S
        else:
            pause = min(2 * pause, LONG_S)
        time.sleep(pause)
    fcntl.lockf(queue, fcntl.LOCK_UN, 1, place)


def take(slots: list[int], memory: int, mb: int) -> int | None:
    """Lock a free slot for a compiler of ``mb`` MB and return its number; None if it has to wait.

    Only the process that has the turn calls this. A compiler never waits if none runs.
    """
    free, held = [], 0
    for index, slot in enumerate(slots):
        try:
            fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free.append(index)
        except BlockingIOError:
            held += number(slot)
    if len(free) == len(slots):
        write_number(memory, free_mb())
    fits = len(free) == len(slots) or held + mb <= number(memory) * USABLE
    for index in free[1 if fits else 0 :]:
        fcntl.flock(slots[index], fcntl.LOCK_UN)
    if not free or not fits:
        return None
    write_number(slots[free[0]], mb)
    return free[0]


def wait_for_slot(pool: str, queue: str, count: int, peaks: Peaks, unknown: int, inherited: bool) -> tuple[int, int]:
    """Wait for a slot; return its number, and the expected MB. Raises OSError if the pool cannot be used.

    ``unknown``: the MB of a file without a peak. The peak is read again and again: while a compiler waits, the same file may
    end in another step. If the slot is ``inherited``, a compiler that outlives this process keeps it.
    """
    files: list[int] = []
    try:
        # They are closed in this order. The turn comes first: the other steps are next.
        for path in (f"{pool}/turn", queue, f"{pool}/memory", *(f"{pool}/slot-{index}" for index in range(count))):
            files.append(opened(path))
        turn, first, memory, *slots = files
        lock_as_first(first, place_of(peaks.expected(unknown)))
        fcntl.flock(turn, fcntl.LOCK_EX)
        while (index := take(slots, memory, mb := peaks.expected(unknown))) is None:
            time.sleep(EVERY_S)
        files.remove(slots[index])
        os.set_inheritable(slots[index], inherited)
        return index, mb
    finally:
        for file in files:
            os.close(file)


def run(words: list[str], environment: dict[str, str]) -> tuple[int, int]:
    """Run a compiler; return its status and its peak memory in MB."""
    pid = os.posix_spawnp(words[0], words, environment)
    _, status, used = os.wait4(pid, 0)
    return status, used.ru_maxrss * 1024 // 1000000


def timed(words: list[str]) -> list[str]:
    """Return the words of a compiler so that an nvcc tells the times of its phases. nvcc can do that since 11.2."""
    if os.path.basename(words[0]) != "nvcc" or any(word.lstrip("-").partition("=")[0] == "time" for word in words[1:]):
        return words
    return [*words, "--time=" + NVCC_TIMES]


def log(path: str, *values: object) -> None:
    """Append a line; lines of processes that run at the same time do not mix."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, os.fsencode("\t".join(map(str, values)) + "\n"))
    os.close(file)


def tell_gpus(words: list[str], told: str = TOLD, table: str = NVCC_TIMES, step: str = STEP_LOG) -> None:
    """Say once for which GPUs nvcc compiled a file: `wheel` compares them with the recipe's. CMake's own tests do not count."""
    source = next((word for word in words[1:] if word.endswith(".cu")), "")
    if not source or any("cmTC_" in word for word in words):
        return
    try:
        os.close(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        with open(table, encoding="utf-8", errors="replace") as file:
            # source, phase, its inputs, its output, architecture, tool, time, unit
            rows = [[cell.strip() for cell in line.split(",")] for line in file]
        own = [row for row in rows if len(row) >= 8 and row[0] == source and row[1] == "ptxas"]
        if gpus := sorted({row[-4] for row in own}):
            name = source[len(PROJECT) :] if source.startswith(PROJECT) else source
            log(step, f"bakery: nvcc compiled {name} for {' '.join(gpus)}")
    except OSError:
        # Told before, or nobody can be told: no reason to stop a build.
        pass


def main(words: list[str], environment: dict[str, str], pool: str = POOL, queue: str = QUEUE) -> int:
    """Run a compiler in a slot, or without one where there is no pool; return its status."""
    is_rust = words[0] == SCCACHE
    name = crate_of(words, environment) or ("" if is_rust else name_of(words))
    if TAKEN in environment or not name or "-E" in words:
        os.execvpe(words[0], words, environment)
    if LINK not in environment and "-shared" in words and any(word.startswith("-flto") for word in words):
        os.execve(LINK_CACHE, [LINK_CACHE, *words], environment)
    environment[TAKEN] = "1"
    guess = environment.get("BAKERY_JOB_MEMORY", "")
    peaks, index, expected = None, -1, 0
    try:
        peaks = Peaks(f"{pool}/peaks", name)
        unknown = int(guess if guess.isdigit() else 0) or UNKNOWN_MB
        # The first sccache starts its server, which would keep the slot for good.
        cores = len(os.sched_getaffinity(0))
        index, expected = wait_for_slot(pool, queue, cores, peaks, unknown, inherited=not is_rust)
    except OSError:
        # ccache would keep a message as the compiler's.
        pass
    start = time.monotonic()
    status, mb = run(timed(words) if "BAKERY_SLOT_LOG" in environment else words, environment)
    # sccache's server runs rustc, so nothing is known of its memory.
    mb = 0 if is_rust else mb
    if peaks and status == 0 and mb:
        peaks.record(mb)
    if "BAKERY_SLOT_LOG" in environment:
        times = (f"{moment:.3f}" for moment in (start, time.monotonic()))
        log(environment["BAKERY_SLOT_LOG"], *times, index, expected, mb, name)
        if status == 0 and os.path.basename(words[0]) == "nvcc":
            tell_gpus(words)
    return status


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: slot.py COMPILER ARGUMENT...")
    try:
        is_fetched = any(word.endswith(".rs") and part in word for word in sys.argv for part in FETCHED)
        wrapped = [SCCACHE] if os.path.basename(sys.argv[0]) == RUSTC_WRAPPER and is_fetched else []
        result = main([*wrapped, *sys.argv[1:]], dict(os.environ))
    except OSError as error:
        sys.exit(f"slot.py: {sys.argv[1]}: {error.strerror}")
    # Without Python's own end, which takes a millisecond. A shell says 128 and the signal, too.
    os._exit(128 + os.WTERMSIG(result) if os.WIFSIGNALED(result) else os.WEXITSTATUS(result))
