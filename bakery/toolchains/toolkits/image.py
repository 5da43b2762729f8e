"""Toolkit ``image``: the CUDA of the base image, such as nvidia/cuda or manylinux_cuda."""

from __future__ import annotations

from bakery.plan.dockerfile import Arg, Command, Role, Run, Script, Stage
from bakery.plan.values import Ref, literal
from bakery.toolchains import program_mounts
from bakery.toolchains.toolkits import base

LAST = "toolkit"
"""The stage that builders start from, since this is the only toolkit of a recipe."""


def own_cuda() -> tuple[Command | Script, ...]:
    """Return the commands that check the CUDA in `base.HOME`, and add what its packages lack."""
    return (
        Command((literal(program_mounts.path("own-cuda")), literal(base.HOME), (Ref(base.VERSION.name),))),
        # NVIDIA's stub is not in all images, and not always where build systems look.
        base.run_python("libcuda_stub.py", base.HOME, "cc"),
        base.LOADER,
    )


def _stages() -> tuple[Stage, ...]:
    steps = (
        Arg(base.VERSION.name),
        Run(own_cuda(), (), Role.CUDA),
        base.host_compiler(),
        base.nvcc_environment(),
    )
    return (base.cuda_stage(LAST, "base", steps, "The CUDA of the base image."),)


PROVIDER = base.Toolkit(
    name="image",
    description="the CUDA that the base image brings, with nvcc: nvidia/cuda in its devel tags, manylinux_cuda",
    stages=_stages,
)
