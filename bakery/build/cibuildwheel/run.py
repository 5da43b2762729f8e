"""One recipe from plan to wheels by cibuildwheel: the same audit, the same publishing, the same report as a bake's."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery import __version__
from bakery.build.resume import carried, is_left_out
from bakery.audit.result_cache import AuditResult, audit
from bakery.build.cibuildwheel import process as tool
from bakery.engine import package_index
from bakery.build.publish import publish, stage_files
from bakery.build.context_digest import context_digest
from bakery.build.journal import KeptWheel, Record, last_run, open_journal
from bakery.build.buildx.outcome import Result
from bakery.engine.paths import engine_paths
from bakery.build.run_folders import run_folder
from bakery.build.state_folder import state_folder
from bakery.emit.cibuildwheel import configurations, identifier, options_of, programs, variants
from bakery.core.errors import AuditError, BakeError, PlanError, UsageError
from bakery.core.files import write
from bakery.core.names import IDENTIFIERS, Kind
from bakery.build.options import Again, Options
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.build.expectations import promises
from bakery.toolchains import programs as scripts
from bakery.build.report import CellFailure, PublishedWheel, RunReport, TargetReport

_CA, _PIP = "/etc/bakery-ca.pem", "/etc/pip.conf"
_CA_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True, slots=True)
class Wheelhouse:
    """What this machine gives a run.

    Attributes:
        environment: the process' environment, and on Linux what leads to the engine.
        ca_bundle: a PEM file that builds on Linux shall trust.
        line: is told what cibuildwheel prints.
    """

    environment: Mapping[str, str]
    ca_bundle: Path | None = None
    line: Callable[[str], None] = lambda _: None


def cells_here(plan: Plan, system: str, only: tuple[str, ...]) -> tuple[Cell, ...]:
    """Return the chosen cells of a system, with those that share a wheel with them.

    Raises:
        UsageError: there is none.
    """
    every = plan.for_system(system).cells
    chosen = [cell for cell in every if not only or any(_is_meant(cell, glob) for glob in only)]
    if not chosen:
        have = ", ".join(dict.fromkeys(cell.platform for cell in (*plan.cells, *plan.cibuildwheel_cells)))
        what = f"no cell of {system} matches {', '.join(only)}" if every else f"the recipe has no platform of {system}"
        ids = ", ".join(cell.id for cell in every[:8])
        hint = f"cells: {ids}" if every else f"it has {have}; add '{system}/arm64' or '{system}/amd64' to its platforms"
        raise UsageError(f"recipe {plan.recipe}: {what}", hint=hint)
    builders = {cell.built_by for cell in chosen}
    return tuple(cell for cell in every if cell in chosen or cell.id in builders)


def _is_meant(cell: Cell, glob: str) -> bool:
    names = (cell.id, *(f"{kind.value}-{cell.id}" for kind in Kind))
    return any(fnmatch.fnmatchcase(name, glob) for name in names)


def check_buildable(plan: Plan) -> None:
    """Raise PlanError where cibuildwheel lacks what the recipe's Dockerfile makes; all reasons at once."""
    told = plan.cibuildwheel
    problems = []
    if told.toolkit not in ("none", "image"):
        problems.append(
            f"toolkit {told.toolkit!r} is made by stages of a Dockerfile; name an image that has CUDA, and toolkit 'image'"
        )
    if told.native:
        problems.append("[native] is a stage of a Dockerfile that all Pythons share; cibuildwheel has no such step")
    if plan.audit.namings[1:]:
        problems.append("wheel.also-named: cibuildwheel takes one wheel from each build")
    if plan.secrets:
        problems.append("[secrets]: cibuildwheel cannot keep them out of its images and logs")
    if problems:
        raise PlanError(
            f"recipe {plan.recipe} cannot be built by cibuildwheel", details=problems, hint="bake it: --backend bake"
        )


def check_options(options: Options) -> None:
    """Raise UsageError where cibuildwheel has nothing that an option could mean; all of them at once."""
    if "dev" in options.groups:
        raise UsageError("cibuildwheel makes no images for a shell", hint="ask for wheel, test or full")
    asked = {
        "--locked": options.locked,
        "--no-cache": options.no_cache,
        "--pull": options.pull,
        "--builder": bool(options.builder),
    }
    if words := [word for word, is_asked in asked.items() if is_asked]:
        raise UsageError(
            f"{', '.join(words)}: cibuildwheel knows no such thing", hint="bake on Linux with it: --backend bake"
        )


