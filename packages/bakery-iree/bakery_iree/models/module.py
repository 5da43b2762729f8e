"""The record of a compiled module: ``NAME.TARGET.json``, next to ``NAME.TARGET.vmfb``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt

from bakery.recipe.models.base import Model
from bakery.recipe.models.text import Line

LARGEST_RECORD = 4 << 20
"""The maximum size of a record, in bytes."""

VERSION = 1
"""Version of the format of records. Increase it when readers have to change."""

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[StrictInt, Field(ge=0)]
Difference = Annotated[StrictFloat, Field(ge=0, allow_inf_nan=False)]
Backend = Literal["cpu", "cuda", "vulkan", "metal", "rocm"]
Machine = Literal["x86_64", "aarch64", ""]
Seconds = Annotated[StrictFloat, Field(ge=0, allow_inf_nan=False)]


class FileRecord(Model):
    """A file and its hash."""

    name: Line
    """The file name, without folders."""
    sha256: Sha256
    """The SHA-256 of the file."""
    size: Count
    """The size in bytes."""


class TypeRecord(Model):
    """The type of an argument or of a result."""

    text: str
    """The type as MLIR writes it: ``tensor<64x?xf32>``."""
    shape: tuple[Count | None, ...] | None = None
    """The dimensions of a ranked tensor; a dimension that is known only at run time is null. Null for other types."""
    dtype: str = ""
    """The NumPy name of the element type. Empty if NumPy has no such type."""


class FunctionRecord(Model):
    """A function that the module exports."""

    name: Line
    """The symbol of the function, without ``@``."""
    arguments: tuple[TypeRecord, ...]
    """The types of the arguments."""
    results: tuple[TypeRecord, ...]
    """The types of the results."""


class TargetRecord(Model):
    """The target of a module."""

    name: Line
    """The target as it is written on the command line: ``cuda:sm_80``."""
    backend: Backend
    """The kind of device."""
    architecture: str
    """The architecture of the device: ``x86-64-v3``, ``sm_80``, ``gfx942``. Empty if there is none."""
    machine: Machine = ""
    """The CPU architecture that the code is for. Empty for GPU targets, whose modules run with any CPU."""
    device: Line
    """The value for ``iree-run-module --device=``."""


class ErrorRecord(Model):
    """How much one result differed from the expected value."""

    result: Count
    """The index of the result, from 0."""
    dtype: Line
    """The name of the element type."""
    absolute: Difference | None
    """The largest absolute difference. Null if it is not finite, such as when only one of the values is NaN."""
    relative: Difference | None
    """The largest relative difference. Null if it is not finite, such as when the expected value is zero."""
    at: tuple[Count, ...]
    """The index of the worst element: the one that exceeds its tolerance by most."""
    got: str
    """The value of this element in the result."""
    expected: str
    """The expected value of this element."""
    beyond: Count
    """The number of elements that exceed the tolerance."""
    elements: Count
    """The number of all elements."""


class CheckRecord(Model):
    """The outcome of one check."""

    function: Line
    """The name of the called function."""
    status: Literal["passed", "failed", "not run"]
    """The outcome. ``not run`` means that the device was not available; it never counts as ``passed``."""
    reason: str = ""
    """Why the check failed or was not run. Empty if it passed."""
    errors: tuple[ErrorRecord, ...] = ()
    """The differences, one entry for each result. Empty if the results were not compared."""


class ValidationRecord(Model):
    """The outcome of the validation."""

    status: Literal["passed", "failed", "not run"]
    """The outcome of all checks together."""
    reason: str = ""
    """Why the validation as a whole failed or was not run. Empty if it passed, or if the checks have the reasons."""
    inspected: tuple[Line, ...] = ()
    """What was checked without running the module: its target, its embedded code."""
    checks: tuple[CheckRecord, ...] = ()
    """The outcome of each check of the job."""
    emulated: StrictBool = False
    """Whether the module ran under emulation of another architecture."""
    runtime: Line = ""
    """The version of iree-base-runtime that ran the module. Empty if it was not run."""


class BenchmarkRecord(Model):
    """The result of a benchmark."""

    function: Line
    """The name of the called function."""
    repetitions: Count
    """The number of measured calls."""
    warmup: Count
    """The number of calls before the measurement."""
    cores: str = ""
    """The CPU cores that the benchmark was allowed to use."""
    machine: str = ""
    """The CPU model of the machine. Results of different machines are not compared."""
    p50: Seconds
    """The median time of a call, in seconds."""
    p90: Seconds
    """The 90th percentile, in seconds."""
    p99: Seconds
    """The 99th percentile, in seconds."""
    mean: Seconds
    """The mean, in seconds."""
    throughput: Annotated[StrictFloat, Field(ge=0)]
    """Calls per second."""
    baseline: Seconds | None = None
    """The median of the baseline, in seconds. Null if there was no comparison."""
    regression: StrictBool = False
    """Whether the median is slower than that of the baseline by more than the threshold."""


class ModuleRecord(Model):
    """A compiled module: its inputs, its functions, and the results of validation and benchmark."""

    version: Literal[1]
    """The version of the record format: 1."""
    name: Line
    """The name of the results."""
    compiler: Line
    """The release of iree-base-compiler that compiled the module."""
    runtime: Line
    """The oldest release of iree-base-runtime that is known to load the module."""
    target: TargetRecord
    """The target that the module was compiled for."""
    flags: tuple[Line, ...]
    """All flags of ``iree-compile``, in order, without the input and the output."""
    input: FileRecord
    """The input file."""
    output: FileRecord
    """The compiled file (``.vmfb``)."""
    functions: tuple[FunctionRecord, ...]
    """The exported functions, with the types that the compiler gave them."""
    validation: ValidationRecord | None = None
    """The outcome of the validation. Null if the module was not validated."""
    benchmark: BenchmarkRecord | None = None
    """The result of the benchmark. Null if the module was not measured."""


class Measured(Model):
    """The measurement of one module."""

    module: Line
    """The file name without ``.vmfb``: the name and the target."""
    record: BenchmarkRecord
    """The measured values."""


class Baseline(Model):
    """All measurements of one run, as ``wheel-bakery benchmark --save-baseline`` writes them."""

    version: Literal[1]
    """The version of the file format: 1."""
    benchmarks: tuple[Measured, ...]
    """One measurement for each module that ran."""
