"""Runs validations and benchmarks of compiled modules in containers, and reports them on the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from bakery.cli.console import err, progress_display, say
from bakery.core.errors import BakeryError, UnavailableError, UsageError
from bakery_iree.errors import ModuleError

if TYPE_CHECKING:
    from bakery.engine.session import EngineSession
    from bakery.plan.values import Json
    from bakery_iree.benchmark import Measurement
    from bakery_iree.devices import Devices, Images
    from bakery_iree.job.load import LoadedJob
    from bakery_iree.models.module import Measured
    from bakery_iree.modules import Request
    from bakery_iree.sandbox import Sandbox
    from bakery_iree.validate import Verdict


@dataclass(frozen=True, slots=True)
class ContainerSource:
    """Where containers come from: the user's image, None for bakery's; and the value of ``--ca-bundle``."""

    image: str | None = None
    ca_bundle: Path | None = None


def load_job(file: str, output: Path | None, allow: Sequence[str]) -> tuple[LoadedJob, Path]:
    """Load a job and check that it may use all paths that it names; ``output`` replaces its folder of results.

    Return the job and its project: the workspace of the current folder if that lists the job, otherwise its own folder.
    Raises ModuleError if the job cannot be read, UsageError if ``allow`` does not grant paths outside of the project.
    """
    from bakery.runs.buildx.entitlements import Grants
    from bakery_iree.job.load import load
    from bakery_iree.workspace import job_files

    loaded = load(Path(file), file)
    workspace = job_files(Path.cwd())
    root = Path.cwd() if workspace and PurePath(file).as_posix() in workspace.jobs else loaded.folder
    Grants.parse(allow).require(loaded.required_grants(output=output is None), root, who="the job")
    return loaded, root


def run_validation(
    requests: Sequence[Request], root: Path, source: ContainerSource, cores: str = "", parallel: int = 2
) -> list[Verdict]:
    """Validate modules and write their records; ``root`` is their project.

    Raises BakeryError if a check does not fit its module, or a container cannot be run.
    """
    from bakery_iree.modules import write_record
    from bakery_iree.validate import read_subjects, validate

    subjects = read_subjects((item.module, item.checks, item.folder) for item in requests)
    with _open_containers(requests, root, source) as (sandbox, devices):
        verdicts = validate(
            subjects,
            sandbox,
            devices,
            parallel=parallel,
            cores=cores,
            on_verdict=lambda item: say(f"{item.module.title}: {item.record.status}"),
        )
    for verdict in verdicts:
        write_record(verdict.module, validation=verdict.record)
    return verdicts


def run_benchmark(
    requests: Sequence[Request], root: Path, source: ContainerSource, baseline: Path | None = None
) -> list[Measurement]:
    """Benchmark modules and write their records; ``root`` is their project.

    Raises BakeryError if there is no benchmark, a call does not fit its function, or a container cannot be run.
    """
    from bakery_iree.benchmark import measure, read_subjects
    from bakery_iree.modules import write_record

    subjects = read_subjects((item.module, item.benchmark, item.folder) for item in requests if item.benchmark)
    if not subjects:
        raise UsageError("there is nothing to benchmark", hint="add `benchmark` to a module of the job")
    measured = [item for item in requests if item.benchmark]
    before = _baselines(measured, baseline)
    with _open_containers(measured, root, source) as (sandbox, devices):
        measurements = measure(
            subjects,
            sandbox,
            devices,
            before,
            lambda item: say(f"{item.module.title}: {'measured' if item.record else f'not run: {item.reason}'}"),
        )
    for item in measurements:
        if item.record:
            write_record(item.module, benchmark=item.record)
    return measurements


def _baselines(requests: Sequence[Request], file: Path | None) -> dict[str, Measured]:
    """Return title → the module's measurement in ``file``, or else in its own baseline. Raises UsageError."""
    from bakery_iree.benchmark import read_baseline

    files = {
        item.module.title: file or item.folder / (item.benchmark.baseline or "")
        for item in requests
        if item.benchmark and (file or item.benchmark.baseline)
    }
    read = {path: read_baseline(path) for path in dict.fromkeys(files.values())}
    return {title: read[path][title] for title, path in files.items() if title in read[path]}


def run_compiled(
    inputs: Sequence[str],
    paths: Sequence[Path],
    source: ContainerSource,
    *,
    validate: bool,
    benchmark: bool,
    show_tables: bool,
) -> tuple[dict[str, Json], list[BakeryError | None]]:
    """Validate and benchmark the compiled modules in ``paths``; return the results as JSON, and the failures.

    ``inputs`` are those of the compilation: a job, or modules (which have no checks).
    """
    from bakery_iree import benchmark as benchmarks
    from bakery_iree import report
    from bakery_iree import validate as validation
    from bakery_iree.job.load import load
    from bakery_iree.modules import Request, find_modules, requests_of

    if not paths:
        return {}, []
    modules = find_modules(paths)
    requests = (
        requests_of(load(Path(inputs[0]), inputs[0]), modules)
        if inputs[0].endswith(".json")
        else [Request(module, (), None, Path()) for module in modules]
    )
    document: dict[str, Json] = {}
    failures: list[BakeryError | None] = []
    if validate:
        verdicts = run_validation(requests, Path(), source)
        document["validation"] = report.validation_rows(verdicts)
        failures.append(validation.conclusion(verdicts))
        if show_tables:
            err.print(report.validation_table(verdicts))
    if benchmark:
        measurements = run_benchmark(requests, Path(), source)
        document["benchmarks"] = report.benchmark_rows(measurements)
        failures.append(benchmarks.conclusion(measurements))
        if show_tables:
            err.print(report.benchmarks_table(measurements))
    return document, failures


@contextmanager
def _open_containers(
    requests: Sequence[Request], root: Path, source: ContainerSource
) -> Iterator[tuple[Sandbox, Devices]]:
    """Yield a sandbox, and the devices that modules can run on."""
    from bakery.cli.engine import open_engine
    from bakery.runs.run_folders import run_folder, state_folder
    from bakery_iree.devices import Devices
    from bakery_iree.sandbox import open_sandbox

    engine = open_engine(source.ca_bundle)
    images = _user_image(engine, source.image) if source.image else _tool_images(engine, requests)
    with run_folder(state_folder(root, os.environ)) as folder:
        stage = folder / "stage"
        stage.mkdir()
        with open_sandbox(engine.environment, stage) as sandbox:
            yield sandbox, Devices(engine.environment, images)


def _user_image(engine: EngineSession, image: str) -> Images:
    from bakery.engine.debian_rootfs import inspect
    from bakery_iree.devices import CPU_IMAGE

    def find(recipe: str, platform: str) -> str:
        if recipe != CPU_IMAGE or inspect(engine.environment, image, platform.partition("/")[2]) is None:
            raise UnavailableError(f"{image} is not an image of {recipe} for {platform}")
        return image

    return find


def _tool_images(engine: EngineSession, requests: Sequence[Request]) -> Images:
    """Return a function that bakes bakery's images. Raises ModuleError if modules need different runtimes."""
    from bakery.core.cell_ids import MACHINES
    from bakery_iree import facts
    from bakery_iree.tool_image import tool_image

    versions = sorted({item.module.record.runtime for item in requests if item.module.record})
    if len(versions) > 1:
        raise ModuleError(f"modules need different runtimes: {', '.join(versions)}", hint="select some with --only")
    version = versions[0] if versions else facts.iree_releases()[0].runtime

    def bake(recipe: str, platform: str) -> str:
        return tool_image(engine, progress_display(), version, recipe=recipe, machine=MACHINES[platform])

    return bake
