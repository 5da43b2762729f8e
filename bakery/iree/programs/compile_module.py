"""Compile /in/module.mlir, and write to /out: module.vmfb, log, and ended ("CODE MILLISECONDS").

Usage: compile_module.py FLAG...

A module that the compiler refuses is a result, too: the step passes, so that the other modules of the batch are compiled.
A failure of the machine (killed, out of memory) fails the step, so that BuildKit does not cache it. There is only one
process and few imports, because this runs for each module, and small ones compile in half a second.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys
import time
from typing import List

COMPILER = "/opt/venv/bin/iree-compile"
LOG = "/out/log"
MODULE = "/out/module.vmfb"

MEMORY = 16 << 30
"""Limit of the address space in bytes. BuildKit has no limit for the memory of one step."""

NO_MEMORY = (b"out of memory", b"bad_alloc", b"cannot allocate memory", b"no space left")


def take_slot() -> bool:
    """Wait for one of as many slots as there are cores; return whether all other slots are free.

    A lock on a file is a slot. The kernel frees it when the process ends. One waiting process at a time looks for a free
    slot; the others wait in the queue.
    """
    queue = os.open("/slots/queue", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(queue, fcntl.LOCK_EX)
    names = ["/slots/%d" % number for number in range(len(os.sched_getaffinity(0)))]
    slots = [os.open(name, os.O_RDWR | os.O_CREAT, 0o600) for name in names]
    while True:
        free = [slot for slot in slots if lock(slot)]
        for slot in free[1:]:
            fcntl.flock(slot, fcntl.LOCK_UN)
        if free:
            os.close(queue)
            return len(free) == 1
        time.sleep(0.01)


def lock(file: int) -> bool:
    """Lock a file; return whether it was free."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def compile_module(flags: List[str]) -> int:
    """Run the compiler; return its exit code as a shell reports it: 128 plus the number of a signal for a crash."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # The result contains the file name: without a folder, it is always the same.
    os.chdir("/in")
    child = os.posix_spawn(
        COMPILER,
        [COMPILER, "module.mlir", *flags, "-o", MODULE],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        # Python ignores these, and children inherit that.
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )
    status = os.waitpid(child, 0)[1]
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main(flags: List[str]) -> int:
    """Compile; return the exit code of the step."""
    os.umask(0o022)
    if take_slot():
        # Threads would compete with the other compilers, and take a fifth longer. The result is the same to the byte.
        flags = [*flags, "--mlir-disable-threading"]
    start = time.monotonic()
    code = compile_module(flags)
    seconds = time.monotonic() - start
    if code in (128 + signal.SIGKILL, 128 + signal.SIGTERM):
        print("the compiler was killed", file=sys.stderr)
        return code
    if code:
        if os.path.exists(MODULE):
            os.unlink(MODULE)
        with open(LOG, "rb") as file:
            log = file.read()
        if any(words in log.lower() for words in NO_MEMORY):
            sys.stderr.buffer.write(b"\n".join(log.splitlines()[-5:]) + b"\n")
            print("the compiler ran out of memory", file=sys.stderr)
            return 128 + signal.SIGKILL
    with open("/out/ended", "w") as file:
        file.write("%d %d\n" % (code, seconds * 1000))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
