"""``wheel-bakery validate`` and ``wheel-bakery benchmark``: compiled modules, in containers that may do nothing but compute."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from bakery.cli import options
from bakery.cli.console import err, out, say
from bakery.core.errors import BakeryError, UnavailableError, UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from bakery.iree.benchmark import Measurement
    from bakery.iree.devices import Images, Surface
    from bakery.iree.job.load import LoadedJob
    from bakery.iree.models.job import Check
    from bakery.iree.requests import Asked
    from bakery.iree.sandbox import Sandbox
    from bakery.iree.validate import Verdict
    from bakery.plan.values import Json


@dataclass(frozen=True, slots=True)
class Kitchen:
    """What containers are made of.

    Attributes:
        image: a person's own; None for bakery's.
    """

    image: str | None = None
    ca_bundle: Path | None = None


_Model = TypeVar("_Model", bound="BaseModel")

Paths = Annotated[
    list[Path],
    typer.Argument(
        help="A job file (.json); or modules (.vmfb), and folders that hold some.", metavar="JOB|MODULE|DIR…"
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        help="An argument of the function, in order: a .npy or .npz file, a constant (64x64xf32=1), or a number.",
        metavar="VALUE",
    ),
]
Function = Annotated[
    str | None,
    typer.Option("--function", help="The function; not needed where the module exports one.", metavar="NAME"),
]
Results = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="The folder with a job's modules; the job's own without it.", metavar="DIR"),
]
Image = Annotated[
    str | None,
    typer.Option(
        "--image",
        help="An image that the engine has, with iree-run-module, iree-benchmark-module and python3 with numpy. Without "
        "it: bakery's own, which is made where it is missing.",
        metavar="NAME",
    ),
]
Cores = Annotated[
    str | None, typer.Option("--cores", help="The cores that containers are held to: 0-3,6.", metavar="LIST")
]


def validate(
    paths: Paths,
    only: options.Only = None,
    output: Results = None,
    function: Function = None,
    inputs: Inputs = None,
    expected: Annotated[
        list[str] | None,
        typer.Option("--expected", help="A result of the function, in order, in the same forms.", metavar="VALUE"),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            help="A Python function over numpy arrays that gives the results. It runs in a container.",
            metavar="FILE.py:NAME",
        ),
    ] = None,
    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            "--tolerance",
            help="How close results must be: float32=1e-4,1e-5 (relative, absolute). May be given several times.",
            metavar="DTYPE=R,A",
        ),
    ] = None,
    cores: Cores = None,
    allow: options.Allow = None,
    max_parallel: Annotated[
        int, typer.Option("--max-parallel", help="Modules at a time.", min=1, metavar="N", envvar="BAKERY_MAX_PARALLEL")
    ] = 2,
    strict: Annotated[bool, typer.Option("--strict", help="A module that was not run is a failure, too.")] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle",
            help="Where nothing failed, write the modules with what they need, and a program that takes the one that "
            "suits a machine and runs it.",
            metavar="FILE.tar|DIR",
        ),
    ] = None,
    json: options.AsJson = False,
    image: Image = None,
    ca_bundle: options.CaBundle = None,
) -> None:
    """Run compiled modules and compare what they give: with files, or with your own Python function.

    A module for a machine that is not here is opened, its code is looked at, and it is *not run*, never *passed*.

    [dim]wheel-bakery validate job.json[/dim]
    """
    from bakery.iree.bundle import bundle as write_bundle
    from bakery.iree.report_runs import validation_json, validation_table
    from bakery.iree.validate import conclusion

    checks = _checks(function, inputs, expected, reference, tolerance)
    given = bool(inputs or expected or reference or function)
    asked = _asked(paths, only, output, checks, None, tuple(allow or ()), given=given)
    verdicts = run_validation(asked, _root(paths), Kitchen(image, ca_bundle), cores or "", max_parallel)
    found = [(verdict.module.title, verdict.record) for verdict in verdicts]
    out.print(validation_json(found) if json else validation_table(found), markup=False, soft_wrap=json)
    if failed := conclusion(verdicts, strict=strict):
        raise failed
    if bundle:
        write_bundle([item.module for item in asked], bundle)


def run_validation(
    asked: Sequence[Asked], root: Path, kitchen: Kitchen, cores: str = "", parallel: int = 2
) -> list[Verdict]:
    """Validate modules and write their records.

    Raises:
        BakeryError: a check does not fit, or a container cannot be run.
    """
    from bakery.iree.modules import write_record
    from bakery.iree.validate import read_subjects
    from bakery.iree.validate import validate as run

    subjects = read_subjects((item.module, item.checks, item.folder) for item in asked)
    with _opened(asked, root, kitchen) as (box, surface):
        verdicts = run(
            subjects,
            box,
            surface,
            parallel=parallel,
            cores=cores,
            told=lambda item: _say(item.module.title, item.record.status),
        )
    for verdict in verdicts:
        write_record(verdict.module, validation=verdict.record)
    return verdicts


def benchmark(
    paths: Paths,
    only: options.Only = None,
    output: Results = None,
    function: Function = None,
    inputs: Inputs = None,
    repetitions: Annotated[
        int | None, typer.Option("--repetitions", help="Calls that are measured.", min=1, max=100_000, metavar="N")
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option("--warmup", help="Calls before them that do not count.", min=0, max=100_000, metavar="N"),
    ] = None,
    cores: Cores = None,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="What --save-baseline of an earlier run wrote.", metavar="FILE")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="How much slower is a regression: 0.1 is ten percent.", min=0, metavar="X"),
    ] = None,
    save_baseline: Annotated[
        Path | None, typer.Option("--save-baseline", help="Write the figures, for later runs.", metavar="FILE")
    ] = None,
    json: options.AsJson = False,
    image: Image = None,
    ca_bundle: options.CaBundle = None,
    allow: options.Allow = None,
) -> None:
    """Measure compiled modules: percentiles of single calls, and calls in a second. Nothing is cached.

    [dim]wheel-bakery benchmark job.json --cores 1 --baseline speed.json --threshold 0.2[/dim]
    """
    from bakery.core.files import write
    from bakery.iree.benchmark import baseline_of, conclusion
    from bakery.iree.report_runs import benchmarks_json, benchmarks_table

    changes: dict[str, object] = {
        name: value
        for name, value in (
            ("function", function),
            ("inputs", tuple(inputs) if inputs else None),
            ("repetitions", repetitions),
            ("warmup", warmup),
            ("cores", cores),
            ("threshold", threshold),
        )
        if value is not None
    }
    asked = _asked(paths, only, output, (), changes, tuple(allow or ()), given=bool(function or inputs))
    measured = run_benchmark(asked, _root(paths), Kitchen(image, ca_bundle), baseline)
    found = [(item.module.title, item.record, item.reason) for item in measured]
    out.print(benchmarks_json(found) if json else benchmarks_table(found), markup=False, soft_wrap=json)
    if save_baseline:
        text = baseline_of(measured).model_dump_json(by_alias=True, indent=2) + "\n"
        write(save_baseline.parent, {save_baseline.name: text})
    if failed := conclusion(measured):
        raise failed


def run_benchmark(
    asked: Sequence[Asked], root: Path, kitchen: Kitchen, baseline: Path | None = None
) -> list[Measurement]:
    """Measure modules and write their records.

    Raises:
        BakeryError: nothing is to be measured, a call does not fit, or a container cannot be run.
    """
    from bakery.iree.benchmark import measure, read_subjects
    from bakery.iree.modules import write_record
    from bakery.iree.requests import read_baseline

    named = [item for item in asked if item.benchmark is not None]
    if not named:
        raise UsageError("nothing is to be measured", hint="a job's module says so in its `benchmark`")
    subjects = read_subjects((item.module, item.benchmark, item.folder) for item in named if item.benchmark)
    files = [baseline] if baseline else _baselines(named)
    before = {title: figure for file in files for title, figure in read_baseline(file).items()}
    with _opened(named, root, kitchen) as (box, surface):
        measured = measure(
            subjects,
            box,
            surface,
            before,
            lambda item: _say(item.module.title, "measured" if item.record else f"not run: {item.reason}"),
        )
    for item in measured:
        if item.record:
            write_record(item.module, benchmark=item.record)
    return measured


def after(
    inputs: Sequence[str], paths: Sequence[Path], kitchen: Kitchen, *, validate: bool, benchmark: bool, table: bool
) -> tuple[dict[str, Json], list[BakeryError | None]]:
    """Validate and measure what was just compiled.

    Args:
        inputs: what was compiled: a job, or modules that nothing is asked of.
        paths: the compiled modules.
        table: what is found is shown on the terminal.

    Returns:
        What was found, for machines; and the failures that it amounts to.
    """
    from bakery.iree import benchmark as benchmarks
    from bakery.iree import report_runs
    from bakery.iree import validate as validation
    from bakery.iree.job.load import load
    from bakery.iree.modules import find_modules
    from bakery.iree.requests import asked_by_hand, asked_of

    if not paths:
        return {}, []
    is_job = inputs[0].endswith(".json")
    asked = (
        asked_of(load(Path(inputs[0]), inputs[0]), find_modules(paths))
        if is_job
        else asked_by_hand(paths, (), (), None)
    )
    document: dict[str, Json] = {}
    failed: list[BakeryError | None] = []
    if validate:
        verdicts = run_validation(asked, Path(), kitchen)
        judged = [(item.module.title, item.record) for item in verdicts]
        document["validation"] = report_runs.validated(judged)
        failed.append(validation.conclusion(verdicts))
        if table:
            err.print(report_runs.validation_table(judged))
    if benchmark:
        measured = run_benchmark(asked, Path(), kitchen)
        figures = [(item.module.title, item.record, item.reason) for item in measured]
        document["benchmarks"] = report_runs.measured(figures)
        failed.append(benchmarks.conclusion(measured))
        if table:
            err.print(report_runs.benchmarks_table(figures))
    return document, failed


def _baselines(asked: Sequence[Asked]) -> list[Path]:
    named = [item.folder / item.benchmark.baseline for item in asked if item.benchmark and item.benchmark.baseline]
    return list(dict.fromkeys(named))


def _say(title: str, text: str) -> None:
    say(f"{title}: {text}")


def _asked(
    paths: Sequence[Path],
    only: Sequence[str] | None,
    output: Path | None,
    checks: tuple[Check, ...],
    changes: dict[str, object] | None,
    allow: tuple[str, ...],
    *,
    given: bool,
) -> list[Asked]:
    """Return what the arguments ask for.

    Args:
        changes: what is set for all benchmarks; None where none are asked for.
        allow: what a job may read and write outside of its project.
        given: a call is described by options, which a job does itself.

    Raises:
        UsageError: the arguments exclude each other, or a job names paths that nobody allowed it.
    """
    from dataclasses import replace

    from bakery.iree.models.job import Benchmark
    from bakery.iree.requests import asked_by_hand, asked_by_job

    jobs = [path for path in paths if path.suffix == ".json"]
    if jobs and len(paths) > 1:
        raise UsageError("a job stands alone", hint="name one job, or modules and folders")
    if not jobs:
        if output:
            raise UsageError("--output is for jobs", hint="name the folder itself")
        return asked_by_hand(paths, only or (), checks, None if changes is None else _checked(Benchmark, changes))
    if given:
        raise UsageError("a job says itself what is called", hint="name the modules in place of the job")
    loaded, _ = allowed_job(str(jobs[0]), output, allow)
    asked = asked_by_job(loaded, output, only or ())
    if changes is None:
        return asked
    return [
        replace(item, benchmark=_checked(Benchmark, {**item.benchmark.model_dump(exclude_none=True), **changes}))
        if item.benchmark
        else item
        for item in asked
    ]


def allowed_job(file: str, output: Path | None, allow: Sequence[str]) -> tuple[LoadedJob, Path]:
    """Return a job all of whose paths it may use, and its project: the workspace here, where that names it, else its folder.

    Args:
        output: the folder of results; the job's own where None.

    Raises:
        ModuleError: the job cannot be read.
        UsageError: it names paths outside of its project that nobody allowed it.
    """
    from bakery.build.buildx.entitlements import Grants
    from bakery.iree.job.load import load
    from bakery.recipe.load import job_files

    loaded = load(Path(file), file)
    root = Path.cwd() if PurePath(file).as_posix() in job_files(Path.cwd()).files else loaded.folder
    Grants.parse(allow).require(loaded.wants(output=output is None), root, who="the job")
    return loaded, root


def _checks(
    function: str | None,
    inputs: list[str] | None,
    expected: list[str] | None,
    reference: str | None,
    tolerance: list[str] | None,
) -> tuple[Check, ...]:
    from bakery.iree.models.job import Check

    if expected is None and reference is None:
        if inputs or tolerance or function:
            raise UsageError("nothing is expected of the call", hint="add --expected or --reference")
        return ()
    bounds: dict[str, dict[str, float]] = {}
    for text in tolerance or ():
        name, _, numbers = text.partition("=")
        try:
            relative, _, absolute = numbers.partition(",")
            bounds[name] = {"rtol": float(relative), "atol": float(absolute or 0)}
        except ValueError as error:
            raise UsageError(f"--tolerance {text}", hint="expected such as float32=1e-4,1e-5") from error
    fields = {"function": function, "inputs": tuple(inputs or ()), "expected": expected and tuple(expected)}
    return (_checked(Check, {**fields, "reference": reference, "tolerance": bounds or None}),)


def _checked(model: type[_Model], fields: dict[str, object]) -> _Model:
    from pydantic import ValidationError

    try:
        return model.model_validate(fields)
    except ValidationError as error:
        told = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
        raise UsageError("; ".join(told)) from error


def _root(paths: Sequence[Path]) -> Path:
    """Return the folder whose ``.bakery`` holds the run: that of the job."""
    return paths[0].parent if paths[0].suffix == ".json" else Path()


def _images(asked: Sequence[Asked], environment: Mapping[str, str], kitchen: Kitchen) -> Images:
    """Return what finds or makes images.

    Raises:
        ModuleError: modules need different releases of the runtime.
    """
    from bakery.engine.debian_rootfs import inspect
    from bakery.iree.devices import CPU_IMAGE

    own = kitchen.image

    def find(name: str, platform: str) -> str:
        if name != CPU_IMAGE or own is None or inspect(environment, own, platform.partition("/")[2]) is None:
            raise UnavailableError(f"{own} is no {name} image for {platform}")
        return own

    return find if own else _baked(asked, environment, kitchen.ca_bundle)


def _baked(asked: Sequence[Asked], environment: Mapping[str, str], ca_bundle: Path | None) -> Images:
    """Return what bakes images where the engine does not have them."""
    from bakery.build.display.display import choose
    from bakery.cli.engine import find_ca_bundle
    from bakery.core.errors import ModuleError
    from bakery.core.names import MACHINES
    from bakery.engine.session import EngineSession
    from bakery.iree.tool_image import tool_image
    from bakery.toolchains import facts

    versions = sorted({item.module.record.runtime for item in asked if item.module.record})
    if len(versions) > 1:
        raise ModuleError(f"modules need different runtimes: {', '.join(versions)}", hint="choose some by --only")
    version = versions[0] if versions else facts.iree_releases()[0].runtime
    engine = EngineSession(environment, find_ca_bundle(ca_bundle, os.environ), say)

    def bake(name: str, platform: str) -> str:
        listener = choose("auto", err, os.environ)
        return tool_image(engine, listener, version, recipe=name, machine=MACHINES[platform])

    return bake


@contextmanager
def _opened(asked: Sequence[Asked], root: Path, kitchen: Kitchen) -> Iterator[tuple[Sandbox, Surface]]:
    """Give a sandbox of the engine's, and what modules can run on there."""
    from bakery.build.run_folders import run_folder
    from bakery.engine.discover import find
    from bakery.iree.devices import Surface
    from bakery.iree.sandbox import sandbox

    environment = {**os.environ, **find(os.environ).environment}
    with run_folder(root) as folder:
        stage = folder / "stage"
        stage.mkdir()
        with sandbox(environment, stage) as box:
            yield box, Surface(environment, _images(asked, environment, kitchen))
