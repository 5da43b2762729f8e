"""The job file (JSON): which MLIR modules to compile, for which targets, and how to check and benchmark them."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictInt, model_validator

from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import Line, Matching, distinct, no_device, unevaluated

VERSION = 1
"""Version of the format of job files. Increase it when readers have to change."""

COMPILER = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,8}){1,2}(?:(?:rc|a|b)[0-9]{1,10})?\Z")
"""A release of iree-base-compiler."""

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,78}[A-Za-z0-9_])?\Z")
"""A name of results. It is also the name of a folder and a file, and a part of the name of a bake target."""

_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_FUNCTION = re.compile(r"[A-Za-z_$.][A-Za-z0-9_$.-]{0,255}\Z")
_REFERENCE = re.compile(r"[^:\x00]+\.py:[A-Za-z_][A-Za-z0-9_]*\Z")
_CORES = re.compile(r"[0-9]{1,4}(?:-[0-9]{1,4})?(?:,[0-9]{1,4}(?:-[0-9]{1,4})?)*\Z")


def _path(text: str) -> str:
    if not text or len(text) > 4096:
        raise invalid("expected a path")
    return text


def _short(text: str, what: str) -> str:
    if not text.strip() or len(text) > 4096:
        raise invalid(f"expected {what}")
    return text


def _flag(text: str) -> str:
    if not re.match(r"--[a-z][a-z0-9-]*(?:=.*)?\Z", text) or len(text) > 1024:
        raise invalid("expected a flag of iree-compile, such as '--iree-opt-level=O3'")
    return text


Path = Annotated[Line, AfterValidator(_path)]
TargetName = Annotated[Line, AfterValidator(lambda text: _short(text, "a target"))]
TargetNames = Annotated[tuple[TargetName, ...], Field(max_length=1000), AfterValidator(distinct)]
Compiler = Annotated[str, Matching(COMPILER, "a release of iree-base-compiler, such as '3.13.0'")]
Name = Annotated[
    str,
    Matching(NAME, "letters, digits, dashes and underscores, at most 80, such as 'matmul-small'"),
    AfterValidator(no_device),
]
FunctionName = Annotated[str, Matching(_FUNCTION, "the name of a function that the module exports, without @")]
Data = Annotated[Line, AfterValidator(lambda text: _short(text, "a .npy or .npz file, or a literal"))]
Flag = Annotated[Line, AfterValidator(_flag)]
Dtype = Literal[
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
Bound = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class Tolerance(Model):
    """How much a result may differ from the expected value: ``|got - expected| <= atol + rtol * |expected|``, as in
    NumPy."""

    rtol: Bound | None = None
    """The relative tolerance. Default: that of the dtype."""
    atol: Bound | None = None
    """The absolute tolerance, in the unit of the values. Default: that of the dtype."""


class Check(Model):
    """One call of a function, and the results that it must return."""

    function: FunctionName | None = None
    """The function to call. Optional if the module exports only one."""
    inputs: tuple[Data, ...] = Field(default=(), examples=[["a.npy", "64x64xf32=1"]])
    """The arguments, in order. Each is a ``.npy`` file, a ``.npz`` file (one argument for each array in it), or a
    constant in IREE's syntax (``64x64xf32=1``). Paths are relative to the job file."""
    expected: tuple[Data, ...] | None = Field(default=None, examples=[["out.npy"]])
    """The expected results, in order, in the same forms as ``inputs``."""
    reference: Annotated[Line, Matching(_REFERENCE, "FILE.py:FUNCTION")] | None = Field(
        default=None, examples=["reference.py:softmax"]
    )
    """A Python function on NumPy arrays that returns the expected results. It runs in a container without network."""
    tolerance: dict[Dtype, Tolerance] | None = Field(default=None, examples=[{"float32": {"rtol": 1e-5, "atol": 1e-6}}])
    """Tolerances, by the NumPy name of the element type."""

    @model_validator(mode="after")
    def _one_expectation(self) -> Check:
        if (self.expected is None) is (self.reference is None):
            raise invalid("expected exactly one of expected, reference")
        return self


class Benchmark(Model):
    """How a function is benchmarked."""

    function: FunctionName | None = None
    """The function to call. Optional if the module exports only one."""
    inputs: tuple[Data, ...] = Field(default=(), examples=[["64x64xf32=1"]])
    """The arguments, in the same forms as the ``inputs`` of a check."""
    repetitions: Annotated[StrictInt, Field(ge=1, le=100_000)] | None = None
    """The number of measured calls. Default: 100."""
    warmup: Annotated[StrictInt, Field(ge=0, le=100_000)] | None = None
    """The number of calls before the measurement. Default: 10."""
    cores: Annotated[str, Matching(_CORES, "cores as taskset lists them, such as '0-3'")] | None = None
    """The CPU cores that the benchmark may use."""
    baseline: Path | None = None
    """The baseline to compare with: a file that ``wheel-bakery benchmark --save-baseline`` wrote."""
    threshold: Bound | None = Field(default=None, examples=[0.1])
    """How much slower than the baseline a module may be before it is a regression. Default: 0.1, which is ten
    percent."""


class Input(Model):
    """One module, and what to do with it."""

    input: Path = Field(examples=["model.mlir"])
    """The module: a file with StableHLO as MLIR text or bytecode. The path is relative to the job file."""
    name: Name | None = None
    """The name of the results. Default: the file name without its extension."""
    targets: TargetNames | None = None
    """The targets of this module. They replace the targets of the job."""
    flags: tuple[Flag, ...] | None = Field(default=None, examples=[["--iree-opt-level=O3"]])
    """More flags for ``iree-compile``. Flags that name files are refused."""
    checks: tuple[Check, ...] | None = None
    """How to validate the module."""
    benchmark: Benchmark | None = None
    """How to benchmark the module."""


def name_of(item: Input) -> str:
    """Return the name of a module's results. It may not match `NAME` if the file name has no letter or digit."""
    return item.name or _ODD.sub("-", PurePath(item.input).stem).strip("-_")[:80].rstrip("-_")


class Job(Model):
    """Modules to compile, validate and benchmark."""

    schema_: Line | None = Field(default=None, alias="$schema")
    """The path of the JSON schema, for editors."""
    version: Literal[1]
    """The version of the file format: 1."""
    compiler: Compiler | None = Field(default=None, examples=["3.13.0"])
    """The release of iree-base-compiler. Default: the release that Bakery pins."""
    output: Annotated[Path, AfterValidator(unevaluated)] | None = Field(default=None, examples=["out"])
    """The folder for results, relative to the job file. Default: ``out``."""
    targets: TargetNames | None = Field(default=None, examples=[["cpu:x86-64-v3", "cuda:sm_80"]])
    """The targets of all modules that have no targets of their own."""
    modules: Annotated[tuple[Input, ...], Field(min_length=1)]
    """The modules to compile."""
