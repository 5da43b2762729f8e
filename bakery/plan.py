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
from typing import TypeAlias

from bakery.errors import UsageError
from bakery.names import PHASES, WHEEL_PYTHON, CacheBackend, Kind, Phase, secret_variable, with_derived

VERSION = 1
"""Version of the JSON that `Plan.to_json` makes; raised when a reader would have to change."""

READ_WHEEL = (Kind.MATERIALS, Kind.COMPILER_CACHE)
"""Targets that read the layer cache of their wheel, too."""

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Ref:
    """A build argument inside a value: written ``${NAME}`` in files, replaced when they are built."""

    name: str


Value: TypeAlias = tuple[str | Ref, ...]
"""Text with references, in order; the parts are joined."""


def literal(text: str) -> Value:
    """Return ``text`` as a value without references."""
    return (text,)


def substitute(value: Value, values: Mapping[str, str]) -> str:
    """Return ``value`` with every reference replaced by its value in ``values``."""
    return "".join(part if isinstance(part, str) else values[part.name] for part in value)


# --- Dockerfile ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mount:
    """One ``--mount`` of a `Run`. Unset parts are empty strings."""

    type: str
    target: str
    source: str = ""
    from_: str = ""
    id: str = ""
    sharing: str = ""
    env: str = ""
    writable: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class Arg:
    """``ARG``: declares a build argument in a stage.

    Attributes:
        default: a value that follows from other arguments; empty where the emitter takes it from the plan.
    """

    name: str
    default: Value = ()


@dataclass(frozen=True, slots=True)
class Env:
    """``ENV``: sets variables for what follows in the stage and for the image."""

    values: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A command as words; each word is quoted by the emitter, so no word reaches the shell as syntax."""

    words: tuple[Value, ...]
    environment: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """Shell text that is taken as it stands: bakery's own, or a command that the recipe's author wrote."""

    text: str


@dataclass(frozen=True, slots=True)
class Resolves:
    """What a step resolves to packages of the index.

    Attributes:
        place: what the set is called in a lock.
        words: requirements and options of pip; after ``-r`` a file that only the build knows.
        direct: distributions that may come from an address, and not only from the index.
    """

    place: str
    words: tuple[Value, ...]
    direct: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """``RUN``: its commands one after the other, stopping at the first that fails.

    Attributes:
        resolves: what it finds out about packages; None for other steps.
    """

    commands: tuple[Command | Script, ...]
    mounts: tuple[Mount, ...] = ()
    network: bool = True
    comment: str = ""
    resolves: Resolves | None = None


@dataclass(frozen=True, slots=True)
class File:
    """A file written into the image (``COPY`` of a heredoc)."""

    path: str
    text: str
    mode: str = "0644"
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Copy:
    """``COPY --from``."""

    source: str
    target: str
    from_: str


@dataclass(frozen=True, slots=True)
class Add:
    """``ADD`` of a git repository."""

    source: Value
    target: str


@dataclass(frozen=True, slots=True)
class Workdir:
    """``WORKDIR``."""

    path: str


@dataclass(frozen=True, slots=True)
class Cmd:
    """``CMD`` in its JSON form."""

    words: tuple[str, ...]


Step: TypeAlias = Arg | Env | Run | File | Copy | Add | Workdir | Cmd


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the Dockerfile. ``base`` may refer to global arguments.

    Attributes:
        on_builder: it stands on an image for whoever builds, not for the cell's platform.
    """

    name: str
    base: Value
    steps: tuple[Step, ...] = ()
    comment: str = ""
    on_builder: bool = False


