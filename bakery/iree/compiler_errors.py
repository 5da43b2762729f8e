"""Failures of iree-compile: from its exit code and log to an error that shows the cause."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from bakery.core.errors import BakeryError, CompilerError, ModuleError
from bakery.iree.plan import ModuleCell

_SHOWN = 20
"""Lines of a log that an error shows."""

_BAD_ARGUMENT = 74
"""The exit code of iree-compile for an argument that LLVM refuses, such as an unknown CPU."""

_NOISE = re.compile(r"Please report issues|^PLEASE submit|^Stack dump|^ ?#?\d+ +0x|^\d+\.\s|^Stack dump without symbol")


def with_users_paths(cell: ModuleCell, text: str) -> str:
    """Return the log of a compiler with the user's file name in place of the one inside the container."""
    shown = cell.source.shown
    return re.sub(r"(?<![\w./-])module\.mlir(?=[\"':])", lambda _: shown, text)


def failure(cell: ModuleCell, code: int, log: str, log_file: Path) -> BakeryError:
    """Return why a compilation failed.

    Args:
        code: the exit code of the compiler as a shell reports it: 128 plus the number of a signal for a crash.
        log: the output of the compiler.
        log_file: the file with the whole output.
    """
    lines = [line for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(?:error|fatal|LLVM ERROR|Assertion)\b", line)]
    messages = [line for line in lines if not _NOISE.search(line)]
    details = [line[:400] for line in (errors or messages or lines)[:_SHOWN]]
    if code > 128:
        name = signal.Signals(code - 128).name if code - 128 in set(signal.Signals) else f"signal {code - 128}"
        first = messages[0][:200] if messages else "no output"
        return CompilerError(
            f"the compiler crashed ({name}): {first}",
            subject=cell.id,
            hint=f"this is a bug of iree-compile, triggered by {cell.source.shown}; the whole log: {log_file}",
            details=details,
        )
    first = (errors or messages or [f"iree-compile ended with exit code {code}"])[0][:300]
    refused = "an argument" if code == _BAD_ARGUMENT else "the module"
    return ModuleError(
        f"the compiler refused {refused}: {first}",
        subject=cell.id,
        hint=f"the whole log: {log_file}",
        details=details,
    )
