"""What a toolkit is, and what the stages of all toolkits share.

A toolkit's stages start from stage ``base``, which brings a C++ compiler and the programs ``net``,
``find-python`` and ``install-packages``. They install the CUDA release of build argument CUDA_VERSION into
`HOME` and say so in the environment that build systems read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bakery.plan import Command, File, Ref, Script, Stage, Step, Value, literal
from bakery.providers import scripts

INDEX_NAME = "cuda-toolkit"
"""NVIDIA's metapackage: one version for each CUDA release, which pins the versions of all components."""

HOME = "/usr/local/cuda"
"""Where the toolkit lies in every image; a fixed path keeps compiler caches and wheels the same."""

STUBS = f"{HOME}/lib64/stubs"
"""The folder that holds only the driver's stub: for linking, and for tests on machines without a driver."""

PROGRAMS = "/usr/local/bin"
"""Where bakery's own programs lie in images."""

VERSION = Ref("CUDA_VERSION")
"""The CUDA release, as ``12.8.0``; the same Dockerfile text serves all of them."""

_WHEELS = "/tmp/cuda-wheels"
_COMMON = "cuda-programs"


@dataclass(frozen=True, slots=True)
class Toolkit:
    """Where a CUDA compiler and its libraries come from.

    Attributes:
        name: what a recipe calls it.
        description: one line for people.
        majors: the CUDA majors it provides.
        index_name: the distribution in the package index whose versions are the CUDA releases on offer;
            empty when the package index does not matter.
        stages: makes the stages; `stage` calls it.
    """

    name: str
    description: str
    majors: tuple[int, ...]
    index_name: str
    stages: Callable[[], tuple[Stage, ...]]

    def stage(self) -> tuple[Stage, ...]:
        """Return the Dockerfile stages; the last one is named ``cuda-MAJOR``.

        Stages that two toolkits share are equal, so that a file which has both writes them once.
        """
        return self.stages()


def program(name: str, *, path: str = "", comment: str = "") -> File:
    """Return the step that puts bakery's own program ``name`` into an image."""
    return File(path or f"{PROGRAMS}/{name}", scripts.text(name), mode="0755", comment=comment)


def common_stage() -> Stage:
    """Return the stage that all toolkits start from: the programs that make a tree of NVIDIA's wheels."""
    return Stage(
        name=_COMMON,
        base=literal("base"),
        comment="What makes a CUDA tree of NVIDIA's wheels.",
        steps=tuple(program(name) for name in ("pip-target", "cuda_tree.py", "libcuda_stub.py")),
    )


def cuda_stage(major: int, comment: str, steps: tuple[Step, ...]) -> Stage:
    """Return the stage that provides CUDA ``major``."""
    return Stage(name=f"cuda-{major}", base=literal(_COMMON), steps=steps, comment=comment)


def command(*words: str) -> Command:
    """Return a command without references."""
    return Command(tuple(map(literal, words)))


def release_requirement(*extras: str) -> Value:
    """Return the requirement that selects components of the CUDA release that is asked for."""
    return (f"{INDEX_NAME}[{','.join(extras)}]==", VERSION)


def install_tree(*extras: str) -> tuple[Command | Script, ...]:
    """Return the commands that install components of the CUDA release into `HOME`."""
    return (
        Command((literal("net"), literal("pip-target"), literal(_WHEELS), release_requirement(*extras))),
        run_python("cuda_tree.py", _WHEELS, HOME, "${CUDA_VERSION}"),
        command("rm", "-r", _WHEELS),
    )


def run_python(name: str, *arguments: str) -> Script:
    """Return the command that runs bakery's own Python program ``name`` with any Python of the base."""
    words = " ".join(f'"{argument}"' if "$" in argument else argument for argument in arguments)
    return Script(f'"$(find-python)" {PROGRAMS}/{name} {words}')


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


LOADER = Script(f"echo {HOME}/lib64 > /etc/ld.so.conf.d/cuda.conf && ldconfig")
"""Lets programs that a build runs, and auditwheel, find the runtime library; the stub stays out of it."""
