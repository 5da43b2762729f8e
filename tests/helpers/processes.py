"""Processes that tests start."""

from __future__ import annotations

from pathlib import Path

from bakery.runs.cibuildwheel.process import Build


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def linux_build(folder: Path, timeout_s: float = 60) -> Build:
    """Return a build of cibuildwheel for Linux, with its log and its output in a folder."""
    return Build(
        arguments=(),
        identifiers=("cp311-manylinux_x86_64",),
        root=folder,
        output=folder / "out",
        log=folder / "log",
        tested=False,
        timeout_s=timeout_s,
        create_args=(),
        system="linux",
    )
