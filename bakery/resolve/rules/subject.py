"""The subjects of rules: one for all cells of a plan that are the same to every rule.

A subject comes from the facts of the plan and the arguments of a cell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bakery.core.cell_ids import MACHINES
from bakery.core.image_names import ImageName, parse
from bakery.core.names import DERIVED, TESTED_TORCH, axis_variable, with_derived
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.plan.values import Value, names_in
from bakery.resolve.naming import always_required
from bakery.resolve.rules.cache_use import CacheUse, Host, cache_use
from bakery.resolve.rules.project import Project
from bakery.toolchains.facts import libc_floor, manylinux_images, suites
from bakery.toolchains.facts.rows import ManylinuxImage, Suite
from wheel_audit.requirements import parse_requirement

ARCH_LISTS = ("TORCH_CUDA_ARCH_LIST", "CUDAARCHS", "CMAKE_CUDA_ARCHITECTURES")
"""Variables that list architectures, by their meaning to torch and CMake."""

_DEFINE = re.compile(r"-D([A-Za-z0-9_.-]+)(?::[A-Z]+)?=(.*)")

_READ_BY_RULES = ("CUDA_VERSION", "TORCH_VERSION", "JAX_VERSION", TESTED_TORCH)
"""Arguments that rules read by name."""


@dataclass(frozen=True)
class RuleSubject:
    """Cells that are the same to every rule.

    Attributes:
        plan: the plan, for what is the same in all cells.
        cells: their ids.
        python: as ``3.13t``.
        image: the base image; None if the plan has none.
        suite: the Debian release of the base; empty for other bases.
        plat: the required manylinux policy, ``auto`` for any; empty if no wheel is repaired.
        environment: the environment of the compile step and, with precedence, of the native step.
        settings: options of the build backend.
        required: the Python packages that the recipe requires, as it writes them.
        framework_index: the address of the framework's own index; empty for none.
        needs: (name, version) of the releases that come from the package index.
        toolkit: the program that compiles CUDA in the toolkit's stage; empty for no toolkit.
        arguments: all build arguments, and the values derived from them.
        public_names: the local version of each naming for a public index; an empty text for none.
        test_command: the test command on the cell's system; empty for none.
        unnamed_axes: the axes in which other cells differ whose wheels have the same name.
        pythons: those of the platform's cells that build wheels of their own.
        project: the facts about the source; those of a source without faults if rules about it do not apply.
    """

    plan: Plan
    cells: tuple[str, ...]
    python: str
    platform: str
    image: ImageName | None
    suite: str
    plat: str
    environment: Mapping[str, str]
    settings: Mapping[str, str]
    required: tuple[str, ...]
    needs: tuple[tuple[str, str], ...]
    toolkit: str
    arguments: Mapping[str, str]
    cache: CacheUse
    public_names: tuple[str, ...] = ()
    host: Host = field(default_factory=Host)
    test_command: str = ""
    unnamed_axes: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    project: Project = field(default_factory=Project)
    framework_index: str = ""

    @cached_property
    def cuda(self) -> str:
        """The CUDA release of the image, or else CUDA_VERSION; empty for none."""
        return (self.image and self.image.cuda) or self.arguments.get("CUDA_VERSION", "")

    @cached_property
    def compiler(self) -> str:
        """The compiler of CUDA code, ``nvcc`` or ``clang``; empty if the plan has no sign of CUDA code."""
        if self.toolkit:
            return "clang" if self.toolkit.startswith("clang") else "nvcc"
        return "nvcc" if self.cuda and ((self.image and self.image.cuda) or self.arch_lists) else ""

    @cached_property
    def cuda_major(self) -> str:
        """The CUDA major that compiles; empty if the plan has no sign of CUDA code."""
        return self.cuda.partition(".")[0] if self.compiler else ""

    @cached_property
    def arch_lists(self) -> tuple[tuple[str, str], ...]:
        """(Where, text) of every list of architectures that is not empty."""
        lists = {name: self.environment.get(name, "") for name in ARCH_LISTS}
        lists |= {key: text for key, text in self.settings.items() if key.endswith(ARCH_LISTS)}
        lists |= {f"CMAKE_ARGS: {key}": text for key, text in self.cmake_defines.items() if key in ARCH_LISTS}
        return tuple((where, text) for where, text in lists.items() if text)

    @cached_property
    def cmake_defines(self) -> dict[str, str]:
        """CMake variable → its value, as CMAKE_ARGS of the environment gives it."""
        try:
            words = shlex.split(self.environment.get("CMAKE_ARGS", ""))
        except ValueError:
            return {}
        return {match[1]: match[2] for word in words if (match := _DEFINE.fullmatch(word))}

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """The Python packages that the recipe requires for the cell."""
        return self._applying(self.required)

    @cached_property
    def test_requirements(self) -> tuple[Requirement, ...]:
        """The Python packages of the cell's test."""
        return self._applying(_text(item, self.arguments) for item in self.plan.facts.test_requirements)

    @cached_property
    def always_required(self) -> frozenset[str]:
        """The distributions whose requirements in the wheel replace the project's own ones."""
        return frozenset(always_required(_text(item, self.arguments) for item in self.plan.audit.requires))

    def _applying(self, texts: Iterable[str]) -> tuple[Requirement, ...]:
        return tuple(item for item in map(_requirement, texts) if item and self.applies(item))

    def applies(self, requirement: Requirement) -> bool:
        """Whether a requirement's marker holds for the cell; false if it depends on what no plan knows."""
        marker = requirement.marker
        if marker is None:
            return True
        try:
            # Of the Python, the last part is unknown, too.
            return all(marker.evaluate(_marker_environment(self.python, self.platform, part)) for part in ("0", "99"))
        except (ValueError, UndefinedEnvironmentName, RecursionError):
            return False

    @cached_property
    def torch(self) -> str:
        """The release of torch, with its local version; empty if none is pinned."""
        return self._pinned("torch")

    @cached_property
    def jax(self) -> str:
        """The release of JAX; empty if none is pinned."""
        return self._pinned("jax")

    def _pinned(self, distribution: str) -> str:
        """Return the release of a framework: the pin in the recipe, or else its variable."""
        pins = [
            specifier.version
            for item in self.requirements
            if canonicalize_name(item.name) == distribution
            for specifier in item.specifier
            if specifier.operator == "=="
        ]
        return next(iter(pins), self.arguments.get(axis_variable(distribution), "")).removesuffix(".*")

    @cached_property
    def debian(self) -> Suite | None:
        """The facts about the base's Debian release; None for other bases."""
        return next((row for row in suites() if row.name == self.suite), None)

    @cached_property
    def glibc(self) -> str:
        """The glibc release of the base; empty if unknown."""
        name, release = self.libc
        return release if name == "glibc" else ""

    @cached_property
    def libc(self) -> tuple[str, str]:
        """The C library of the base (``glibc`` or ``musl``) and its release; empty if unknown."""
        if self.debian:
            return "glibc", self.debian.glibc
        return libc_floor(self.image.family) if self.image else ("", "")

    @cached_property
    def manylinux(self) -> ManylinuxImage | None:
        """The facts about the base's family of manylinux images; None for other bases."""
        return next((row for row in manylinux_images() if self.image and row.name == self.image.family), None)