def build_plan(root: Path, plan: Plan, options: Options, given: Wheelhouse, system: str) -> RunReport:
    """Build the chosen cells of one system, one wheel after the other; what passes the audit is published at once.

    Returns:
        The report, also of cells that failed (`bakery.build.exit_status` judges it); it is written as ``report.json`` into the
        run's folder, too.

    Raises:
        BakeryError: what ends all cells. Wheels that were finished and audited by then are published.
    """
    check_options(options)
    cells = cells_here(plan, system, options.only)
    check_buildable(plan)
    tool.command(given.environment)
    with run_folder(root) as state:
        return _Run(root, plan, options, given, system, state).go(cells)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run in its folder."""

    root: Path
    plan: Plan
    options: Options
    given: Wheelhouse
    system: str
    state: Path

    def go(self, cells: tuple[Cell, ...]) -> RunReport:
        """Build what is to be built, publish what keeps its promise, and report on all."""
        began = time.monotonic()
        place, package = self._source()
        inside = self.state / "cibuildwheel" if place == self.root else place / "cibuildwheel"
        folder = inside.relative_to(place).as_posix()
        texts = configurations(self.plan, folder)
        write(place, texts)
        config = {cell.id: f"{folder}/{name}.toml" for name, group in variants(self.plan).items() for cell in group}
        served = {cell.id: [other for other in cells if other.built_by == cell.id] for cell in cells}
        memory = state_folder(self.root, self.given.environment)
        known = last_run(memory, self.plan.recipe)
        keys = self._keys(served)
        kept = {
            name
            for name, group in served.items()
            if group
            and all(is_left_out(self.options.again, known.get(cell.id), keys[cell.id], self._output) for cell in group)
        }
        mine = {cell.id: cell for cell in (*self.plan.cells, *self.plan.cibuildwheel_cells)}
        begun = {name: key for name, key in keys.items() if mine[name].built_by not in kept}
        journal = open_journal(memory, self.plan.recipe, carried(known, begun, mine))
        failures: list[CellFailure] = []
        rows: list[TargetReport] = []
        stopped = ""
        for name, group in ((name, group) for name, group in served.items() if group):
            if name in kept:
                rows += self._rows(group, Result.KEPT, wheels=self._published(known[name].wheels))
                continue
            stopped = "timeout" if _is_over(self.options.deadline) else stopped
            if stopped or (failures and self.options.keep_going is False):
                rows += self._rows(group, Result.CANCELED, reason="the run ended before it")
                continue
            request = self._request(group, place, package, place / config[name])
            start = time.monotonic()
            try:
                verdicts = self._built(group[0], request)
            except (AuditError, BakeError) as error:
                late = _is_over(self.options.deadline)
                result = Result.CANCELED if late else Result.FAILED
                rows += self._rows(group, result, request, time.monotonic() - start, reason=error.message)
                if late:
                    stopped = "timeout"
                    continue
                failures.append(CellFailure(name, error))
                for cell in group:
                    journal.write(Record(cell.id, keys[cell.id], Result.FAILED))
                continue
            wheels = tuple(KeptWheel(item.path.name, item.sha256, item.size) for item in verdicts)
            published = wheels if Kind.WHEEL in self._kinds else ()
            for cell in group:
                journal.write(Record(cell.id, keys[cell.id], Result.DONE, wheels=published if cell.id == name else ()))
            if published:
                publish([item.path for item in verdicts], self._output, root=self.root)
            rows += self._rows(group, Result.DONE, request, time.monotonic() - start, wheels=self._published(published))
        report = RunReport(
            recipe=self.plan.recipe,
            targets=tuple(row for row in rows if row.result != Result.KEPT or self.options.again is not Again.FAILED),
            output=self._output,
            state=self.state,
            seconds=time.monotonic() - began,
            failures=tuple(failures),
            stopped=stopped,
        )
        (self.state / "report.json").write_text(json.dumps(report.to_json(), indent=1), encoding="utf-8")
        return report

    @property
    def _output(self) -> Path:
        return self.options.output or self.root / self.plan.output

    @property
    def _kinds(self) -> set[Kind]:
        return {kind for group in self.options.groups for kind in self.plan.groups[group]}

    def _built(self, cell: Cell, request: tool.Build) -> list[AuditResult]:
        """Build a cell's wheel and look into it.

        Raises:
            BakeError: it cannot be built.
            AuditError: it is not what it promises.
        """
        ended = tool.build(request, self.given.environment, self.given.line)
        if ended.late:
            raise BakeError(f"{cell.id}: the time was over", hint="allow more with --cell-timeout")
        if ended.failure:
            raise BakeError(
                f"{cell.id}: cibuildwheel failed", details=ended.failure.splitlines(), hint=f"the log: {request.log}"
            )
        wheels, faults = self._audited(cell, request.output)
        if faults:
            raise AuditError(
                f"{cell.id}: a wheel is not what it promises; it was kept out of {self._output}",
                details=faults,
                hint="the audit's words say what to change; `wheel-bakery audit WHEEL` looks at any wheel",
            )
        return wheels

    def _keys(self, served: Mapping[str, Sequence[Cell]]) -> dict[str, str]:
        """Return cell → digest of all that defines it: options, programs, files, what is asked for, bakery itself.

        Raises:
            OutputError: a file of the project cannot be read.
        """
        tree = context_digest(self.root / self.plan.context, self.plan.context_paths(), self.plan.ignore)
        told = self.plan.cibuildwheel
        fetched = repr((told.sdist, told.git))
        called = [scripts.text(name) for name in programs(self.plan)]
        common = [__version__, tree, fetched, repr(self.plan.audit), *sorted(self._kinds), *called]
        return {
            cell.id: hashlib.sha256(
                "\0".join([*common, *(repr(options_of(self.plan, other)) for other in group)]).encode()
            ).hexdigest()
            for group in served.values()
            for cell in group
        }

    def _published(self, wheels: Sequence[KeptWheel]) -> tuple[PublishedWheel, ...]:
        return tuple(PublishedWheel(self._output / item.name, item.sha256, item.size) for item in wheels)

    def _rows(
        self,
        group: Sequence[Cell],
        result: Result,
        request: tool.Build | None = None,
        seconds: float = 0.0,
        *,
        wheels: tuple[PublishedWheel, ...] = (),
        reason: str = "",
    ) -> list[TargetReport]:
        """Return the rows of the cells that one wheel serves; the first of them builds it."""
        log = request.log if request and request.log.exists() else None
        return [
            TargetReport(
                name=f"{kind.value}-{cell.id}",
                cell=cell.id,
                result=result.value,
                seconds=seconds,
                steps=1 if request else 0,
                cached=0,
                log=log,
                wheels=wheels if kind is Kind.WHEEL else (),
                tries=1 if request else 0,
                reason=reason,
            )
            for kind in sorted(self._kinds, reverse=True)
            for cell in (group[:1] if kind is Kind.WHEEL else group)
        ]

    def _source(self) -> tuple[Path, str]:
        """Return the folder that cibuildwheel runs in, and the source in it, fetched where it is no folder of ours."""
        told = self.plan.cibuildwheel
        if told.package:
            return self.root, told.package
        place = self.state / "stage" / "project"
        tool.fetch(told, place / "source", self.given.environment)
        return place, "source"

    def _request(self, served: Sequence[Cell], place: Path, package: str, config: Path) -> tool.Build:
        cell = served[0]
        mounts, container = self._told_containers()
        arch = IDENTIFIERS[cell.platform].partition("_")[2]
        return tool.Build(
            platform=self.system,
            arch=arch.upper() if self.system == "windows" else arch,
            # The builder first; the others then find its wheel and only test it.
            identifiers=tuple(identifier(item) for item in served),
            root=place,
            package=package,
            config=config,
            output=self.state / "stage" / cell.id,
            log=self.state / "logs" / f"wheel-{cell.id}.log",
            tested=Kind.TEST in self._kinds,
            deadline=_earlier(self.options.deadline, self.options.cell_timeout_s),
            mounts=mounts,
            container=container,
        )

    def _told_containers(self) -> tuple[dict[Path, str], dict[str, str]]:
        """Return what containers of Linux need to reach the package index: certificates and pip's configuration."""
        if self.system != "linux":
            return {}, {}
        mounts: dict[Path, str] = {}
        container: dict[str, str] = {}
        if self.given.ca_bundle:
            mounts[self.given.ca_bundle.absolute()] = _CA
            container = dict.fromkeys(_CA_VARIABLES, _CA)
        if text := package_index.configured().pip_conf():
            path = self.state / "stage" / "pip.conf"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
            mounts[path] = _PIP
        return mounts, container

    def _audited(self, cell: Cell, stage: Path) -> tuple[list[AuditResult], list[str]]:
        """Return a cell's wheels that keep their promise, and what is wrong with the others."""
        memory = engine_paths(self.given.environment).cache / "audited"
        try:
            files = stage_files(stage)
            each = promises(self.plan, cell, None, files)
        except AuditError as error:
            return [], [error.message, *error.details]
        found = [audit(path, promise, memory) for path, promise in zip(files, each, strict=True)]
        faults = [f"{item.path.name}: {fault}" for item in found for fault in item.faults]
        return ([], faults) if faults else (found, [])


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _earlier(deadline: float | None, seconds: float | None) -> float | None:
    """Return the local clock when a cell that begins now must end; None for never."""
    own = None if seconds is None else time.monotonic() + seconds
    return min((at for at in (deadline, own) if at is not None), default=None)
