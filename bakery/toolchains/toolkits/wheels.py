"""Toolkit ``wheels``: CUDA 13 from NVIDIA's own wheels, nvcc included."""

from __future__ import annotations

from bakery.plan.dockerfile import Arg, Role, Run, Stage, Step
from bakery.toolchains import components, pip_steps
from bakery.toolchains.pip_steps import NETWORK
from bakery.toolchains.toolkits import base

MAJOR = 13

_NAME = f"cuda-{MAJOR}"


def _stages() -> tuple[Stage, ...]:
    wheels = base.resolve_tree(_NAME, "nvcc", "cudart", "cccl", "crt", "nvvm")
    requirements = base.requirements_stage(_NAME, (wheels,), comment="CUDA 13: nvcc, from NVIDIA's wheels.")
    install = Run(
        (
            *base.install_tree(_NAME),
            base.run_python("libcuda_stub.py", base.HOME, "cc"),
            base.LOADER,
        ),
        (*pip_steps.resolved(requirements.name, _NAME), *NETWORK),
        Role.CUDA,
    )
    steps: tuple[Step, ...] = (
        Arg(base.VERSION.name),
        install,
        base.host_compiler(),
        base.nvcc_environment(),
    )
    return (requirements, base.cuda_stage(_NAME, "base", steps))


PROVIDER = base.Toolkit(
    name="wheels",
    description="CUDA 13: nvcc from NVIDIA's wheels in the package index",
    majors=(MAJOR,),
    preferred=(MAJOR,),
    index_name=components.METAPACKAGE,
    stages=_stages,
)
