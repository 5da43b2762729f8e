"""``wheel-bakery compile``: MLIR modules → executables for CPUs and GPUs."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import parameters
from bakery.cli.console import echo, echo_json, err, out, progress_display, say
from bakery.core.errors import UsageError
from bakery_iree.commands.modules import Bundle
from bakery_iree.commands.runs import ContainerSource, load_job, run_compiled
from bakery_iree.errors import ModuleError

if TYPE_CHECKING:
    from bakery.engine.session import EngineSession
    from bakery_iree.plan import JobPlan
    from bakery_iree.report import ModuleRun


@dataclass(frozen=True, slots=True)
class CompileArguments:
    """The arguments and options of ``compile``."""

    inputs: Annotated[
        list[str],
        typer.Argument(help="Modules (.mlir text or .mlirbc bytecode), or one job file (.json).", metavar="INPUT…"),
    ]
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            help="A target: cpu:x86-64-v3, cpu:aarch64, cuda:sm_80, vulkan:ampere, metal, rocm:gfx942. Replaces the "
            "targets of the job. May be repeated.",
            metavar="TARGET",
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The folder for NAME.TARGET.vmfb and NAME.TARGET.json.",
            metavar="DIR",
            callback=parameters.written,
        ),
    ] = None
    only: parameters.Only = None
    compiler: Annotated[
        str | None, typer.Option("--compiler", help="The release of iree-base-compiler.", metavar="VERSION")
    ] = None
    plan: Annotated[bool, typer.Option("--plan", help="Show what would be compiled, and exit. Needs no engine.")] = (
        False
    )
    json_: parameters.AsJson = False
    again: Annotated[bool, typer.Option("--again", help="Also compile modules that the output folder already has.")] = (
        False
    )
    no_cache: parameters.NoCache = False
    builder: parameters.Builder = None
    progress: parameters.Progress = "auto"
    ca_bundle: parameters.CaBundle = None
    engine_up: parameters.EngineUp = False
    validate: Annotated[
        bool, typer.Option("--validate", help="Validate the compiled modules, as `wheel-bakery validate` does.")
    ] = False
    benchmark: Annotated[
        bool, typer.Option("--benchmark", help="Benchmark the compiled modules, as `wheel-bakery benchmark` does.")
    ] = False
    bundle: Bundle = None
    allow: parameters.Allow = None

    def job_plan(self) -> JobPlan:
        """Return the plan of the selected cells.

        Raises UsageError if a job file is not the only argument, or it names paths that ``--allow`` does not grant;
        ModuleError if the job or a module is malformed.
        """
        from bakery_iree.job.load import from_inputs
        from bakery_iree.job.resolve import resolve

        jobs = [item for item in self.inputs if item.endswith(".json")]
        if jobs and len(self.inputs) > 1:
            raise UsageError(
                "a job file excludes other arguments", hint=f"wheel-bakery compile {shlex.quote(str(jobs[0]))}"
            )
        if jobs:
            loaded, root = load_job(jobs[0], self.output, tuple(self.allow or ()))
        else:
            loaded, root = from_inputs(self.inputs, Path.cwd()), None
        plan = resolve(loaded, tuple(self.target or ()), self.output, compiler=self.compiler, root=root)
        return plan.select(tuple(self.only or ()))


def _compile(arguments: CompileArguments) -> None:
    """Compile MLIR modules with IREE, each in a container without network.

    Example: wheel-bakery compile model.mlir -t cuda:sm_80 -t cpu:x86-64-v3 -o out/
    """
    plan = arguments.job_plan()
    if arguments.plan:
        _show(plan, as_json=arguments.json_)
        if plan.problems:
            raise ModuleError("some inputs cannot be compiled", details=plan.problems)
        return
    for problem in plan.problems:
        say(f"left out: {problem}")
    from bakery_iree.report import conclusion

    report = _run(plan, arguments)
    document = report.to_json()
    failures = [conclusion(report)]
    paths = [item.path for item in report.modules if item.path]
    if arguments.validate or arguments.benchmark:
        results, more = run_compiled(
            arguments.inputs,
            paths,
            ContainerSource(ca_bundle=arguments.ca_bundle),
            validate=arguments.validate,
            benchmark=arguments.benchmark,
            show_tables=not arguments.json_,
        )
        document |= results
        failures += more
    if arguments.json_:
        echo_json(document)
    if failure := next((failure for failure in failures if failure), None):
        raise failure
    if arguments.bundle:
        from bakery_iree.bundle import bundle
        from bakery_iree.modules import find_modules

        bundle(find_modules(paths), arguments.bundle)


def _run(plan: JobPlan, arguments: CompileArguments) -> ModuleRun:
    """Compile, and print the report unless it is printed as JSON."""
    from bakery.cli.engine import open_engine
    from bakery.runs.run_folders import state_folder
    from bakery_iree.compiler import CompileOptions, compile_job
    from bakery_iree.report import render

    progress, state = arguments.progress, state_folder(plan.root, os.environ)
    settings = CompileOptions(state, again=arguments.again, no_cache=arguments.no_cache, builder=arguments.builder)

    def engine() -> EngineSession:
        return open_engine(arguments.ca_bundle, engine_up=arguments.engine_up)

    report = compile_job(plan, settings, engine, progress_display(progress))
    if not arguments.json_ and progress != "quiet":
        err.print(render(report))
    if not arguments.json_ and progress != "rawjson":
        for item in report.modules:
            if item.path:
                echo(str(item.path))
    return report


def _show(plan: JobPlan, *, as_json: bool) -> None:
    if as_json:
        echo_json(plan.to_json())
        return
    from bakery_iree.report import cells

    out.print(cells(plan))


compile_ = parameters.with_arguments(CompileArguments, _compile)
