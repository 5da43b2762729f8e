"""What a person asks to be done with compiled modules: which of them, by which checks, and measured how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bakery.core.errors import ModuleError, UsageError
from bakery.core.plain_files import read_plain
from bakery.iree.job.load import OUTPUT, LoadedJob
from bakery.iree.models.baseline import Baseline, Measured
from bakery.iree.models.job import Benchmark, Check, name_of
from bakery.iree.modules import Compiled, find_modules


@dataclass(frozen=True, slots=True)
class Asked:
    """A module, and what is asked of it.

    Attributes:
        folder: what paths of its checks are relative to.
    """

    module: Compiled
    checks: tuple[Check, ...]
    benchmark: Benchmark | None
    folder: Path


def asked_by_job(loaded: LoadedJob, output: Path | None, only: Sequence[str]) -> list[Asked]:
    """Return the compiled modules of a job, each with its checks and its benchmark.

    Args:
        output: the folder of results; the job's own where None.

    Raises:
        ModuleError: one of its modules is not compiled.
        UsageError: ``only`` selects none.
    """
    results = output or loaded.folder / (loaded.job.output or OUTPUT)
    if not results.is_dir():
        raise ModuleError(f"{results} does not exist", hint=f"first `wheel-bakery compile {loaded.file}`")
    modules = find_modules([results], only)
    names = {module.name for module in modules}
    missing = [] if only else sorted({name_of(item) for item in loaded.job.modules} - names)
    if missing:
        raise ModuleError(
            f"not compiled: {', '.join(missing)}",
            hint=f"first `wheel-bakery compile {loaded.file}`, or choose others by --only",
        )
    return asked_of(loaded, modules)


def asked_of(loaded: LoadedJob, modules: Sequence[Compiled]) -> list[Asked]:
    """Return what a job asks of its modules; those of others are left out."""
    inputs = {name_of(item): item for item in loaded.job.modules}
    return [
        Asked(module, inputs[module.name].checks or (), inputs[module.name].benchmark, loaded.folder)
        for module in modules
        if module.name in inputs
    ]


def asked_by_hand(
    paths: Sequence[Path], only: Sequence[str], checks: tuple[Check, ...], benchmark: Benchmark | None
) -> list[Asked]:
    """Return modules by their files and folders, all with the same checks and benchmark; paths are of this folder."""
    return [Asked(module, checks, benchmark, Path()) for module in find_modules(paths, only)]


_LARGEST_BASELINE = 4 << 20


def read_baseline(path: Path) -> dict[str, Measured]:
    """Return module's title → an earlier figure.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        found = Baseline.model_validate_json(read_plain(path, _LARGEST_BASELINE))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="--save-baseline writes it") from error
    except ValidationError as error:
        raise UsageError(
            f"{path} is no baseline: {error.errors()[0]['msg']}", hint="--save-baseline writes it"
        ) from error
    return {item.module: item for item in found.benchmarks}
