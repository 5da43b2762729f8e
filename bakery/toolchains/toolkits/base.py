"""The base of toolkits, and the steps that they share.

The stages of a toolkit start from stage ``base``, which has a C++ compiler. They install the release CUDA_VERSION into
`HOME` and set the environment variables that build systems read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType

from bakery.plan.dockerfile import Arg, Command, Env, Role, Run, Script, Stage, Step
from bakery.plan.values import Ref, Value, literal
from bakery.toolchains import components, pip_steps, program_mounts
from bakery.toolchains.facts import cuda_releases, suites
from bakery.toolchains.pip_steps import CERTIFICATES, NET, NETWORK

HOME = "/usr/local/cuda"
"""The folder of the toolkit in every image; a fixed path keeps compiler caches and wheels the same."""

STUBS = f"{HOME}/lib64/stubs"
"""The folder with only the driver's stub: for linking, and for tests without a driver."""

HOST = f"{HOME}/host"
"""The folder with a gcc that nvcc of this release supports, under all names that builds use."""

VERSION = Ref("CUDA_VERSION")
"""The CUDA release, as ``12.8.0``; the same Dockerfile text serves all of them."""

_WHEELS = "/tmp/cuda-wheels"
_OF_MAJOR = re.compile(r"cuda-([0-9]+)(-requirements)?")


@dataclass(frozen=True, slots=True)
class Toolkit:
    """The source of a CUDA compiler and its libraries.

    Attributes:
        name: its name in recipes.
        majors: the CUDA majors that it provides.
        preferred: the majors for which ``toolkit = "cuda"`` selects it; no other toolkit has the same.
        instead: the majors for which it is selected if nvcc is required.
        nvcc: its compiler is nvcc.
        releases: the only releases that it has; empty for all in the package index.
        index_name: the distribution in the package index whose versions are its CUDA releases; empty for none.
        stages: makes the stages; `stage` calls it. By default, there are none.
    """

    name: str
    description: str
    majors: tuple[int, ...] = ()
    index_name: str = ""
    stages: Callable[[], tuple[Stage, ...]] = tuple
    preferred: tuple[int, ...] = ()
    instead: tuple[int, ...] = ()
    nvcc: bool = True
    releases: tuple[str, ...] = ()

    def stage(self, components_of: Mapping[str, Sequence[str]] = MappingProxyType({})) -> tuple[Stage, ...]:
        """Return the stages; those of a CUDA major are named ``cuda-MAJOR``. Stages that toolkits share are equal.

        ``components_of`` has the components that each name asks for. Each gets a layer, in this order.
        """
        stages = []
        for stage in self.stages():
            match = _OF_MAJOR.fullmatch(stage.name)
            if match is None:
                stages.append(stage)
            elif int(match[1]) in self.majors:
                component_steps = _component_requirements if match[2] else _component_steps
                more = (component_steps(whose, names, int(match[1])) for whose, names in components_of.items())
                stages.append(replace(stage, steps=(*stage.steps, *chain.from_iterable(more))))
        return tuple(stages)

    def of_choice(self, *, nvcc: bool) -> Toolkit:
        """Return this toolkit with the majors for which ``toolkit = "cuda"`` selects it, if ``nvcc`` is required."""
        if not nvcc:
            return replace(self, majors=self.preferred)
        return replace(self, majors=(*self.preferred, *self.instead) if self.nvcc else ())


def command(*words: str) -> Command:
    """Return a command without references."""
    return Command(tuple(map(literal, words)))


def requirements_stage(name: str, steps: Sequence[Step], base: str = "base", comment: str = "") -> Stage:
    """Return the stage that resolves the wheels of stage ``name``."""
    stage = cuda_stage(f"{name}-requirements", base, (Arg(VERSION.name), *steps), comment)
    return replace(stage, says="resolve CUDA")


def cuda_stage(name: str, base: str, steps: Sequence[Step], comment: str = "") -> Stage:
    """Return a stage of a toolkit."""
    return Stage(name, literal(base), tuple(steps), comment, Role.CUDA, "toolkit CUDA")


def resolve_tree(place: str, *extras: str) -> Run:
    """Return the step that resolves extras of the metapackage to wheels."""
    return _resolved(place, (components.of_release(extras),))


def _resolved(place: str, requirements: Sequence[Value], *before: Script) -> Run:
    return pip_steps.resolve(place, requirements, *before, options=("--only-binary=:all:",))


