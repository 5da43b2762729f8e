"""Toolkit ``debian``: nvcc of CUDA 11.8 and 12.4 from Debian's non-free component, the rest from NVIDIA's wheels.

NVIDIA's wheels of CUDA 11 and 12 contain everything except the compiler. Each Debian release has a package with the
compiler of one CUDA release. It is unpacked, not installed, so it works on any Debian base, without its dependencies
(900 MB of libraries, which the wheels also contain).
"""

from __future__ import annotations

from bakery.plan.dockerfile import Arg, Command, Role, Run, Stage, Step
from bakery.plan.values import literal
from bakery.toolchains import components, pip_steps
from bakery.toolchains.pip_steps import CERTIFICATES, NET, NETWORK
from bakery.toolchains.toolkits import base

RELEASES = {"11.8.0": "bookworm", "12.4.1": "trixie"}
"""CUDA release → the Debian release whose nvidia-cuda-toolkit it is (apt-cache policy, read 2026-11-21)."""

MAJORS = (11, 12)

_TREE = "cuda-debian"


def _stages() -> tuple[Stage, ...]:
    rows = [f"{release}:{suite}" for release, suite in RELEASES.items()]
    about = "CUDA 11.8 and 12.4: nvcc of Debian, the rest of NVIDIA's wheels."
    resolve = base.resolve_tree(_TREE, "nvcc", "cudart", "cccl", "curand")
    requirements = base.requirements_stage(_TREE, (resolve,), comment=about)
    mounts = (*pip_steps.resolved(requirements.name, _TREE), *NETWORK)
    wheels = Run(base.install_tree(_TREE, without=("libcurand*",)), mounts, Role.CUDA)
    compiler = Run(
        (
            Command((*map(literal, (NET, "debian-nvcc", base.HOME)), (base.VERSION,), *map(literal, rows))),
            base.run_python("libcuda_stub.py", base.HOME, "cc"),
            base.LOADER,
        ),
        CERTIFICATES,
        Role.CUDA,
    )
    steps: tuple[Step, ...] = (
        Arg(base.VERSION.name),
        wheels,
        compiler,
        base.host_compiler(),
    )
    tree = base.cuda_stage(_TREE, "base", steps)
    requirement_stages = (base.requirements_stage(f"cuda-{major}", (), requirements.name) for major in MAJORS)
    cuda_stages = (
        base.cuda_stage(f"cuda-{major}", _TREE, (Arg(base.VERSION.name), base.nvcc_environment())) for major in MAJORS
    )
    return (requirements, tree, *requirement_stages, *cuda_stages)


PROVIDER = base.Toolkit(
    name="debian",
    description="CUDA 11.8.0 and 12.4.1: nvcc from Debian's packages, the rest from NVIDIA's wheels in the package index",
    majors=MAJORS,
    preferred=(11,),
    instead=(12,),
    releases=tuple(RELEASES),
    index_name=components.METAPACKAGE,
    stages=_stages,
)