# --- bake file -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the bake file.

    Attributes:
        value: what it is when nobody sets it.
        patterns: regular expressions for the whole value; all of them hold.
        choices: the values it may have, empty for any.
        expected: what to say when a value does not fit.
    """

    name: str
    value: str
    description: str
    patterns: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    expected: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """A base image that an engine must have before anything is baked.

    Attributes:
        ref: the image's name as the files write it.
        platform: the platform it is needed for; empty for that of whoever builds.
        provider: who can provide it when no registry can be reached.
        release: what the provider calls it (for ``debian`` the suite).
        tests: the test alone stands on it.
    """

    ref: str
    platform: str
    provider: str
    release: str
    tests: bool = False


@dataclass(frozen=True, slots=True)
class Need:
    """A release that must exist in the package index before anything is baked.

    Attributes:
        name: the distribution in the index.
        version: the exact version.
        sdist: a source archive is needed.
        why: what it is needed for, for messages.
        alternatives: who else could provide it, for messages.
    """

    name: str
    version: str
    sdist: bool
    why: str
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the matrix.

    Attributes:
        id: names the targets, the log, the stage directory and the row of every table.
        axes: axis → value.
        args: build arguments that this cell adds to `Plan.args` or changes.
        images: the base images it needs, the one that compiles first.
        needs: the releases it needs from the package index.
        built_by: the id of the cell that builds its wheel; its own unless it shares a stable-ABI wheel.
        abi3: its wheel must be a stable-ABI one.
    """

    id: str
    axes: Mapping[str, str]
    args: Mapping[str, str]
    images: tuple[Image, ...] = ()
    needs: tuple[Need, ...] = ()
    built_by: str = ""
    abi3: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "built_by", self.built_by or self.id)

    @property
    def platform(self) -> str:
        """The platform in Docker's spelling."""
        return self.axes["platform"]

    def has(self, kind: Kind) -> bool:
        """Whether the cell has a target of ``kind``: all but the wheel that another cell builds."""
        return kind is not Kind.WHEEL or self.built_by == self.id