def install_tree(place: str, without: Sequence[str] = ()) -> tuple[Command | Script, ...]:
    """Return the commands that install the wheels of a place into `HOME`, except the files that match ``without``."""
    excluded = [word for pattern in without for word in ("--without", f"'{pattern}'")]
    return (
        pip_steps.unpack(place, _WHEELS),
        run_python("cuda_tree.py", _WHEELS, HOME, "${CUDA_VERSION}", *excluded),
        command("rm", "-r", _WHEELS),
    )


def _component_place(whose: str, major: int) -> str:
    return f"cuda-{major}-{whose}"


def _component_requirements(whose: str, component_names: Sequence[str], major: int) -> tuple[Step, ...]:
    """Return the step that resolves the components; none if the major lacks one."""
    if not component_names or components.lacking(component_names, major):
        return ()
    place = _component_place(whose, major)
    file = f"/tmp/{place}.txt"
    tied = components.tied(component_names, major, file)
    listed = (literal("-r"), literal(file)) if tied else ()
    return (_resolved(place, (*components.requirements(component_names, major), *listed), *tied),)


def _component_steps(whose: str, component_names: Sequence[str], major: int) -> tuple[Step, ...]:
    """Return the step that adds the components in their own layer, above the layers that more recipes share."""
    if not component_names:
        return ()
    missing = components.lacking(component_names, major)
    if missing:
        # No cell of the recipe has this major, but a bake file can be built with any release.
        return (Run((Script(f"echo 'bakery: {missing}' >&2; exit 1"),), network=False),)
    place = _component_place(whose, major)
    install = (*install_tree(place), LOADER)
    mounts = (*pip_steps.resolved(f"cuda-{major}-requirements", place), *NETWORK)
    return (Run(install, mounts, Role.CUDA, comment=f"Components: {', '.join(component_names)}."),)


def host_compiler() -> Run:
    """Return the step that installs a host compiler that nvcc supports into `HOST`.

    The command contains the table of all releases, because a bake file can be built with any CUDA_VERSION.
    """
    table = [f"{row.version}:{row.min_gcc}:{row.max_gcc}" for row in cuda_releases()]
    packages = [f"{row.name}={','.join(map(str, row.gccs))}" for row in suites()]
    return Run(
        (run_python("glibc_headers.py", HOME), command(NET, "host-compiler", HOME, *table, *packages)),
        CERTIFICATES,
        Role.CUDA,
        comment="The host compiler: what nvcc takes (release:oldest:newest gcc), and where older ones are.",
    )


def run_python(name: str, *arguments: str) -> Script:
    """Return the command that runs Bakery's Python program ``name`` with any Python of the base."""
    words = " ".join(f'"{argument}"' if "$" in argument else argument for argument in arguments)
    return Script(f'"$({program_mounts.path("find-python")})" {program_mounts.path(name)} {words}')


def environment(compiler: str) -> tuple[tuple[str, Value], ...]:
    """Return the environment variables that build systems read; ``compiler`` compiles CUDA."""
    return (
        ("CUDA_HOME", literal(HOME)),
        ("CUDA_PATH", literal(HOME)),
        ("CUDAToolkit_ROOT", literal(HOME)),
        ("CUDACXX", literal(f"{HOME}/bin/{compiler}")),
        ("CPATH", literal(f"{HOME}/include")),
        ("LIBRARY_PATH", literal(f"{HOME}/lib64:{STUBS}")),
        ("PATH", (f"{HOME}/bin:", Ref("PATH"))),
    )


def nvcc_environment() -> Env:
    """Return the environment of a toolkit with nvcc, whose host compiler is in `HOST`.

    `HOST` is first on PATH, so the same gcc compiles the C++ and CUDA code of a project, also through ccache. nvcc and
    CMake get an absolute path, because ccache misreads bare names. NVCC_CCBIN is for recipes that replace the
    flags; nvcc of CUDA 11.8 and 12.4 does not read it.
    """
    *variables, (_, path) = environment("nvcc")
    host = {name: literal(f"{HOST}/g++") for name in ("CUDAHOSTCXX", "NVCC_CCBIN")}
    flags = ("NVCC_PREPEND_FLAGS", literal(f"-ccbin {HOST}/g++"))
    return Env((*variables, *host.items(), flags, ("PATH", (f"{HOST}:", *path))))


LOADER = Script(f"echo {HOME}/lib64 > /etc/ld.so.conf.d/cuda.conf && ldconfig")
"""Makes the runtime library, without the stub, visible to auditwheel and to programs that a build runs."""
