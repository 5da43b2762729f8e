"""The job: what a person writes about MLIR modules, in JSON: what is compiled for what, checked and measured how."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictInt, model_validator

from bakery.recipe.models.base import Model
from bakery.recipe.models.text import Line, Matching, distinct, no_device, unevaluated

VERSION = 1
"""Version of the job file; raised when a reader would have to change."""

COMPILER = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,8}){1,2}(?:(?:rc|a|b)[0-9]{1,10})?\Z")
"""A release of iree-base-compiler."""

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,78}[A-Za-z0-9_])?\Z")
"""What results may be called: also a folder, a bake target's part and a file name."""

_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_FUNCTION = re.compile(r"[A-Za-z_$.][A-Za-z0-9_$.-]{0,255}\Z")
_REFERENCE = re.compile(r"[^:\x00]+\.py:[A-Za-z_][A-Za-z0-9_]*\Z")
_CORES = re.compile(r"[0-9]{1,4}(?:-[0-9]{1,4})?(?:,[0-9]{1,4}(?:-[0-9]{1,4})?)*\Z")


def _path(text: str) -> str:
    if not text or len(text) > 4096:
        raise ValueError("expected a path")
    return text


def _short(text: str, what: str) -> str:
    if not text.strip() or len(text) > 4096:
        raise ValueError(f"expected {what}")
    return text


def _flag(text: str) -> str:
    if not re.match(r"--[a-z][a-z0-9-]*(?:=.*)?\Z", text) or len(text) > 1024:
        raise ValueError("expected a flag of iree-compile, such as '--iree-opt-level=O3'")
    return text


Path = Annotated[Line, AfterValidator(_path)]
TargetName = Annotated[Line, AfterValidator(lambda text: _short(text, "a target"))]
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
    """How far a result may be from what is expected: ``|got - expected| <= atol + rtol * |expected|``, as numpy has it."""

    rtol: Bound = 0.0
    """Relative."""
    atol: Bound = 0.0
    """Absolute, in the unit of the values."""


class Check(Model):
    """One call of a function, and what it must give."""

    function: FunctionName | None = None
    """The function that is called; not needed where the module exports one."""
    inputs: tuple[Data, ...] = Field(default=(), examples=[["a.npy", "64x64xf32=1"]])
    """Its arguments, in order: a ``.npy`` file; a ``.npz`` file, which gives as many as it holds; or IREE's own words for
    a constant (``64x64xf32=1``). Paths are relative to the job file."""
    expected: tuple[Data, ...] | None = Field(default=None, examples=[["out.npy"]])
    """Its results, in order, in the same forms."""
    reference: Annotated[Line, Matching(_REFERENCE, "FILE.py:FUNCTION")] | None = Field(
        default=None, examples=["reference.py:softmax"]
    )
    """A Python function over numpy arrays that gives the results. It runs in a container without network."""
    tolerance: dict[Dtype, Tolerance] | None = Field(default=None, examples=[{"float32": {"rtol": 1e-5, "atol": 1e-6}}])
    """How close results must be, by numpy's name of their element type."""

    @model_validator(mode="after")
    def _one_expectation(self) -> Check:
        if (self.expected is None) is (self.reference is None):
            raise ValueError("expected exactly one of expected, reference")
        return self


class Benchmark(Model):
    """How a function is measured."""

    function: FunctionName | None = None
    """The function that is called; not needed where the module exports one."""
    inputs: tuple[Data, ...] = Field(default=(), examples=[["64x64xf32=1"]])
    """Its arguments, in the forms of a check's."""
    repetitions: Annotated[StrictInt, Field(ge=1, le=100_000)] | None = None
    """How many measurements are taken."""
    warmup: Annotated[StrictInt, Field(ge=0, le=100_000)] | None = None
    """Calls that come first and do not count."""
    cores: Annotated[str, Matching(_CORES, "cores as taskset lists them, such as '0-3'")] | None = None
    """The cores that it is held to."""
    baseline: Path | None = None
    """The file that this run is compared with, as `bakery benchmark --save-baseline` writes it."""
    threshold: Bound | None = Field(default=None, examples=[0.1])
    """How much slower than the baseline is a regression: 0.1 is ten percent."""


class Input(Model):
    """One module, and what is done with it."""

    input: Path = Field(examples=["model.mlir"])
    """The module: StableHLO as MLIR text or bytecode. Relative to the job file."""
    name: Name | None = None
    """What the results are called; the file's name without its ending where it is not given."""
    targets: Annotated[tuple[TargetName, ...], AfterValidator(distinct)] | None = None
    """What it is compiled for, in place of the job's targets."""
    flags: tuple[Flag, ...] | None = Field(default=None, examples=[["--iree-opt-level=O3"]])
    """Further flags of iree-compile; none that name files."""
    checks: tuple[Check, ...] | None = None
    """How it is validated."""
    benchmark: Benchmark | None = None
    """How it is measured."""


def name_of(item: Input) -> str:
    """Return what the results of a module are called; it may fit no `NAME` where a file's name has no letter."""
    return item.name or _ODD.sub("-", PurePath(item.input).stem).strip("-_")[:80].rstrip("-_")


class Job(Model):
    """Modules to compile, validate and measure."""

    schema_: Line | None = Field(default=None, alias="$schema")
    """The JSON schema, for editors."""
    version: Literal[1]
    """The version of this file's format: 1."""
    compiler: Compiler | None = Field(default=None, examples=["3.13.0"])
    """The release of iree-base-compiler; bakery's pinned one where it is not given."""
    output: Annotated[Path, AfterValidator(unevaluated)] | None = Field(default=None, examples=["out"])
    """The folder that receives results, relative to the job file."""
    targets: Annotated[tuple[TargetName, ...], AfterValidator(distinct)] | None = Field(
        default=None, examples=[["cpu:x86-64-v3", "cuda:sm_80"]]
    )
    """What every module is compiled for that says nothing else."""
    modules: Annotated[tuple[Input, ...], Field(min_length=1)]
    """The modules."""
