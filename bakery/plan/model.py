"""The plan: the intermediate representation between recipes and files.

It has no unset values, everything is sorted or in the order of the recipe, and it can be written as JSON. Emitters, the
build and the audit read no recipe.

Values that all targets share are in `Plan.args`, those of a cell in `Cell.args`, and those of a kind of targets in
`core.target_kinds.TARGET_KINDS`. A test compares ``docker buildx bake --print`` of the emitted file with
``emit.bakefile.bake_json``.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from bakery.core.dockerignore import escaped
from bakery.core.errors import UsageError
from bakery.core.names import WHEEL_PYTHON, with_derived
from bakery.core.target_kinds import INGREDIENTS, TARGET_KINDS, Kind
from bakery.plan.build_facts import BuildFacts
from bakery.plan.cells import Cell, Image, Merged, Target, selects
from bakery.plan.delivery import Audit, Cache, Ci, Cibuildwheel, Naming, Override, Secret, SourceContext, Variable
from bakery.plan.dockerfile import Run, Stage
from bakery.plan.values import Value, substitute

VERSION = 1
"""Version of the plan's JSON; raised when a reader would have to change."""

_FOUND = ("bakery.toml", "pyproject.toml")
"""Files whose recipes are found by name."""

_SHARED = ("args", "contexts", "network", "platform")
"""Keys of overrides that change what steps do."""


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """What a plan says of cells whose settings overrides change."""

    audit: Audit
    facts: BuildFacts
    cibuildwheel: Cibuildwheel


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided about one recipe. Paths are relative to the project.

    Attributes:
        recipe: the recipe's name; names the files.
        source_file: the recipe file, for the header of generated files.
        context: the build context, relative to the folder that bake runs in.
        args: build arguments of all targets; ``global_args`` are those that ``FROM`` lines use.
        cells: those of Linux; cibuildwheel builds ``cibuildwheel_cells``, those of macOS and Windows.
        ignore: patterns of files that never enter the build context.
        output: the folder that receives audited wheels.
        network: the phases and commands that may use the network.
        requested_grants: what the recipe needs of the machine that builds, as ``--allow`` writes it, including paths in
            the project, which need no ``--allow``.
        foreign: whose programs the recipe runs in steps beside those with credentials, as ``--allow`` writes it: images
            (``image=NAME``) and servers (``server=ADDRESS``). Builds that are given credentials need these grants.
        platform_variable: the variable that holds the platform of all cells; empty if cells have their own.
        facts: what the recipe asks of its build.
        shares_slots: all compilers take slots, which the cells of an engine share; see ``slot.py``.
        origins: dotted path → (value, where it came from), as ``--explain`` shows them; for display only.
        given: what the environment or the command line sets of the build, as ``--set`` has it: name → value.
        workflow, ci: the file of the workflow, and what it does; empty and None for a recipe without one.
        lock: the lock file.
        own: `Cell.own` → the settings of these cells.
        max_project_mb: the space that the package index gives the project in MB (10⁶ bytes); 0 for PyPI's limit.
        merged: the native builds that every wheel has the results of; empty without ``native.merge``.
        unmerged: the plan with a cell for each of these builds, for those who judge what compiles; None without them.
        unmatched: entries of the recipe's matrix that match no value of its axes, in words.
        max_growth: how much larger than in the release before a wheel may be, in percent; None for no limit.
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
    kinds: tuple[Kind, ...]
    groups: Mapping[str, tuple[Kind, ...]]
    cache: Cache
    stages: tuple[Stage, ...]
    ignore: tuple[str, ...]
    audit: Audit
    output: str
    source_context: SourceContext = field(default_factory=SourceContext)
    secrets: tuple[Secret, ...] = ()
    network: tuple[str, ...] = ()
    requested_grants: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    cibuildwheel_cells: tuple[Cell, ...] = ()
    cibuildwheel: Cibuildwheel = field(default_factory=Cibuildwheel)
    overrides: tuple[Override, ...] = ()
    platform_variable: str = ""
    facts: BuildFacts = field(default_factory=BuildFacts)
    shares_slots: bool = False
    origins: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    workflow: str = ""
    ci: Ci | None = None
    lock: str = "bakery.lock"
    max_project_mb: int = 0
    max_growth: int | None = None
    unmatched: tuple[str, ...] = ()
    own: Mapping[str, OwnSettings] = field(default_factory=dict)
    merged: tuple[Merged, ...] = ()
    unmerged: Plan | None = None

    def of(self, cell: Cell) -> Plan:
        """Return the plan with the settings of a cell."""
        if not cell.own:
            return self
        own = self.own[cell.own]
        return replace(self, audit=own.audit, facts=own.facts, cibuildwheel=own.cibuildwheel)

    @property
    def reference(self) -> str:
        """What ``--recipe`` takes for the recipe: its name, or the file that nothing but its path finds."""
        file = self.source_file
        return file if file.endswith(".toml") and posixpath.basename(file) not in _FOUND else self.recipe

    def names_of(self, stage: str) -> tuple[str, ...]:
        """Return the names of a stage, which cells with settings of their own may have once more; a context replaces all."""
        return tuple(item.name for item in self.stages if item.name.removeprefix(stage) in ("", *self.own))

    @property
    def all_facts(self) -> tuple[BuildFacts, ...]:
        """The facts about the builds of all cells."""
        return (self.facts, *(own.facts for own in self.own.values()))

    @property
    def audits(self) -> tuple[Audit, ...]:
        """What the wheels of all cells must be, once each."""
        return tuple(dict.fromkeys((self.audit, *(own.audit for own in self.own.values()))))

    @property
    def namings(self) -> tuple[Naming, ...]:
        """The names of the wheels of all cells."""
        return tuple(naming for audit in self.audits for naming in audit.namings)

    def place(self, path: str) -> str:
        """Return where the recipe sets a value, and its dotted path, for messages: ``bakery.toml:7: test.files``."""
        _, where = self.origins.get(path, ("", ""))
        return f"{where}: {path}" if where not in ("", "default") else path

    @property
    def crosses(self) -> bool:
        """Whether the compiling stages run on the platform of the builder."""
        return any(stage.on_builder for stage in self.stages)

    def for_builders(self, platforms: Iterable[str]) -> Plan:
        """Return the plan with the builder's base images for each of the builders' platforms."""
        builders = tuple(dict.fromkeys(platforms))

        def with_images(cell: Cell) -> Cell:
            images: dict[tuple[str, str], Image] = {}
            for image in cell.images:
                for platform in (image.platform,) if image.platform else builders:
                    images.setdefault((image.ref, platform), replace(image, platform=platform))
            return replace(cell, images=tuple(images.values()))

        return replace(self, cells=tuple(map(with_images, self.cells))) if self.crosses else self

    @property
    def required_grants(self) -> tuple[str, ...]:
        """The grants that always need ``--allow``: secrets, layer caches, and paths that lead out of the project."""
        always = ("secret.", "cache=")
        return tuple(
            grant for grant in self.requested_grants if grant.startswith(always) or leaves(grant.partition("=")[2])
        )

    def secrets_for(self, kinds: Iterable[Kind]) -> tuple[Secret, ...]:
        """Return the secrets that targets of some kinds receive."""
        phases = {phase for kind in kinds for phase in TARGET_KINDS[kind].phases}
        return tuple(secret for secret in self.secrets if phases.intersection(secret.phases))

    def credential_stages(self) -> dict[str, tuple[str, ...]]:
        """Return the configurations of pip and cargo, by the ids of their secrets → the stages that get them."""
        found: dict[str, list[str]] = {}
        for stage in self.stages:
            mounts = (mount for step in stage.steps if isinstance(step, Run) for mount in step.mounts)
            for name in {mount.id for mount in mounts if mount.type == "secret"} & {"pip-conf", "cargo-config"}:
                found.setdefault(name, []).append(stage.name)
        return {name: tuple(stages) for name, stages in sorted(found.items())}

    def context_paths(self) -> tuple[str, ...]:
        """Return the paths of the build context that steps copy or mount, in the order of the Dockerfile."""
        return tuple(dict.fromkeys(path for stage in self.stages for path in stage.context_paths()))

    def values(self) -> dict[str, str]:
        """Return variable → value."""
        return {variable.name: variable.value for variable in self.variables}

    def stage_of(self, kind: Kind, cell: Cell) -> str:
        """Return the stage of the Dockerfile that the target of a kind and a cell builds."""
        return f"{self.recipe}-{TARGET_KINDS[kind].stage}{cell.own}"

    def cells_of(self, kind: Kind) -> tuple[Cell, ...]:
        """Return the cells that have a target of ``kind``: for wheels those that build one."""
        return tuple(cell for cell in self.cells if cell.has(kind))

    def cells_by_builder(self) -> dict[str, list[Cell]]:
        """Return id of a cell that builds a wheel → the cells that the wheel is for, including that cell."""
        cells: dict[str, list[Cell]] = {}
        for cell in (*self.cells, *self.cibuildwheel_cells):
            cells.setdefault(cell.built_by, []).append(cell)
        return cells

    def targets(self) -> Iterator[Target]:
        """Yield every target, kind by kind, cell by cell."""
        for kind in self.kinds:
            for cell in self.cells_of(kind):
                yield Target(f"{kind}-{cell.id}", kind, cell, self.stage_of(kind, cell))

    def scope(self, target: Target) -> str:
        """Return the name of a target's layer cache; no other target of any recipe has the same."""
        return self._scope(target.kind, target.cell.id, target.cell.platform)

    def scopes_read(self, target: Target) -> tuple[str, ...]:
        """Return the names of the layer caches that a target reads.

        One ``docker buildx bake`` builds a wheel and its materials. Without the wheel's cache, the materials would start
        the steps that both share before that cache is read.
        """
        scopes = [self.scope(target)] if TARGET_KINDS[target.kind].writes_cache else []
        if self.reads_wheel_cache(target.kind):
            scopes.insert(0, self._scope(Kind.WHEEL, target.cell.built_by, target.cell.platform))
        return tuple(scopes)

    def reads_wheel_cache(self, kind: Kind) -> bool:
        """Whether targets of a kind read the layer cache of their wheel, too."""
        return TARGET_KINDS[kind].reads_wheel_cache and Kind.WHEEL in self.kinds

    def cache_mode(self, kind: Kind) -> str:
        """Return the mode of a target's layer cache: ``min`` or ``max``."""
        return TARGET_KINDS[kind].cache_mode or self.cache.mode

    def _scope(self, kind: Kind, cell: str, platform: str) -> str:
        return f"{self.recipe}-{kind.value}-{cell}-{platform.replace('/', '_')}"

    def select(self, groups: tuple[str, ...], only: tuple[str, ...] = ()) -> tuple[Target, ...]:
        """Return the targets of ``groups`` whose name or cell matches one of the globs ``only``.

        A cell that shares its wheel selects the target that builds the wheel.

        Raises:
            UsageError: no target matches, or a group does not exist.
        """
        unknown = [group for group in groups if group not in self.groups]
        if unknown:
            raise UsageError(
                f"recipe {self.recipe} has no target {', '.join(unknown)}", hint=f"it has {', '.join(self.groups)}"
            )
        kinds = {kind for group in groups for kind in self.groups[group]}
        cells_by_builder = self.cells_by_builder()

        def is_selected(target: Target) -> bool:
            cells = cells_by_builder[target.cell.id] if target.kind is Kind.WHEEL else [target.cell]
            return any(selects(only, _names(cell, target.kind)) for cell in cells)

        targets = tuple(target for target in self.targets() if target.kind in kinds and is_selected(target))
        if not targets:
            others = [cell for cell in self.cibuildwheel_cells if selects(only, _names(cell, Kind.WHEEL))]
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
        return targets

    def materials_of(self, targets: Iterable[Target]) -> tuple[Target, ...]:
        """Return the materials targets of the wheels among ``targets``: they list the packages, digests and commits of the
        steps that they share with the wheels.
        """
        cells = {target.cell.id for target in targets if target.kind is Kind.WHEEL}
        return tuple(item for item in self.targets() if item.kind is Kind.MATERIALS and item.cell.id in cells)

    def materials_overrides(self, target: Target) -> tuple[str, ...]:
        """Return the overrides that make a materials target use the same steps as its wheel."""
        wheel = f"{Kind.WHEEL.value}-{target.cell.id}"
        shared = [
            str(replace(override, pattern=target.name))
            for override in self.overrides
            if fnmatch.fnmatchcase(wheel, override.pattern)
            and not fnmatch.fnmatchcase(target.name, override.pattern)
            and override.key.partition(".")[0] in _SHARED
        ]
        return (*shared, f"{target.name}.target={INGREDIENTS}{target.cell.own}")

    def filter_by_id(self, ids: Iterable[str]) -> Plan:
        """Return the plan with only the cells that have these ids; their order stays."""
        selected = frozenset(ids)
        return replace(self, cells=tuple(cell for cell in self.cells if cell.id in selected))

    def for_system(self, system: str) -> Plan:
        """Return the plan with the cells of one system (`names.SYSTEMS`) in place of those of Linux."""
        cells: dict[bool, list[Cell]] = {True: [], False: []}
        for cell in (*self.cells, *self.cibuildwheel_cells):
            cells[cell.platform.startswith(f"{system}/")].append(cell)
        return replace(self, cells=tuple(cells[True]), cibuildwheel_cells=tuple(cells[False]))

    def matches(self, only: tuple[str, ...]) -> bool:
        """Whether one of the globs ``only`` matches a cell or its target; true without globs."""
        return not only or any(selects(only, _names(cell, kind)) for cell in self.cells for kind in Kind)

    def filter_by_pattern(self, only: tuple[str, ...]) -> Plan:
        """Return the plan with the cells of the targets that the globs ``only`` match; all of them without globs.

        Raises:
            UsageError: no target matches.
        """
        if not only:
            return self
        return self.filter_by_id(target.cell.id for target in self.select(tuple(self.groups), only))

    def args_of(self, cell: Cell) -> dict[str, str]:
        """Return every build argument of ``cell``, with its value."""
        values = self.values()
        return {name: substitute(value, values) for name, value in self.args.items()} | dict(cell.args)

    def values_of_wheel(self, cell: Cell) -> dict[str, str]:
        """Return the variables that the wheel's names and requirements refer to; the Python is the one that builds it."""
        args = self.args_of(cell)
        return with_derived(args | {"PYTHON_VERSION": args.get(WHEEL_PYTHON, args.get("PYTHON_VERSION", ""))})


def leaves(path: str) -> bool:
    """Whether a path, as written, leads out of the folder that it is relative to. Links are not resolved."""
    return posixpath.isabs(path) or posixpath.normpath(path).split("/")[0] == ".."


def ignored_output(output: str, source: str) -> tuple[str, ...]:
    """Return the ignore patterns of an output folder: it is no input. Of one that holds the ``source``, those of wheels.

    Both are relative to the context; none for an output folder outside of it.
    """
    if leaves(output):
        return ()
    path = posixpath.normpath(output)
    if path in (".", source) or source.startswith(f"{path}/"):
        inside = "" if path == "." else f"{escaped(path)}/"
        # The second one is that of wheels while they are written.
        return (f"{inside}*.whl", f"{inside}.bakery-*.tmp")
    return (escaped(path),)


def _names(cell: Cell, kind: Kind) -> tuple[str, str]:
    return cell.id, f"{kind.value}-{cell.id}"
