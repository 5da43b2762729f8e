"""Requests to validate or benchmark compiled modules, from a job file or from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bakery.core.errors import ModuleError, UsageError
from bakery.core.files import read_plain
from bakery.iree.job.load import OUTPUT, LoadedJob
from bakery.iree.models.baseline import Baseline, Measured
from bakery.iree.models.job import Benchmark, Check, name_of
from bakery.iree.modules import Compiled, find_modules


@dataclass(frozen=True, slots=True)
class Request:
    """A module with its checks and its benchmark.

    Attributes:
        folder: the folder that paths in checks are relative to.
    """

    module: Compiled
    checks: tuple[Check, ...]
    benchmark: Benchmark | None
    folder: Path


def requests_of_job(loaded: LoadedJob, output: Path | None, only: Sequence[str]) -> list[Request]:
    """Return a request for each compiled module of a job.

    Args:
        output: the folder of results; that of the job if None.

    Raises:
        ModuleError: one of its modules is not compiled.
        UsageError: ``only`` matches no module.
    """
    results = output or loaded.folder / (loaded.job.output or OUTPUT)
    if not results.is_dir():
        raise ModuleError(f"{results} does not exist", hint=f"run `wheel-bakery compile {loaded.file}` first")
    modules = find_modules([results], only)
    names = {module.name for module in modules}
    missing = [] if only else sorted({name_of(item) for item in loaded.job.modules} - names)
    if missing:
        raise ModuleError(
            f"not compiled: {', '.join(missing)}",
            hint=f"run `wheel-bakery compile {loaded.file}` first, or select other modules with --only",
        )
    return requests_of(loaded, modules)


def requests_of(loaded: LoadedJob, modules: Sequence[Compiled]) -> list[Request]:
    """Return a request for each of ``modules`` that belongs to the job."""
    inputs = {name_of(item): item for item in loaded.job.modules}
    return [
        Request(module, inputs[module.name].checks or (), inputs[module.name].benchmark, loaded.folder)
        for module in modules
        if module.name in inputs
    ]


_LARGEST_BASELINE = 4 << 20


def read_baseline(path: Path) -> dict[str, Measured]:
    """Read a baseline: title of a module → its earlier measurement.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        baseline = Baseline.model_validate_json(read_plain(path, _LARGEST_BASELINE))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="write one with --save-baseline") from error
    except ValidationError as error:
        raise UsageError(
            f"{path} is not a baseline: {error.errors()[0]['msg']}", hint="write one with --save-baseline"
        ) from error
    return {item.module: item for item in baseline.benchmarks}
