"""``wheel-bakery compile``: MLIR modules → executables for CPUs and GPUs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import options
from bakery.cli.console import err, out, say
from bakery.cli.modules import Kitchen, after, allowed_job
from bakery.cli.options import Builder, EngineUp, NoCache, Progress
from bakery.core.errors import ModuleError, UsageError

if TYPE_CHECKING:
    from bakery.engine.session import EngineSession
    from bakery.iree.plan import JobPlan

Inputs = Annotated[
    list[str],
    typer.Argument(help="Modules (.mlir as text or .mlirbc as bytecode), or one job file (.json).", metavar="INPUT…"),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        "-t",
        help="What to compile for: cpu:x86-64-v3, cpu:aarch64, cuda:sm_80, vulkan:ampere, metal, rocm:gfx942. May be "
        "given several times; takes the place of the job's list.",
        metavar="TARGET",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="The folder that receives NAME.TARGET.vmfb and .json.", metavar="DIR"),
]
Compiler = Annotated[
    str | None, typer.Option("--compiler", help="The release of iree-base-compiler.", metavar="VERSION")
]
Plan = Annotated[bool, typer.Option("--plan", help="Show what would be compiled; needs no engine.")]
Validate = Annotated[bool, typer.Option("--validate", help="Then validate what is compiled (`wheel-bakery validate`).")]
Measure = Annotated[bool, typer.Option("--benchmark", help="Then measure what is compiled (`wheel-bakery benchmark`).")]
Bundle = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        help="Where nothing failed, write the modules with what they need, and a program that takes the one that suits a "
        "machine and runs it.",
        metavar="FILE.tar|DIR",
    ),
]
Again = Annotated[bool, typer.Option("--again", help="Compile also what the output folder has already.")]


def compile_(
    inputs: Inputs,
    target: Targets = None,
    output: Output = None,
    only: options.Only = None,
    compiler: Compiler = None,
    plan: Plan = False,
    json_: options.AsJson = False,
    again: Again = False,
    no_cache: NoCache = False,
    builder: Builder = None,
    progress: Progress = "auto",
    ca_bundle: options.CaBundle = None,
    engine_up: EngineUp = False,
    validate: Validate = False,
    benchmark: Measure = False,
    bundle: Bundle = None,
    allow: options.Allow = None,
) -> None:
    """Compile MLIR modules with IREE, in containers: no network, one module each, nothing installed here.

    [dim]wheel-bakery compile model.mlir -t cuda:sm_80 -t cpu:x86-64-v3 -o out/[/dim]
    """
    found = job_plan(inputs, tuple(target or ()), output, compiler, tuple(allow or ())).chosen(tuple(only or ()))
    if plan:
        _show(found, as_json=json_)
        if found.problems:
            raise ModuleError("some inputs cannot be compiled", details=found.problems)
        return
    for problem in found.problems:
        say(f"left out: {problem}")
    from bakery.build.display.display import choose
    from bakery.build.state_folder import state_folder
    from bakery.cli.engine import open_engine
    from bakery.iree.compiler import CompileOptions, compile_job
    from bakery.iree.report import conclusion, render

    def engine() -> EngineSession:
        return open_engine(ca_bundle, engine_up=engine_up)

    listener = choose(progress, out if progress == "rawjson" else err, os.environ)
    state = state_folder(found.root, os.environ)
    chosen = CompileOptions(state, again=again, no_cache=no_cache, builder=builder)
    report = compile_job(Path.cwd(), found, chosen, engine, listener)
    document = report.to_json()
    if not json_ and progress != "quiet":
        err.print(render(report))
    for item in report.modules if not json_ and progress != "rawjson" else ():
        if item.path:
            out.print(str(item.path), markup=False)
    failures = [conclusion(report)]
    if validate or benchmark or bundle:
        paths = [item.path for item in report.modules if item.path]
        added, more = after(
            inputs, paths, Kitchen(ca_bundle=ca_bundle), validate=validate, benchmark=benchmark, table=not json_
        )
        document |= added
        failures += more
    if json_:
        out.print(json.dumps(document, indent=2), markup=False, soft_wrap=True)
    judged = next((failure for failure in failures if failure), None)
    if judged:
        raise judged
    if bundle:
        from bakery.iree.bundle import bundle as write_bundle
        from bakery.iree.modules import find_modules

        write_bundle(find_modules(paths), bundle)


def job_plan(
    inputs: list[str],
    targets: tuple[str, ...],
    output: Path | None,
    compiler: str | None,
    allow: tuple[str, ...] = (),
) -> JobPlan:
    """Return the plan of what the command line asks for.

    Raises:
        UsageError: a job file stands beside other inputs, or names paths that nobody allowed it.
        ModuleError: a module or the job is not what it should be.
    """
    from bakery.iree.job.load import from_inputs
    from bakery.iree.job.resolve import resolve

    jobs = [item for item in inputs if item.endswith(".json")]
    if jobs and len(inputs) > 1:
        raise UsageError("a job file stands alone", hint=f"wheel-bakery compile {jobs[0]}")
    loaded, root = allowed_job(jobs[0], output, allow) if jobs else (from_inputs(inputs, Path.cwd()), None)
    return resolve(loaded, targets, output, compiler=compiler, root=root)


def _show(plan: JobPlan, *, as_json: bool) -> None:
    if as_json:
        out.print(json.dumps(plan.to_json(), indent=2), markup=False, soft_wrap=True)
        return
    from bakery.iree.report import cells

    out.print(cells(plan))
