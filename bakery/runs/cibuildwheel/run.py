"""One recipe from plan to wheels with cibuildwheel. Loop, audit, publishing and report are those of a bake."""

from __future__ import annotations

import hashlib
import posixpath
import shlex
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bakery import __version__
from bakery.core.cell_ids import IDENTIFIERS
from bakery.core.errors import PlanError, UsageError
from bakery.core.files import write
from bakery.core.inside import Inside
from bakery.core.target_kinds import Kind
from bakery.emit.cibuildwheel import configurations, identifier, options_of, programs, variants
from bakery.engine import package_index
from bakery.plan.cells import Cell, selects
from bakery.plan.model import Plan
from bakery.runs.cell_tasks import CellTask
from bakery.runs.cibuildwheel import process
from bakery.runs.cibuildwheel.process import CibuildwheelBackend
from bakery.runs.finish import Finisher
from bakery.runs.journal import newest_records, open_journal
from bakery.runs.loop import run_tasks, unfinished
from bakery.runs.processes import caught
from bakery.runs.run_folders import make_own_folder, run_folder
from bakery.runs.run_options import CellSelection, Options
from bakery.runs.run_report import RunReport
from bakery.runs.scheduler import Item, Limits, Schedule
from bakery.runs.secrets.mask import Mask
from bakery.runs.selection import Run, Selection, without_finished
from bakery.runs.source_files import source_of
from bakery.runs.trust import Credentials, check_grants
from bakery.toolchains import programs as scripts

