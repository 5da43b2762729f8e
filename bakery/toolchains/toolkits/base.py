"""What a toolkit is, and what the stages of all toolkits share.

A toolkit's stages start from stage ``base``, which brings a C++ compiler and the programs ``net``,
``find-python`` and ``install-packages``. They install the CUDA release of build argument CUDA_VERSION into
`HOME` and say so in the environment that build systems read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bakery.plan.dockerfile import Arg, Command, Env, Run, Script, Stage, Step
from bakery.plan.values import Ref, Value, literal
from bakery.toolchains import components, pip_steps, program_mounts
from bakery.toolchains.facts import cuda_releases, suites
from bakery.toolchains.pip_steps import CERTIFICATES, NETWORK

INDEX_NAME = components.METAPACKAGE
"""NVIDIA's metapackage: one version for each CUDA release, which pins the versions of all components."""

HOME = "/usr/local/cuda"
"""Where the toolkit lies in every image; a fixed path keeps compiler caches and wheels the same."""

STUBS = f"{HOME}/lib64/stubs"
"""The folder that holds only the driver's stub: for linking, and for tests on machines without a driver."""

HOST = f"{HOME}/host"
"""The folder with the gcc that nvcc of this release takes, under all the names that builds call it by."""

VERSION = Ref("CUDA_VERSION")
"""The CUDA release, as ``12.8.0``; the same Dockerfile text serves all of them."""

_WHEELS = "/tmp/cuda-wheels"
_OF_MAJOR = re.compile(r"cuda-([0-9]+)(-requirements)?")


@dataclass(frozen=True, slots=True)
class Toolkit:
    """Where a CUDA compiler and its libraries come from.

    Attributes:
        name: what a recipe calls it.
        description: one line for people.
        majors: the CUDA majors it provides.
        preferred: those of them for which ``toolkit = "cuda"`` means this one; no other toolkit has the same.
        instead: those for which it means this one where nothing but nvcc will do.
        nvcc: its compiler is nvcc.
        releases: the only releases on offer; empty for whatever the package index has.
        index_name: the distribution in the package index whose versions are the CUDA releases on offer;
            empty when the package index does not matter.
        stages: makes the stages; `stage` calls it.
    """

    name: str
    description: str
    majors: tuple[int, ...]
    index_name: str
    stages: Callable[[], tuple[Stage, ...]]
    preferred: tuple[int, ...] = ()
    instead: tuple[int, ...] = ()
    nvcc: bool = True
    releases: tuple[str, ...] = ()

    def stage(self, component_names: Sequence[str] = ()) -> tuple[Stage, ...]:
        """Return the Dockerfile stages; those that a release is chosen from are named ``cuda-MAJOR``.

        Stages that two toolkits share are equal, so that a file which has both writes them once.

        Args:
            component_names: the components that the recipe names.
        """
        stages = []
        for stage in self.stages():
            match = _OF_MAJOR.fullmatch(stage.name)
            if match is None:
                stages.append(stage)
            elif int(match[1]) in self.majors:
                component_steps = _component_requirements if match[2] else _component_steps
                stages.append(replace(stage, steps=(*stage.steps, *component_steps(component_names, int(match[1])))))
        return tuple(stages)

    def of_choice(self, *, nvcc: bool) -> Toolkit:
        """Return this toolkit for the majors alone for which ``toolkit = "cuda"`` means it.

        Args:
            nvcc: nothing but nvcc will do.
        """
        if not nvcc:
            return replace(self, majors=self.preferred)
        return replace(self, majors=(*self.preferred, *self.instead) if self.nvcc else ())


def cuda_stage(major: int, comment: str, steps: tuple[Step, ...]) -> Stage:
    """Return the stage that provides CUDA ``major``."""
    return Stage(name=f"cuda-{major}", base=literal("base"), steps=steps, comment=comment)


def command(*words: str) -> Command:
    """Return a command without references."""
    return Command(tuple(map(literal, words)))


def requirements_stage(name: str, steps: Sequence[Step], base: str = "base") -> Stage:
    """Return the stage that finds out which wheels the stage ``name`` installs."""
    return Stage(f"{name}-requirements", literal(base), (Arg(VERSION.name), *steps))


def resolve_tree(place: str, *extras: str) -> Run:
    """Return the step that resolves components of the CUDA release, by the metapackage's names, to wheels."""
    return _resolved(place, (components.of_release(extras),))


def _resolved(place: str, requirements: Sequence[Value], *before: Script) -> Run:
    return pip_steps.resolve(place, requirements, *before, options=("--only-binary=:all:",))


