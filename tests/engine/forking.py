"""Runs ``python -m bakery`` in forks of one process that has imported all of it.

Importing takes half of the CPU time of a short command, and the engine tests run hundreds. `bakery` in command.py comes
here; `start` there starts an interpreter of its own, for tests that send signals, or that are about how it starts.

As a program, ``forking.py SOCKET`` is that process. It ends with the one that started it.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

STARTS = ("PYTHON", "LC_", "LANG", "TZ")
"""How variables begin that an interpreter reads when it starts."""


def starts_alike(environment: Mapping[str, str]) -> bool:
    """Return whether a fork is the same as a new interpreter with these variables more."""
    return not any(name.startswith(STARTS) and os.environ.get(name) != text for name, text in environment.items())


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float
) -> tuple[int, int, str, str]:
    """Run the command to its end; return its process id, exit code, output and errors.

    Raises TimeoutError after ``timeout_s``; the command has ended then.
    """
    with (
        tempfile.TemporaryFile("w+", newline="") as out,
        tempfile.TemporaryFile("w+", newline="") as err,
        socket.socket(socket.AF_UNIX) as link,
    ):
        link.connect(_server())
        request = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}
        socket.send_fds(link, [b"."], [out.fileno(), err.fileno()])
        link.sendall(json.dumps(request).encode())
        link.shutdown(socket.SHUT_WR)
        link.settimeout(timeout_s)
        with link.makefile() as answers:
            pid = int(answers.readline())
            try:
                code = int(answers.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGTERM)
                link.settimeout(60)
                link.recv(16)
                err.seek(0)
                raise TimeoutError(err.read()) from None
        out.seek(0)
        err.seek(0)
        return pid, code, out.read(), err.read()


@cache
def _server() -> str:
    """Start the process, once, and return the address of its socket."""
    address = Path(tempfile.mkdtemp(prefix="bakery-forking-"), "socket")
    subprocess.Popen([sys.executable, "-P", __file__, address], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for _ in range(600):
        if address.exists():
            return str(address)
        time.sleep(0.05)
    raise AssertionError("no process to fork from within 30 s")


class _Handler(socketserver.BaseRequestHandler):
    """One command: forks it, and says how it ended."""

    def handle(self) -> None:
        _, files, _, _ = socket.recv_fds(self.request, 1, 2)
        with self.request.makefile() as text:
            request = json.load(text)
        pid = os.fork()
        if pid == 0:
            self.request.close()
            _become(request, files)
        self.request.sendall(f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        self.request.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


class _Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Forks for each connection; ends with its parent."""

    parent = os.getppid()
    max_children = 100

    def service_actions(self) -> None:
        super().service_actions()
        if os.getppid() != self.parent:
            shutil.rmtree(Path(sys.argv[1]).parent)
            os._exit(0)


def _become(request: dict[str, object], files: Sequence[int]) -> None:
    """Turn this process into the command; does not return."""
    code: object = 1
    try:
        os.setsid()
        os.chdir(str(request["folder"]))
        os.environ.clear()
        os.environ.update(request["environment"])  # type: ignore[call-overload]
        for number, file in enumerate(files, start=1):
            os.dup2(file, number)
            os.close(file)
        sys.argv = ["bakery", *request["arguments"]]  # type: ignore[misc]
        from bakery.cli.app import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1 if code else 0)


def _import_all() -> None:
    import bakery

    for module in pkgutil.walk_packages(bakery.__path__, "bakery."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError:  # What an extra needs.
                continue


if __name__ == "__main__":
    _import_all()
    gc.collect()
    gc.freeze()
    with _Server(f"{sys.argv[1]}-", _Handler) as server:
        Path(f"{sys.argv[1]}-").rename(sys.argv[1])  # It listens.
        server.serve_forever()
