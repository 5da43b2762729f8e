"""The plan: the intermediate representation between recipes and files.

Nothing in it is unset, everything is sorted or in the order a person wrote it, and it dumps to JSON.
Emitters, the driver and the audit read the plan and nothing before it.

The plan is factored the way a good bake file is: what all targets share stands once (`Plan.args`), what
a cell adds stands with the cell (`Cell.args`), and what a kind of target adds stands with its `Family`.
`Plan.targets` multiplies it out; what ``docker buildx bake --print`` says of the emitted file is equal
to ``emit.bakefile.bake_json``, which is a test.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from bakery.core.errors import UsageError
from bakery.core.names import PHASES, WHEEL_PYTHON, Kind, Phase, with_derived
from bakery.plan.cells import Cell, Family, Image, Target
from bakery.plan.dockerfile import Stage
from bakery.plan.options import Audit, Cache, Ci, Cibuildwheel, Override, Secret, Sent, Variable
from bakery.plan.values import Value, substitute

VERSION = 1
"""Version of the JSON that `Plan.to_json` makes; raised when a reader would have to change."""

READ_WHEEL = (Kind.MATERIALS, Kind.COMPILER_CACHE)
"""Targets that read the layer cache of their wheel, too."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided about one recipe.

    Attributes:
        recipe: the recipe's name; names the files.
        source_file: the recipe file relative to the project, for the header of generated files.
        context: the build context relative to the directory bake runs in.
        args: build arguments of all targets.
        global_args: the arguments that ``FROM`` lines use.
        ignore: patterns of files that never enter the build context.
        output: the folder that receives audited wheels.
        sent: what is sent of the project's folder.
        elsewhere: the cells of macOS and Windows, which cibuildwheel builds; ``cells`` are those of Linux.
        cibuildwheel: what it is told of the recipe.
        secrets: what steps are told in confidence.
        network: steps that run a project's own commands and that the recipe gives the network.
        wants: what the recipe asks of the machine that bakes it, in the words of ``--allow``; what lies in the
            project's folder is its own.
        platform_variable: the variable that holds the platform of all cells; empty where cells say it.
        job_memory: MB that one compiler needs at its peak; 0 where the recipe does not say.
        jobs: compilers at a time; 0 for as many as the machine has room for.
        origins: dotted path → (value, where it came from), for ``--explain``.
        workflow: the file of the workflow.
        ci: what the workflow does; None for a recipe without one.
        lock: the lock's file, relative to the project.
    """

    recipe: str
    description: str
    source_file: str
    context: str
    dockerfile: str
    bakefile: str
    variables: tuple[Variable, ...]
    args: Mapping[str, Value]
    global_args: tuple[str, ...]
    cells: tuple[Cell, ...]
    families: tuple[Family, ...]
    groups: Mapping[str, tuple[Kind, ...]]
    cache: Cache
    stages: tuple[Stage, ...]
    ignore: tuple[str, ...]
    audit: Audit
    output: str
    sent: Sent = field(default_factory=Sent)
    secrets: tuple[Secret, ...] = ()
    network: tuple[Phase, ...] = ()
    wants: tuple[str, ...] = ()
    elsewhere: tuple[Cell, ...] = ()
    cibuildwheel: Cibuildwheel = field(default_factory=Cibuildwheel)
    overrides: tuple[Override, ...] = ()
    platform_variable: str = ""
    job_memory: int = 0
    jobs: int = 0
    origins: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    workflow: str = ""
    ci: Ci | None = None
    lock: str = "bakery.lock"

    @property
    def crosses(self) -> bool:
        """Whether what compiles stands on the platform of whoever builds."""
        return any(stage.on_builder for stage in self.stages)

    def built_on(self, platforms: Iterable[str]) -> Plan:
        """Return the plan with base images for builders of these platforms, in place of those for whoever builds."""
        own = tuple(dict.fromkeys(platforms))

        def placed(cell: Cell) -> Cell:
            found: dict[tuple[str, str], Image] = {}
            for image in cell.images:
                for platform in (image.platform,) if image.platform else own:
                    found.setdefault((image.ref, platform), replace(image, platform=platform))
            return replace(cell, images=tuple(found.values()))

        return replace(self, cells=tuple(map(placed, self.cells))) if self.crosses else self

    @property
    def asks(self) -> tuple[str, ...]:
        """What the recipe asks of the machine beyond the project, as far as its spelling tells."""
        named = ("secret.", "cache=")
        return tuple(want for want in self.wants if want.startswith(named) or leaves(want.partition("=")[2]))

    def told(self, kinds: Iterable[Kind]) -> tuple[Secret, ...]:
        """Return the secrets that targets of some kinds are told."""
        phases = {phase for kind in kinds for phase in PHASES[kind]}
        return tuple(secret for secret in self.secrets if phases.intersection(secret.phases))

    def context_paths(self) -> tuple[str, ...]:
        """Return the paths of the build context that steps copy or mount, in the order of the Dockerfile."""
        return tuple(dict.fromkeys(path for stage in self.stages for path in stage.context_paths()))

    def values(self) -> dict[str, str]:
        """Return variable → value."""
        return {variable.name: variable.value for variable in self.variables}

    def family(self, kind: Kind) -> Family:
        """Return the family of ``kind``."""
        return next(family for family in self.families if family.kind is kind)

    def cells_of(self, kind: Kind) -> tuple[Cell, ...]:
        """Return the cells that have a target of ``kind``: for wheels those that build one."""
        return tuple(cell for cell in self.cells if cell.has(kind))

    def served(self) -> dict[str, list[Cell]]:
        """Return id of a cell that builds a wheel → the cells that the wheel is for, itself among them."""
        found: dict[str, list[Cell]] = {}
        for cell in (*self.cells, *self.elsewhere):
            found.setdefault(cell.built_by, []).append(cell)
        return found

    def targets(self) -> Iterator[Target]:
        """Yield every target, family by family, cell by cell."""
        for family in self.families:
            prefix = family.kind.value + "-"
            for cell in self.cells_of(family.kind):
                yield Target(prefix + cell.id, family.kind, cell, family.stage)

    def scope(self, target: Target) -> str:
        """Return what names a target's layer cache: no other target of any recipe has it."""
        return self._scope(target.kind, target.cell.id, target.cell.platform)

    def scopes_read(self, target: Target) -> tuple[str, ...]:
        """Return whose layer caches a target reads.

        What tells a wheel's materials is baked beside it, in the same call: without the wheel's cache it would begin the
        steps that both have before that is read.
        """
        wheel = self._scope(Kind.WHEEL, target.cell.built_by, target.cell.platform)
        has_wheel = any(family.kind is Kind.WHEEL for family in self.families)
        own = (self.scope(target),) if self.is_cached(target.kind) else ()
        return (*((wheel,) if target.kind in READ_WHEEL and has_wheel else ()), *own)

    def is_cached(self, kind: Kind) -> bool:
        """Whether targets of a kind write a layer cache: what carries the compiler cache is for its machine alone."""
        return kind is not Kind.COMPILER_CACHE

    def cache_mode(self, kind: Kind) -> str:
        """Return which layers a target's cache keeps.

        Of what tells materials these are the results alone: its other layers are in the wheel's cache.
        """
        return "min" if kind is Kind.MATERIALS else self.cache.mode

    def _scope(self, kind: Kind, cell: str, platform: str) -> str:
        return f"{self.recipe}-{kind.value}-{cell}-{platform.replace('/', '_')}"

    def select(self, groups: tuple[str, ...], only: tuple[str, ...] = ()) -> tuple[Target, ...]:
        """Return the targets of ``groups`` whose cell or own name matches one of the globs ``only``.

        A cell that shares its wheel stands for the target that builds it.

        Raises:
            UsageError: none does.
        """
        strange = [group for group in groups if group not in self.groups]
        if strange:
            raise UsageError(
                f"recipe {self.recipe} has no target {', '.join(strange)}", hint=f"it has {', '.join(self.groups)}"
            )
        kinds = {kind for group in groups for kind in self.groups[group]}
        served = self.served()

        def is_meant(target: Target) -> bool:
            cells = served[target.cell.id] if target.kind is Kind.WHEEL else [target.cell]
            return not only or _matches(only, target.kind, cells)

        chosen = tuple(target for target in self.targets() if target.kind in kinds and is_meant(target))
        if not chosen:
            others = [cell for cell in self.elsewhere if _matches(only, Kind.WHEEL, [cell])]
            if others:
                systems = " and ".join(dict.fromkeys(cell.platform.partition("/")[0] for cell in others))
                raise UsageError(
                    f"recipe {self.recipe}: {', '.join(cell.id for cell in others[:8])}: not baked, but built on {systems}",
                    hint="run the same command there: cibuildwheel builds them",
                )
            some = ", ".join(cell.id for cell in self.cells[:8])
            raise UsageError(
                f"recipe {self.recipe}: no cell matches {', '.join(only)}",
                hint=f"cells: {some}{', …' if len(self.cells) > 8 else ''}",
            )
        return chosen

    def narrowed(self, ids: Iterable[str]) -> Plan:
        """Return the plan with only the cells that have these ids, in their order."""
        wanted = frozenset(ids)
        return replace(self, cells=tuple(cell for cell in self.cells if cell.id in wanted))

    def of_system(self, system: str) -> Plan:
        """Return the plan with the cells of one system (`names.SYSTEMS`) in place of those of Linux."""
        cells: dict[bool, list[Cell]] = {True: [], False: []}
        for cell in (*self.cells, *self.elsewhere):
            cells[cell.platform.startswith(f"{system}/")].append(cell)
        return replace(self, cells=tuple(cells[True]), elsewhere=tuple(cells[False]))

    def meets(self, only: tuple[str, ...]) -> bool:
        """Whether one of the globs ``only`` names a cell or its target; true without any."""
        return not only or any(_matches(only, kind, list(self.cells)) for kind in Kind)

    def chosen(self, only: tuple[str, ...]) -> Plan:
        """Return the plan with the cells of the targets that the globs ``only`` select; all of them without any.

        Raises:
            UsageError: there are none.
        """
        if not only:
            return self
        return self.narrowed(target.cell.id for target in self.select(tuple(self.groups), only))

    def args_of(self, cell: Cell) -> dict[str, str]:
        """Return every build argument of ``cell``, with its value."""
        values = self.values()
        return {name: substitute(value, values) for name, value in self.args.items()} | dict(cell.args)

    def values_of_wheel(self, cell: Cell) -> dict[str, str]:
        """Return what names and requirements of the wheel of ``cell`` refer to: of the Python that builds it."""
        args = self.args_of(cell)
        return with_derived(args | {"PYTHON_VERSION": args.get(WHEEL_PYTHON, args.get("PYTHON_VERSION", ""))})


def leaves(path: str) -> bool:
    """Whether a path, as it is written, leads out of the folder that it is relative to."""
    return posixpath.isabs(path) or posixpath.normpath(path).split("/")[0] == ".."


def ignored_output(output: str) -> str:
    """Return the pattern of an output folder in the build context; empty where it is none, or has no plain name."""
    if output.startswith("/") or any(char in "*?[]\\!#" or char.isspace() for char in output):
        return ""
    return "/".join(piece for piece in output.split("/") if piece not in ("", ".")) or "*.whl"


def _matches(globs: tuple[str, ...], kind: Kind, cells: list[Cell]) -> bool:
    names = [name for cell in cells for name in (cell.id, f"{kind.value}-{cell.id}")]
    return any(fnmatch.fnmatchcase(name, glob) for name in names for glob in globs)