@dataclass(frozen=True, slots=True)
class Family:
    """All targets of one kind: one for each cell, of wheels one for each cell that builds one.

    Attributes:
        stage: the Dockerfile stage they build.
        exports: ``wheels``, ``materials`` and ``compiler-cache`` (files), ``image`` (into the engine) or ``nothing`` (the build is the result).
    """

    kind: Kind
    stage: str
    exports: str
    description: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What is sent to the engine of the project's folder.

    Attributes:
        folder: the source's folder in the build context; empty where nothing is sent.
        accepted: patterns of files that look like secrets and are none.
        expected_mb: MB (10⁶ bytes) that it may have before a bake warns.
        chosen: the recipe says what is left out.
    """

    folder: str = ""
    accepted: tuple[str, ...] = ()
    expected_mb: int = 0
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Cache:
    """The layer cache. Variable CACHE chooses the backend, CACHE_REF, CACHE_DIR and CACHE_BRANCH its place; with
    CACHE_READ_ONLY nothing is written.

    Attributes:
        backend: the backend of this plan.
        offered: the backends that variable CACHE may name.
        mode: ``min`` or ``max``.
        compression: empty for BuildKit's own; ``compression_level`` is None for that.
        timeout: what an import or export of ``gha`` may take, in Go's notation; empty for BuildKit's own.
        limit_mb: MB (10⁶ bytes) that ``gha`` keeps for the repository.
        expected_s: seconds that the longest cell takes; 0 where nobody said.
        bucket: attributes that name the bucket of ``s3``; empty for none.
    """

    backend: CacheBackend
    offered: tuple[CacheBackend, ...]
    ref: str
    mode: str
    ignore_error: bool = True
    compression: str = ""
    compression_level: int | None = None
    timeout: str = ""
    limit_mb: int = 0
    expected_s: float = 0
    bucket: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Naming:
    """How one wheel of a build is named.

    Attributes:
        clean: the project's own local version is removed.
        local: the local version label; empty for none of the recipe's.
        build_tag: the build tag; empty for the project's own.
        index: ``public``, ``private``, or empty where nobody said where it goes.
    """

    clean: bool = False
    local: Value = ()
    build_tag: Value = ()
    index: str = ""


@dataclass(frozen=True, slots=True)
class Audit:
    """What every wheel of the plan promises, beside what its cell says.

    Attributes:
        name: the normalised project name, empty when only the built wheel tells.
        version: the version, empty when only the built wheel tells.
        plat: the manylinux policy without the machine, ``auto`` for any.
        excludes: soname globs that must stay outside the wheel.
        repaired: auditwheel gave the wheel its platform tag.
        stripped: debug information was removed.
        namings: how the wheels of a build are named, the tested one first; each build gives one wheel for each.
        requires: what METADATA must require.
        abi3: the lowest Python that stable-ABI wheels serve; empty where there are none.
    """

    name: str
    version: str
    plat: str
    excludes: tuple[str, ...]
    repaired: bool
    stripped: bool = False
    namings: tuple[Naming, ...] = (Naming(),)
    requires: tuple[Value, ...] = ()
    abi3: str = ""


@dataclass(frozen=True, slots=True)
class Secret:
    """What steps are told in confidence. A plan knows where it is, and never what it is.

    Attributes:
        name: the id of its mount.
        env: the variable of bakery's environment that holds it; empty for none.
        file: the file that holds it, relative to the project or absolute; empty for none.
        command: the program that prints it, and its arguments; empty for none.
        phases: who is told.
        variable: the environment variable of the steps that are told; empty for the file /run/secrets/NAME.
    """

    name: str
    env: str
    file: str
    command: tuple[str, ...]
    phases: tuple[Phase, ...]
    variable: str

    @property
    def holder(self) -> str:
        """The variable of the bake file that names the file with it; empty where the environment holds it."""
        return "" if self.env else secret_variable(self.name)

    @property
    def wants(self) -> tuple[str, ...]:
        """What reading it asks of the machine, in the words of ``--allow``."""
        return (f"secret.command={self.name}",) if self.command else (f"fs.read={self.file}",) if self.file else ()

    @property
    def origin(self) -> str:
        """Where it comes from, in words."""
        if self.env:
            return f"environment variable {self.env}"
        return f"file {self.file}" if self.file else f"command {self.command[0]}"


@dataclass(frozen=True, slots=True)
class Ci:
    """What the workflow does.

    Attributes:
        branches: globs of branches whose pushes are baked.
        tags: globs of tags that are releases.
        runners: platform → label of the runner.
        max_jobs: jobs that the cells are packed into at most.
        timeout: minutes that a job may take.
        install: what pip installs as bakery.
        cache: ``gha`` or ``none``; empty where an estimate decides.
        free_disk: whether space is made first; None where the estimate decides.
        attest: whether provenance is attested.
        publish: the GitHub environment of trusted publishing; empty for none.
        publish_url: the upload address; empty for PyPI's.
        pages: whether there is a static index on GitHub Pages.
    """

    branches: tuple[str, ...]
    tags: tuple[str, ...]
    runners: Mapping[str, str]
    max_jobs: int
    timeout: int
    install: str
    cache: str
    free_disk: bool | None
    attest: bool
    publish: str
    publish_url: str
    pages: bool


@dataclass(frozen=True, slots=True)
class Cibuildwheel:
    """What cibuildwheel is told of a recipe, beside what the audit and the cells say.

    Attributes:
        frontend: ``build`` or ``uv``.
        package: the folder of the source in the project; empty where it is fetched.
        sdist: NAME==VERSION of the source archive; empty for other sources.
        git: address and reference of the repository; None for other sources.
        image: the recipe's base image; empty for none.
        system_packages: packages of the image's own manager, on Linux.
        requirements: packages beside those that the project lists.
        environment: system → variables of the build.
        before_all: system → the command that prepares its machine; empty for none.
        test_command: system → the command of the test; empty for none.
        load: every shared object is loaded before the imports.
        minimum_macos: the oldest macOS; empty for cibuildwheel's choice.
        toolkit: the recipe's CUDA, ``none`` for none.
        native: the recipe has a native step.
    """

    frontend: str = "build"
    package: str = "."
    sdist: str = ""
    git: tuple[str, str] | None = None
    image: Value = ()
    system_packages: tuple[str, ...] = ()
    requirements: tuple[Value, ...] = ()
    config_settings: tuple[tuple[str, Value], ...] = ()
    environment: Mapping[str, tuple[tuple[str, Value], ...]] = field(default_factory=dict)
    before_all: Mapping[str, str] = field(default_factory=dict)
    test_requirements: tuple[Value, ...] = ()
    test_imports: tuple[str, ...] = ()
    test_command: Mapping[str, Value] = field(default_factory=dict)
    test_files: tuple[str, ...] = ()
    load: bool = True
    minimum_macos: str = ""
    toolkit: str = "none"
    native: bool = False


@dataclass(frozen=True, slots=True)
class Override:
    """One override in bake's grammar, handed to buildx as it stands: ``pattern.key[+]=value``."""

    pattern: str
    key: str
    append: bool
    value: str

    def __str__(self) -> str:
        return f"{self.pattern}.{self.key}{'+' if self.append else ''}={self.value}"


@dataclass(frozen=True, slots=True)
class Target:
    """A bake target, multiplied out: ``wheel-cp312``."""

    name: str
    kind: Kind
    cell: Cell
    stage: str

    @property
    def images(self) -> tuple[Image, ...]:
        """The base images that it needs."""
        tests = Phase.TEST in PHASES[self.kind] or self.kind is Kind.MATERIALS
        return tuple(image for image in self.cell.images if tests or not image.tests)


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
    sent: Sent = Sent()
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