_CA, _PIP = "/etc/bakery-ca.pem", "/etc/pip.conf"
_CA_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that runs cibuildwheel; ``ca_bundle``: a PEM file for Linux; ``line`` receives each line."""

    environment: Mapping[str, str]
    ca_bundle: Path | None = None
    line: Callable[[str], None] = lambda _: None


def cells_here(plan: Plan, system: str, only: tuple[str, ...]) -> tuple[Cell, ...]:
    """Return the selected cells of a system, and those that build their wheels. Raises UsageError for none."""
    cells = plan.for_system(system).cells
    selected = [cell for cell in cells if selects(only, (cell.id, *(f"{kind.value}-{cell.id}" for kind in Kind)))]
    if not selected:
        platforms = ", ".join(dict.fromkeys(cell.platform for cell in (*plan.cells, *plan.cibuildwheel_cells)))
        what = f"no cell of {system} matches {', '.join(only)}" if cells else f"the recipe has no platform of {system}"
        ids = ", ".join(cell.id for cell in cells[:8])
        platforms_hint = f"it has {platforms}; add '{system}/arm64' or '{system}/amd64' to its platforms"
        raise UsageError(f"recipe {plan.recipe}: {what}", hint=f"cells: {ids}" if cells else platforms_hint)
    builders = {cell.built_by for cell in selected}
    return tuple(cell for cell in cells if cell in selected or cell.id in builders)


def check_buildable(plan: Plan, cells: Iterable[Cell]) -> None:
    """Raise PlanError with all reasons why cibuildwheel cannot build these cells of a recipe."""
    every = [plan.of(cell) for cell in {cell.own: cell for cell in cells}.values()]
    problems = dict.fromkeys(problem for item in every for problem in _obstacles(item))
    if problems:
        raise PlanError(
            f"recipe {plan.recipe} cannot be built by cibuildwheel", details=[*problems], hint="bake it: --backend bake"
        )


def _obstacles(plan: Plan) -> list[str]:
    options = plan.cibuildwheel
    problems = []
    if options.toolkit not in ("none", "image"):
        problems.append(
            f"toolkit {options.toolkit!r} needs stages of a Dockerfile; use an image that has CUDA, and toolkit 'image'"
        )
    if options.native:
        problems.append("[native] is a stage of a Dockerfile that all Pythons share; cibuildwheel has no such step")
    if plan.audit.namings[1:]:
        problems.append("wheel.also-named: cibuildwheel takes one wheel from each build")
    if plan.secrets:
        problems.append("[secrets]: cibuildwheel cannot keep them out of its images and logs")
    return problems


def check_options(options: Options) -> None:
    """Raise UsageError with all options that cibuildwheel does not support."""
    if "dev" in options.groups:
        raise UsageError("cibuildwheel makes no images for a shell", hint="ask for wheel, test or full")
    flags = {
        "--locked": options.locked,
        "--no-cache": options.no_cache,
        "--pull": options.pull,
        "--builder": bool(options.builder),
    }
    if names := [name for name, is_set in flags.items() if is_set]:
        raise UsageError(
            f"{', '.join(names)}: not supported by cibuildwheel", hint="bake on Linux with it: --backend bake"
        )


def build_plan(root: Path, plan: Plan, options: Options, host: Host, system: str) -> RunReport:
    """Build the selected cells of one system, one wheel after the other; a wheel that passes is published at once.

    Returns the report, which is also ``report.json`` in the run's folder; it has failed cells
    (`bakery.runs.conclusion.conclusion`). Raises BakeryError for what ends all cells; published wheels stay.
    """
    check_options(options)
    if options.selection is CellSelection.CHANGED:
        # The programs of this machine are inputs, too, and no key has them.
        options = replace(options, selection=CellSelection.ALL)
    cells = cells_here(plan, system, options.only)
    check_buildable(plan, cells)
    images = [image for cell in cells if system == "linux" for image in cell.images[:1] if not image.suite]
    given = Credentials(package_index.configured(), None, environ=host.environment)
    check_grants(root, plan, options, given, images, baked=False)
    process.command(host.environment)
    kinds = {kind for group in options.groups for kind in plan.groups[group]}
    ids = {cell.id for cell in cells}
    targets = tuple(item for item in plan.for_system(system).targets() if item.kind in kinds and item.cell.id in ids)
    run = Run.of(root, plan, options, host.environment, host.line)
    chosen = without_finished(
        Selection(
            run=run,
            plan=plan,
            targets=targets,
            tasks={
                cell.id: CellTask(cell, tuple(item for item in targets if item.cell.built_by == cell.id))
                for cell in cells
                if cell.built_by == cell.id
            },
            previous=newest_records(run.state, run.recipe),
            keys=_keys(source_of(root, plan, options.output).digest, plan, cells, kinds),
        )
    )
    mask = Mask(given.values)
    with run_folder(run.state) as folder, ExitStack() as ended:
        ended.callback(Inside(root).remove, f".bakery/{folder.name}")
        builds = _builds(chosen, folder, mask, host, system, cells)
        keep_going = options.keep_going is not False
        schedule = Schedule([Item(name) for name in chosen.tasks], Limits(retries=0, keep_going=keep_going))
        journal = open_journal(run.state, run.recipe, unfinished(chosen))
        finisher = Finisher(chosen, folder, journal, mask, None, {})
        with caught() as signals, ThreadPoolExecutor(1) as pool:
            backend = CibuildwheelBackend(builds, host.environment, host.line, signals, pool)
            return run_tasks(finisher, backend, schedule, signals)


def _keys(tree: str, plan: Plan, cells: tuple[Cell, ...], kinds: set[Kind]) -> dict[str, str]:
    """Return cell → digest of options with the image, audit, programs, ``tree`` (the source), kinds of targets and version."""
    source = repr((plan.cibuildwheel.sdist, plan.cibuildwheel.git))
    texts = [scripts.text(name) for name in programs(plan)]
    common = [__version__, tree, source, *sorted(kinds), *texts]
    keys = {}
    for cell in cells:
        group = (other for other in cells if other.built_by == cell.built_by)
        parts = [*common, *(repr((options_of(plan, other), plan.of(other).audit)) for other in group)]
        keys[cell.id] = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return keys


def _builds(
    chosen: Selection, run: Path, mask: Mask, host: Host, system: str, cells: tuple[Cell, ...]
) -> dict[str, process.Build]:
    """Fetch a source outside the project, and write the configurations; return task → how cibuildwheel builds it.

    ``run``: the folder of the run. Raises BakeError or OutputError.
    """
    plan, folder, package = chosen.plan, chosen.run.root, chosen.plan.cibuildwheel.package
    if not package:
        folder, package = run / "stage" / "project", "source"
        process.fetch(plan.cibuildwheel, folder / package, host.environment)
    # cibuildwheel copies this folder into its container, and the project's code finds the programs there.
    config_folder = f".bakery/{run.name}"
    make_own_folder(folder)
    write(folder, configurations(plan, config_folder))
    configs = {
        cell.id: folder / config_folder / f"{name}.toml" for name, group in variants(plan).items() for cell in group
    }
    arguments = create_args(run, host) if system == "linux" else ()
    package = posixpath.normpath(f"{package}/{plan.facts.subdirectory}")
    builds = {}
    for name, task in chosen.tasks.items():
        arch = IDENTIFIERS[task.cell.platform].partition("_")[2]
        options = ("--platform", system, "--archs", arch.upper() if system == "windows" else arch)
        builds[name] = process.Build(
            arguments=(*options, "--config-file", str(configs[name]), package),
            # The builder comes first; the others find its wheel and only test it.
            identifiers=tuple(identifier(cell) for cell in cells if cell.built_by == name),
            root=folder,
            output=run / "stage" / name,
            log=run / "logs" / f"wheel-{name}.log",
            tested=task.has(Kind.TEST),
            timeout_s=chosen.run.options.cell_timeout_s,
            create_args=arguments,
            system=system,
            mask=mask,
        )
    return builds


def create_args(run: Path, host: Host) -> tuple[str, ...]:
    """Return the arguments for the package index in containers of Linux."""
    mounts: dict[Path, str] = {}
    variables: list[str] = []
    if host.ca_bundle:
        mounts[host.ca_bundle.absolute()] = _CA
        variables = [f"--env {name}={_CA}" for name in _CA_VARIABLES]
    if text := package_index.configured().pip_conf():
        path = run / "stage" / "pip.conf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        mounts[path] = _PIP
    volumes = (shlex.quote(f"{path}:{target}:ro") for path, target in mounts.items())
    return (*(f"--volume {volume}" for volume in volumes), *variables)
