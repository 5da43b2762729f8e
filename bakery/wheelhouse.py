"""One recipe from plan to wheels by cibuildwheel: the same audit, the same publishing, the same report as a bake's."""

from __future__ import annotations

import fnmatch
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery.audit.memory import Verdict, audit
from bakery.drive import cibuildwheel as tool
from bakery.drive import index
from bakery.drive.collect import publish, stage_files
from bakery.drive.places import places
from bakery.drive.runs import run_folder
from bakery.emit.cibuildwheel import configurations, identifier, variants
from bakery.errors import AuditError, BakeError, PlanError, UsageError
from bakery.files import write
from bakery.names import IDENTIFIERS, Kind
from bakery.plan import Cell, Plan
from bakery.promises import promises
from bakery.report.run import PublishedWheel, RunReport, TargetReport

_SYSTEMS = {"darwin": "macos", "win32": "windows"}
_CA, _PIP = "/etc/bakery-ca.pem", "/etc/pip.conf"
_CA_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


def this_system() -> str:
    """Return the system of this machine as recipes write it."""
    return _SYSTEMS.get(sys.platform, "linux")


@dataclass(frozen=True, slots=True)
class Wheelhouse:
    """What one run is given.

    Attributes:
        environment: the process' environment, and on Linux what leads to the engine.
        groups: what is asked for: ``wheel``, ``test``, ``full``.
        only: globs over cells; none for all.
        output: the folder for wheels; None for the recipe's.
        ca_bundle: a PEM file that builds on Linux shall trust.
        line: is told what cibuildwheel prints.
    """

    environment: Mapping[str, str]
    groups: tuple[str, ...]
    only: tuple[str, ...] = ()
    output: Path | None = None
    ca_bundle: Path | None = None
    line: Callable[[str], None] = lambda _: None


class BuildFailed(BakeError):
    """A wheel could not be built; ``report`` tells what became of the others."""

    def __init__(self, message: str, report: RunReport, hint: str, details: Sequence[str]) -> None:
        super().__init__(message, hint=hint, details=details)
        self.report = report


def cells_here(plan: Plan, system: str, only: tuple[str, ...]) -> tuple[Cell, ...]:
    """Return the chosen cells of a system, with those that share a wheel with them.

    Raises:
        UsageError: there is none.
    """
    every = [cell for cell in (*plan.cells, *plan.elsewhere) if cell.platform.startswith(f"{system}/")]
    chosen = [cell for cell in every if not only or any(_is_meant(cell, glob) for glob in only)]
    if not chosen:
        have = ", ".join(dict.fromkeys(cell.platform for cell in (*plan.cells, *plan.elsewhere)))
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


def build_plan(root: Path, plan: Plan, given: Wheelhouse, system: str) -> RunReport:
    """Build the chosen cells of one system and publish what passed the audit.

    Returns:
        The report; it is also written as ``report.json`` into the run's folder.

    Raises:
        BakeryError: any of its kinds. Wheels that were finished and audited by then are published.
    """
    if "dev" in given.groups:
        raise UsageError("cibuildwheel makes no images for a shell", hint="ask for wheel, test or full")
    cells = cells_here(plan, system, given.only)
    check_buildable(plan)
    tool.command(given.environment)
    with run_folder(root) as state:
        return _Run(root, plan, given, system, state).go(cells)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run in its folder."""

    root: Path
    plan: Plan
    given: Wheelhouse
    system: str
    state: Path

    def go(self, cells: tuple[Cell, ...]) -> RunReport:
        """Build one wheel after the other, publish those that keep their promise, and report."""
        began = time.monotonic()
        place, package = self._source()
        inside = self.state / "cibuildwheel" if place == self.root else place / "cibuildwheel"
        folder = inside.relative_to(place).as_posix()
        write(place, configurations(self.plan, folder))
        config = {
            cell.id: place / folder / f"{name}.toml" for name, group in variants(self.plan).items() for cell in group
        }
        kinds = {kind for group in self.given.groups for kind in self.plan.groups[group]}
        targets: list[TargetReport] = []
        failures: list[str] = []
        refused: list[str] = []
        output = self.given.output or self.root / self.plan.output
        for cell in (cell for cell in cells if cell.built_by == cell.id):
            served = [other for other in cells if other.built_by == cell.id]
            request = self._request(served, place, package, config[cell.id], tested=Kind.TEST in kinds)
            start = time.monotonic()
            failure = tool.build(request, self.given.environment, self.given.line)
            seconds = time.monotonic() - start
            wheels: list[Verdict] = []
            if failure:
                failures += [f"{cell.id}: log: {request.log}", *failure.splitlines()]
            else:
                wheels, faults = self._audited(cell, request.output)
                refused += faults
            published = publish([item.path for item in wheels], output, root=self.root) if Kind.WHEEL in kinds else ()
            shown = tuple(
                PublishedWheel(path, item.sha256, item.size) for path, item in zip(published, wheels, strict=False)
            )
            result = "failed" if failure else "done"
            for kind in sorted(kinds, reverse=True):
                for other in [cell] if kind is Kind.WHEEL else served:
                    mine = shown if kind is Kind.WHEEL else ()
                    targets.append(_target(f"{kind.value}-{other.id}", other.id, result, seconds, request.log, mine))
        report = RunReport(self.plan.recipe, tuple(targets), output, self.state, time.monotonic() - began)
        (self.state / "report.json").write_text(json.dumps(report.to_json(), indent=1), encoding="utf-8")
        if failures:
            raise BuildFailed(
                f"recipe {self.plan.recipe}: cibuildwheel failed",
                report,
                "its words are above; the log has all",
                failures,
            )
        if refused:
            raise AuditError(
                f"recipe {self.plan.recipe}: a wheel is not what it promises; it was kept out of {output}",
                details=refused,
                hint="the audit's words say what to change; `bakery audit WHEEL` looks at any wheel",
            )
        return report

    def _source(self) -> tuple[Path, str]:
        """Return the folder that cibuildwheel runs in, and the source in it, fetched where it is no folder of ours."""
        told = self.plan.cibuildwheel
        if told.package:
            return self.root, told.package
        place = self.state / "stage" / "project"
        tool.fetch(told, place / "source", self.given.environment)
        return place, "source"

    def _request(self, served: Sequence[Cell], place: Path, package: str, config: Path, *, tested: bool) -> tool.Build:
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
            tested=tested,
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
        if text := index.configured().pip_conf():
            path = self.state / "stage" / "pip.conf"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
            mounts[path] = _PIP
        return mounts, container

    def _audited(self, cell: Cell, stage: Path) -> tuple[list[Verdict], list[str]]:
        """Return a cell's wheels that keep their promise, and what is wrong with the others."""
        memory = places(self.given.environment).cache / "audited"
        try:
            files = stage_files(stage)
            each = promises(self.plan, cell, None, files)
        except AuditError as error:
            return [], [f"{cell.id}: {error.message}", *error.details]
        found = [audit(path, promise, memory) for path, promise in zip(files, each, strict=True)]
        faults = [f"{cell.id}: {item.path.name}: {fault}" for item in found for fault in item.faults]
        return ([], faults) if faults else (found, [])


def _target(
    name: str, cell: str, result: str, seconds: float, log: Path, wheels: tuple[PublishedWheel, ...]
) -> TargetReport:
    return TargetReport(name, cell, result, seconds, 1, 0, log if log.exists() else None, wheels)
