"""Compile /in/module.mlir for some targets, and write to a folder each: module.vmfb, log, and ended ("CODE MILLISECONDS").

Usage: compile_module.py FOLDER FLAG... ["" FOLDER FLAG...]...

A module that the compiler refuses is a result, too: the step passes, so that the other modules of the batch are compiled.
A failure of the machine (killed, out of memory) fails the step, so that BuildKit does not cache it. There are few imports,
because this runs for each input, and small ones compile in half a second.
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


def compile_module(folder: str, flags: List[str]) -> int:
    """Run the compiler; return its exit code as a shell reports it: 128 plus the number of a signal for a crash."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # The result contains the file name: without a folder, it is always the same.
    os.chdir("/in")
    child = os.posix_spawn(
        COMPILER,
        [COMPILER, "module.mlir", *flags, "-o", folder + "/module.vmfb"],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, folder + "/log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        # Python ignores these, and children inherit that.
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )
    status = os.waitpid(child, 0)[1]
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def compile_one(folder: str, flags: List[str]) -> int:
    """Compile for one target; return the exit code of the step."""
    if not os.path.isdir(folder):
        os.mkdir(folder)
    if take_slot():
        # Threads would compete with the other compilers, and take a fifth longer. The result is the same to the byte.
        flags = [*flags, "--mlir-disable-threading"]
    start = time.monotonic()
    code = compile_module(folder, flags)
    seconds = time.monotonic() - start
    if code in (128 + signal.SIGKILL, 128 + signal.SIGTERM):
        print("the compiler was killed", file=sys.stderr)
        return code
    if code:
        if os.path.exists(folder + "/module.vmfb"):
            os.unlink(folder + "/module.vmfb")
        with open(folder + "/log", "rb") as file:
            log = file.read()
        if any(words in log.lower() for words in NO_MEMORY):
            sys.stderr.buffer.write(b"\n".join(log.splitlines()[-5:]) + b"\n")
            print("the compiler ran out of memory", file=sys.stderr)
            return 128 + signal.SIGKILL
    with open(folder + "/ended", "w") as file:
        file.write("%d %d\n" % (code, seconds * 1000))
    return 0


def main(words: List[str]) -> int:
    """Compile for all targets at the same time, as far as there are slots; return the exit code of the step."""
    os.umask(0o022)
    children: List[int] = []
    while words:
        end = words.index("") if "" in words else len(words)
        if end == len(words) and not children:
            return compile_one(words[0], words[1:])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = compile_one(words[0], words[1:end])
            finally:
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
        words = words[end + 1 :]
    codes = [os.waitpid(child, 0)[1] for child in children]
    failed = [128 + os.WTERMSIG(code) if os.WIFSIGNALED(code) else os.WEXITSTATUS(code) for code in codes if code]
    return failed[0] if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
