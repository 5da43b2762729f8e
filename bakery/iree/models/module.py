"""The record of a compiled module: ``NAME.TARGET.json``, which lies beside ``NAME.TARGET.vmfb``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt

from bakery.recipe.models.base import Model
from bakery.recipe.models.text import Line

LARGEST_RECORD = 4 << 20
"""Bytes that a module's record may have."""

VERSION = 1
"""Version of the record; raised when a reader would have to change."""

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[StrictInt, Field(ge=0)]
Difference = Annotated[StrictFloat, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[StrictFloat, Field(ge=0, allow_inf_nan=False)]


class FileRecord(Model):
    """A file, by its content."""

    name: Line
    """Its name, without folders."""
    sha256: Sha256
    """Of its bytes."""
    size: Count
    """Bytes."""


class TypeRecord(Model):
    """A type of a function."""

    text: str
    """As MLIR writes it: ``tensor<64x?xf32>``."""
    shape: tuple[Count | None, ...] | None = None
    """The dimensions of a ranked tensor, null for one that is known only at run time; null for another type."""
    dtype: str = ""
    """Numpy's name of the element type; empty where numpy has none."""


class FunctionRecord(Model):
    """A function that the module exports."""

    name: Line
    """Its symbol, without ``@``."""
    arguments: tuple[TypeRecord, ...]
    """What it takes."""
    results: tuple[TypeRecord, ...]
    """What it gives."""


class TargetRecord(Model):
    """What the module runs on."""

    name: Line
    """As the command takes it: ``cuda:sm_80``."""
    backend: Literal["cpu", "cuda", "vulkan", "metal", "rocm"]
    """The kind of device."""
    architecture: str
    """The device's own name: ``x86-64-v3``, ``sm_80``, ``gfx942``; empty where there is none."""
    machine: Literal["x86_64", "aarch64", ""] = ""
    """The machine that the module's code for a CPU is for; empty for a GPU, whose module runs beside any CPU."""
    device: Line
    """What ``iree-run-module --device=`` takes."""


class ErrorRecord(Model):
    """How far one result was from what was expected."""

    result: Count
    """Which of the function's results, from 0."""
    dtype: Line
    """The name of its element type."""
    absolute: Difference | None
    """The largest absolute difference; null where one of the two is no number or infinite."""
    relative: Difference | None
    """The largest relative difference; null as before, or where zero was expected."""
    at: tuple[Count, ...]
    """Index of the element that is furthest beyond what is allowed."""
    got: str
    """The module's value there."""
    expected: str
    """The value that was expected there."""
    beyond: Count
    """Elements that are wrong."""
    elements: Count
    """All elements."""


class CheckRecord(Model):
    """What became of one check."""

    function: Line
    """The function that was called."""
    status: Literal["passed", "failed", "not run"]
    """``not run`` is never ``passed``: no such device was there."""
    reason: str = ""
    """Why it failed or was not run; empty where it passed."""
    errors: tuple[ErrorRecord, ...] = ()
    """One for each result; nothing where they were not compared."""


class ValidationRecord(Model):
    """What validation found."""

    status: Literal["passed", "failed", "not run"]
    """Of all checks together."""
    reason: str = ""
    """Why it failed or was not run, as a whole; empty where it passed, or where its checks say so."""
    inspected: tuple[Line, ...] = ()
    """What was checked of the module without running it: its target, its embedded code."""
    checks: tuple[CheckRecord, ...] = ()
    """One for each check of the job."""
    emulated: StrictBool = False
    """It ran under emulation of another machine."""
    runtime: Line = ""
    """The version of iree-base-runtime that ran it; empty where it was not run."""


class BenchmarkRecord(Model):
    """What was measured."""

    function: Line
    """The function that was called."""
    repetitions: Count
    """Measurements."""
    warmup: Count
    """Calls before them that do not count."""
    cores: str = ""
    """The cores that it was held to."""
    machine: str = ""
    """The machine it was measured on, in words: figures of another one compare with nothing."""
    p50: Seconds
    """Seconds of a call: the median."""
    p90: Seconds
    """The 90th percentile."""
    p99: Seconds
    """The 99th percentile."""
    mean: Seconds
    """The mean."""
    throughput: Annotated[StrictFloat, Field(ge=0)]
    """Calls in a second."""
    baseline: Seconds | None = None
    """The baseline's median; null for none."""
    regression: StrictBool = False
    """It is slower than the baseline by more than the threshold."""


class ModuleRecord(Model):
    """A compiled module: what it is made of, what it offers, and what is known of it."""

    version: Literal[1]
    """The version of this record's format: 1."""
    name: Line
    """What the results are called."""
    compiler: Line
    """The release of iree-base-compiler that made it."""
    runtime: Line
    """The oldest release of iree-base-runtime that is known to load it."""
    target: TargetRecord
    """What it runs on."""
    flags: tuple[Line, ...]
    """All flags that iree-compile got, in order; input and output are left out."""
    input: FileRecord
    """The module as it was handed in."""
    output: FileRecord
    """The compiled module."""
    functions: tuple[FunctionRecord, ...]
    """What it exports; nothing where the input was bytecode, whose functions the runtime tells."""
    validation: ValidationRecord | None = None
    """What validation found; null where none was run."""
    benchmark: BenchmarkRecord | None = None
    """What was measured; null where nothing was."""