def install_tree(place: str, without: Sequence[str] = ()) -> tuple[Command | Script, ...]:
    """Return the commands that install the wheels of a place into `HOME`.

    Args:
        without: globs of files that are left out.
    """
    left_out = [word for pattern in without for word in ("--without", f"'{pattern}'")]
    return (
        install_wheels(place, _WHEELS),
        run_python("cuda_tree.py", _WHEELS, HOME, "${CUDA_VERSION}", *left_out),
        command("rm", "-r", _WHEELS),
    )


def install_wheels(place: str, folder: str) -> Command:
    """Return the command that unpacks the wheels of a place into a folder."""
    return pip_steps.install(place, "", "--no-compile", "--progress-bar=off", f"--target={folder}")


def _component_place(major: int) -> str:
    return f"cuda-{major}-components"


def _component_requirements(component_names: Sequence[str], major: int) -> tuple[Step, ...]:
    """Return the step that resolves the components a recipe names; none where the major lacks one."""
    if not component_names or components.lacking(component_names, major):
        return ()
    place = _component_place(major)
    file = f"/tmp/{place}.txt"
    tied = components.tied(component_names, major, file)
    listed = (literal("-r"), literal(file)) if tied else ()
    return (_resolved(place, (*components.requirements(component_names, major), *listed), *tied),)


def _component_steps(component_names: Sequence[str], major: int) -> tuple[Step, ...]:
    """Return the step that adds the components a recipe names: in a layer of their own, above what all share."""
    if not component_names:
        return ()
    missing = components.lacking(component_names, major)
    if missing:
        # No cell of the recipe is of this major, but a file can be built with any release.
        return (Run((Script(f"echo 'bakery: {missing}' >&2; exit 1"),), network=False),)
    install = (*install_tree(_component_place(major)), LOADER)
    mounts = (*pip_steps.resolved(f"cuda-{major}-requirements", _component_place(major)), *NETWORK)
    return (Run(install, mounts, comment=f"Components: {', '.join(component_names)}."),)


def host_compiler() -> Run:
    """Return the step that gives nvcc in `HOME` a host compiler that its release takes, in `HOST`.

    The table of releases stands in the command: whatever CUDA_VERSION a file is built with, its own row is used.
    """
    table = [f"{row.version}:{row.min_gcc}:{row.max_gcc}" for row in cuda_releases()]
    packages = [f"{row.name}={','.join(map(str, row.gccs))}" for row in suites()]
    return Run(
        (run_python("glibc_headers.py", HOME), command("net", "host-compiler", HOME, *table, *packages)),
        CERTIFICATES,
        comment="The host compiler: what nvcc takes (release:oldest:newest gcc), and where older ones are.",
    )


def run_python(name: str, *arguments: str) -> Script:
    """Return the command that runs bakery's own Python program ``name`` with any Python of the base."""
    words = " ".join(f'"{argument}"' if "$" in argument else argument for argument in arguments)
    return Script(f'"$(find-python)" {program_mounts.path(name)} {words}')


def environment(compiler: str) -> tuple[tuple[str, Value], ...]:
    """Return the environment in which build systems find the toolkit; ``compiler`` compiles CUDA."""
    return (
        ("CUDA_HOME", literal(HOME)),
        ("CUDA_PATH", literal(HOME)),
        ("CUDAToolkit_ROOT", literal(HOME)),
        ("CUDACXX", literal(f"{HOME}/bin/{compiler}")),
        ("LIBRARY_PATH", literal(f"{HOME}/lib64:{STUBS}")),
        ("PATH", (f"{HOME}/bin:", Ref("PATH"))),
    )


def nvcc_environment() -> Env:
    """Return the environment of a toolkit with nvcc, whose host compiler is the one in `HOST` everywhere.

    `HOST` stands first on PATH, so that C++ code and CUDA code of a project are compiled by the same gcc whatever
    calls it, ccache too. nvcc and CMake are told by an absolute path: ccache takes names for what they are not.
    NVCC_CCBIN is for a recipe that has flags of its own: nvcc of CUDA 11.8 and 12.4 does not read it.
    """
    *variables, (_, path) = environment("nvcc")
    host = {name: literal(f"{HOST}/g++") for name in ("CUDAHOSTCXX", "NVCC_CCBIN")}
    flags = ("NVCC_PREPEND_FLAGS", literal(f"-ccbin {HOST}/g++"))
    return Env((*variables, *host.items(), flags, ("PATH", (f"{HOST}:", *path))))


LOADER = Script(f"echo {HOME}/lib64 > /etc/ld.so.conf.d/cuda.conf && ldconfig")
"""Lets programs that a build runs, and auditwheel, find the runtime library; the stub stays out of it."""