_requirement = cache(parse_requirement)

_SYSTEMS = {
    "linux": ("posix", "linux", "Linux"),
    "macos": ("posix", "darwin", "Darwin"),
    "windows": ("nt", "win32", "Windows"),
}
"""System of a platform → os_name, sys_platform and platform_system of Python there."""


@cache
def _marker_environment(python: str, platform: str, last: str) -> dict[str, str]:
    """Return what markers of requirements see in a cell; ``last`` is the last part of the Python's version."""
    system, minor = platform.partition("/")[0], python.removesuffix("t")
    os_name, sys_platform, platform_system = _SYSTEMS[system]
    machine = MACHINES[platform]
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{minor}.{last}",
        "os_name": os_name,
        # Windows writes it in capitals.
        "platform_machine": machine.upper() if system == "windows" else machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": platform_system,
        "platform_version": "",
        "python_full_version": f"{minor}.{last}",
        "python_version": minor,
        "sys_platform": sys_platform,
        "extra": "",
    }


def subjects(plan: Plan, host: Host | None = None, project: Project | None = None) -> Iterator[RuleSubject]:
    """Yield the subjects of a plan, usually a few for many cells.

    Without ``host`` and ``project``, no rule about the machine and the source folder applies.
    """
    readers: dict[str, _Reader] = {}
    unnamed = _unnamed_axes(plan)
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in (*plan.cells, *plan.cibuildwheel_cells):
        if cell.own not in readers:
            readers[cell.own] = _Reader(plan.of(cell), _like(cell, plan), unnamed, host or Host(), project or Project())
        reader = readers[cell.own]
        groups.setdefault((cell.own, *reader.key(cell)), []).append(cell)
    yield from (readers[cells[0].own].subject(cells) for cells in groups.values())


