"""Failures of modules: one class for each, with its exit code."""

from __future__ import annotations

from bakery.core.errors import BakeryError


class ModuleError(BakeryError, exit_code=14, title="module"):
    """An MLIR module, or the job that names it, is malformed."""


class WrongResultError(BakeryError, exit_code=15, title="validation"):
    """The results of a compiled module differ from the expected ones."""


class RegressionError(BakeryError, exit_code=16, title="regression"):
    """A compiled module is slower than its baseline by more than the threshold."""


class CompilerError(BakeryError, exit_code=17, title="compiler"):
    """A compiler of modules crashed, or exceeded its memory or time limit."""


EXIT_CODES = {
    item.exit_code: (item.__doc__ or "").split("\n")[0]
    for item in (ModuleError, WrongResultError, RegressionError, CompilerError)
}
"""Exit code to meaning."""
