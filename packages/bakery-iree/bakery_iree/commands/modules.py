"""``wheel-bakery validate`` and ``wheel-bakery benchmark``: run compiled IREE modules in sandboxed containers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from bakery.cli import parameters
from bakery.cli.console import echo_json, out
from bakery.core.errors import UsageError
from bakery_iree.commands.runs import ContainerSource, load_job, run_benchmark, run_validation

if TYPE_CHECKING:
    from pydantic import BaseModel

    from bakery_iree.models.job import Benchmark, Check
    from bakery_iree.modules import Request

_Model = TypeVar("_Model", bound="BaseModel")

Bundle = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        help="If nothing failed, write the modules, their requirements, and a program that selects and runs the one for "
        "the machine.",
        metavar="FILE.tar|DIR",
        callback=parameters.written,
    ),
]
_Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        help="An argument of the function: a .npy or .npz file, a constant (64x64xf32=1), or a number. May be repeated, "
        "in order.",
        metavar="VALUE",
    ),
]


@dataclass(frozen=True, slots=True)
class ModuleArguments:
    """The arguments and options of both commands."""

    paths: Annotated[
        list[Path],
        typer.Argument(
            help="A job file (.json); or modules (.vmfb), and folders with modules.", metavar="JOB|MODULE|DIR…"
        ),
    ]
    only: parameters.Only = None
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The folder with the modules of a job. Default: that of the job.", metavar="DIR"
        ),
    ] = None
    function: Annotated[
        str | None,
        typer.Option("--function", help="The function. Optional if the module exports only one.", metavar="NAME"),
    ] = None
    inputs: _Inputs = None
    cores: Annotated[
        str | None, typer.Option("--cores", help="The CPU cores that containers may use: 0-3,6.", metavar="LIST")
    ] = None
    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            help="An image of the engine with iree-run-module, iree-benchmark-module, and python3 with NumPy. Default: "
            "Bakery's image, which is built if it is missing.",
            metavar="NAME",
        ),
    ] = None
    json: parameters.AsJson = False
    allow: parameters.Allow = None
    ca_bundle: parameters.CaBundle = None

    @property
    def source(self) -> ContainerSource:
        """Where containers come from."""
        return ContainerSource(self.image, self.ca_bundle)

    @property
    def root(self) -> Path:
        """The project: the folder of the job."""
        return self.paths[0].parent if self.paths[0].suffix == ".json" else Path()

    def requests(
        self, *, checks: tuple[Check, ...] = (), benchmark: Benchmark | None = None, has_call: bool
    ) -> list[Request]:
        """Return a request for each module, with ``checks`` and ``benchmark`` if no job describes them.

        ``has_call``: options describe a call, which only a job does otherwise. Raises UsageError if arguments exclude
        each other, or a job names paths that ``--allow`` does not grant.
        """
        from bakery_iree.modules import Request, find_modules, requests_of_job

        jobs = [path for path in self.paths if path.suffix == ".json"]
        if jobs and len(self.paths) > 1:
            raise UsageError("a job file excludes other arguments", hint="name one job, or modules and folders")
        if not jobs:
            if self.output:
                raise UsageError("--output is for jobs", hint="name the folder itself")
            modules = find_modules(self.paths, self.only or ())
            return [Request(module, checks, benchmark, Path()) for module in modules]
        if has_call:
            raise UsageError("the job describes the calls of its functions", hint="name modules instead of the job")
        loaded, _ = load_job(str(jobs[0]), self.output, tuple(self.allow or ()))
        return requests_of_job(loaded, self.output, self.only or ())


@dataclass(frozen=True, slots=True)
class ValidateArguments(ModuleArguments):
    """The arguments and options of ``validate``."""

    expected: Annotated[
        list[str] | None,
        typer.Option(
            "--expected", help="An expected result, in the same forms. May be repeated, in order.", metavar="VALUE"
        ),
    ] = None
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            help="A Python function on NumPy arrays that returns the expected results. It runs in a container.",
            metavar="FILE.py:NAME",
        ),
    ] = None
    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            "--tolerance",
            help="The tolerance of a dtype, relative and absolute: float32=1e-4,1e-5. Without the absolute one, that is the "
            "dtype's default. May be repeated.",
            metavar="DTYPE=R,A",
        ),
    ] = None
    max_parallel: Annotated[
        int,
        typer.Option(
            "--max-parallel",
            help="Maximum number of modules to run in parallel.",
            min=1,
            metavar="N",
            envvar="BAKERY_MAX_PARALLEL",
        ),
    ] = 2
    strict: Annotated[bool, typer.Option("--strict", help="Fail if a module was not run.")] = False
    bundle: Bundle = None

    def checks(self) -> tuple[Check, ...]:
        """Return the check that the options describe, if they do. Raises UsageError if they are malformed."""
        from bakery_iree.models.job import Check

        if self.expected is None and self.reference is None:
            if self.inputs or self.tolerance or self.function:
                raise UsageError("there are no expected results", hint="add --expected or --reference")
            return ()
        tolerances: dict[str, dict[str, float | None]] = {}
        for text in self.tolerance or ():
            name, _, numbers = text.partition("=")
            try:
                relative, _, absolute = numbers.partition(",")
                tolerances[name] = {"rtol": float(relative), "atol": float(absolute) if absolute else None}
            except ValueError as error:
                raise UsageError(f"--tolerance {text}", hint="expected such as float32=1e-4,1e-5") from error
        fields: dict[str, object] = {
            "function": self.function,
            "inputs": tuple(self.inputs or ()),
            "expected": self.expected and tuple(self.expected),
            "reference": self.reference,
            "tolerance": tolerances or None,
        }
        return (_validated(Check, fields),)


@dataclass(frozen=True, slots=True)
class BenchmarkArguments(ModuleArguments):
    """The arguments and options of ``benchmark``."""

    repetitions: Annotated[
        int | None,
        typer.Option("--repetitions", help="The number of measured calls.", min=1, max=100_000, metavar="N"),
    ] = None
    warmup: Annotated[
        int | None,
        typer.Option("--warmup", help="The number of calls before the measurement.", min=0, max=100_000, metavar="N"),
    ] = None
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", help="The file that --save-baseline of an earlier run wrote.", metavar="FILE"),
    ] = None
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="How much slower is a regression: 0.1 is ten percent.", min=0, metavar="X"),
    ] = None
    save_baseline: Annotated[
        Path | None,
        typer.Option(
            "--save-baseline", help="Write the results, for later runs.", metavar="FILE", callback=parameters.written
        ),
    ] = None

    def settings(self) -> dict[str, object]:
        """Return the fields of `Benchmark` that options set."""
        names = ("function", "inputs", "repetitions", "warmup", "cores", "threshold")
        values = {name: getattr(self, name) for name in names}
        return {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
            if value not in (None, [])
        }


def _validate(arguments: ValidateArguments) -> None:
    """Run compiled modules and compare their results with files, or with the results of a Python function.

    A module whose device is not available is inspected only. Its result is *not run*, never *passed*.

    Example: wheel-bakery validate job.json
    """
    from bakery_iree.bundle import bundle
    from bakery_iree.modules import find_modules
    from bakery_iree.report import to_json, validation_rows, validation_table
    from bakery_iree.validate import conclusion

    checks = arguments.checks()
    has_call = bool(arguments.inputs or arguments.expected or arguments.reference or arguments.function)
    requests = arguments.requests(checks=checks, has_call=has_call)
    verdicts = run_validation(requests, arguments.root, arguments.source, arguments.cores or "", arguments.max_parallel)
    if arguments.json:
        echo_json(to_json(validation_rows(verdicts)))
    else:
        out.print(validation_table(verdicts), soft_wrap=False)
    if failure := conclusion(verdicts, strict=arguments.strict):
        raise failure
    if arguments.bundle:
        # The records have this validation by now.
        bundle(find_modules([item.module.path for item in requests]), arguments.bundle)


def _benchmark(arguments: BenchmarkArguments) -> None:
    """Benchmark compiled modules: percentiles of single calls, and calls per second. Results are never cached.

    Example: wheel-bakery benchmark job.json --cores 1 --baseline speed.json --threshold 0.2
    """
    from bakery.core.files import write
    from bakery_iree.benchmark import baseline_of, conclusion
    from bakery_iree.models.job import Benchmark
    from bakery_iree.report import benchmark_rows, benchmarks_table, to_json

    settings = arguments.settings()
    requests = arguments.requests(
        benchmark=_validated(Benchmark, settings), has_call=bool(arguments.function or arguments.inputs)
    )
    if settings:
        requests = _with_settings(requests, settings)
    measurements = run_benchmark(requests, arguments.root, arguments.source, arguments.baseline)
    if arguments.json:
        echo_json(to_json(benchmark_rows(measurements)))
    else:
        out.print(benchmarks_table(measurements), soft_wrap=False)
    if path := arguments.save_baseline:
        text = baseline_of(measurements).model_dump_json(by_alias=True, indent=2) + "\n"
        write(path.parent, {path.name: text})
    if failure := conclusion(measurements):
        raise failure


def _with_settings(requests: Sequence[Request], settings: dict[str, object]) -> list[Request]:
    """Return requests with the options' settings in place of those of the job."""
    from bakery_iree.models.job import Benchmark

    return [
        replace(item, benchmark=_validated(Benchmark, {**item.benchmark.model_dump(exclude_none=True), **settings}))
        if item.benchmark
        else item
        for item in requests
    ]


def _validated(model: type[_Model], fields: dict[str, object]) -> _Model:
    from pydantic import ValidationError

    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
        raise UsageError("; ".join(problems)) from error


validate = parameters.with_arguments(ValidateArguments, _validate)
benchmark = parameters.with_arguments(BenchmarkArguments, _benchmark)