class _Reader:
    """Reads subjects from a plan; values that no cell changes are read once."""

    def __init__(
        self,
        plan: Plan,
        alike: Sequence[Cell],
        unnamed: Mapping[str, tuple[str, ...]],
        host: Host,
        project: Project,
    ) -> None:
        self._plan, self._host, self._project = plan, host, project
        self._cache = cache_use(plan)
        self._facts = facts = plan.facts
        pairs = (*facts.environment, *facts.config_settings)
        values = (*(value for _, value in pairs), *facts.requirements, facts.framework_index, *_names(plan))
        refs = {DERIVED[name][0] if name in DERIVED else name for name in names_in(values)}
        self._key_args = tuple(sorted({*refs, *facts.declared, *_READ_BY_RULES}))
        self._unnamed = unnamed
        builders = [cell for cell in alike if cell.built_by == cell.id]
        self._pythons = {
            platform: tuple(dict.fromkeys(cell.axes["python"] for cell in builders if cell.platform == platform))
            for platform in {cell.platform for cell in builders}
        }

    def key(self, cell: Cell) -> tuple[object, ...]:
        """Return the same key for cells that are the same to every rule."""
        args = cell.args
        own = (cell.axes["python"], cell.platform, cell.images, cell.needs, self._unnamed.get(cell.id))
        return (*own, *map(args.get, self._key_args))

    def subject(self, cells: list[Cell]) -> RuleSubject:
        """Return the subject of cells that have the same key."""
        cell = cells[0]
        arguments = self._plan.args_of(cell)
        # A torch release that only tests a wheel must also have one for the cell's Python and CUDA.
        tested = {axis_variable("torch"): arguments[TESTED_TORCH]} if TESTED_TORCH in arguments else {}
        arguments = with_derived(arguments | tested)
        audit, facts = self._plan.audit, self._facts
        image = cell.images[0] if cell.images else None
        declared = {name: arguments[name] for name in facts.declared if name in arguments}
        environment = {name: _text(value, arguments) for name, value in facts.environment}
        return RuleSubject(
            plan=self._plan,
            cells=tuple(item.id for item in cells),
            python=cell.axes["python"],
            platform=cell.platform,
            image=parse(image.ref) if image else None,
            suite=image.suite if image else "",
            plat=audit.plat if audit.repaired else "",
            environment={**declared, **environment},
            settings={name: _text(value, arguments) for name, value in facts.config_settings},
            required=tuple(_text(word, arguments) for word in facts.requirements),
            needs=tuple((need.name, need.version) for need in cell.needs),
            toolkit=facts.compilers.get(
                arguments.get("CUDA_VERSION", "").partition(".")[0], facts.compilers.get("", "")
            ),
            arguments=arguments,
            public_names=tuple(_text(naming.local, arguments) for naming in audit.namings if naming.index == "public"),
            host=self._host,
            cache=self._cache,
            test_command=_text(
                self._plan.cibuildwheel.test_command.get(cell.platform.partition("/")[0], ()), arguments
            ),
            unnamed_axes=self._unnamed.get(cell.id, ()),
            pythons=self._pythons.get(cell.platform, ()),
            project=self._project,
            framework_index=_text(facts.framework_index, arguments),
        )


def _like(cell: Cell, plan: Plan) -> list[Cell]:
    """Return the cells whose build backends get the same options as that of a cell."""
    options = plan.of(cell).facts.config_settings
    same = {own for own, settings in plan.own.items() if settings.facts.config_settings == options}
    same |= {""} if plan.facts.config_settings == options else set()
    return [other for other in (*plan.cells, *plan.cibuildwheel_cells) if other.own in same]


def _names(plan: Plan) -> tuple[Value, ...]:
    """Return the texts that name the wheels of cells with one naming."""
    return tuple(value for item in plan.audit.namings for value in item.parts)


def _unnamed_axes(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return cell → the axes in which cells differ whose wheels have its wheel's name; only those that have such cells."""
    groups: dict[tuple[object, ...], list[Cell]] = {}
    names_of = {own: _names(replace(plan, audit=settings.audit)) for own, settings in plan.own.items()}
    names_of[""] = _names(plan)
    for cell in plan.cells:
        if cell.built_by == cell.id:
            names = names_of[cell.own]
            values = plan.values_of_wheel(cell) if names_in(names) else {}
            texts = (_text(name, values) for name in names)
            groups.setdefault((cell.axes["python"], cell.platform, cell.is_musl, *texts), []).append(cell)
    result: dict[str, tuple[str, ...]] = {}
    for cells in groups.values():
        merged = {axis for build in plan.merged for axis in build.axes}
        axes = tuple(
            axis for axis in cells[0].axes if axis not in merged and len({cell.axes.get(axis) for cell in cells}) > 1
        )
        result |= {cell.id: axes for cell in cells if axes}
    return result


def _text(value: Value, arguments: Mapping[str, str]) -> str:
    # Only the engine knows variables that are no build arguments (PATH, TARGETARCH).
    return "".join(part if isinstance(part, str) else arguments.get(part.name, "") for part in value)
