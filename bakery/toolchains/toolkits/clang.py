"""Toolkit ``clang``: CUDA 12 by clang, with ptxas, libdevice, headers and runtime of NVIDIA's wheels.

NVIDIA's wheels of CUDA 12 contain everything except the front end (nvcc, cicc, cudafe++) and two small programs. Clang
replaces the front end; the ptxas of the release makes the machine code.
"""

from __future__ import annotations

from bakery.plan.dockerfile import Arg, Env, Role, Run, Stage
from bakery.plan.values import literal
from bakery.toolchains import components, pip_steps, program_mounts
from bakery.toolchains.pip_steps import CERTIFICATES, NET, NETWORK
from bakery.toolchains.toolkits import base

MAJOR = 12

_NAME = f"cuda-{MAJOR}"
_PROGRAMS = f"{_NAME}-programs"

CLANG = "19"
"""The newest clang of Debian bookworm. It supports GPUs up to sm_90a; headers and ptxas of the release may be newer."""

BINARIES = "nvidia-cuda-nvcc==13.0.88"
"""The wheel with ``fatbinary`` and ``nvlink``, which pack and link the output of ptxas. No wheel of CUDA 12 contains
them. CUDA 13.0 is the nearest release that does, 13.0.88 its last version."""

_BINARIES = "/tmp/cuda-binaries"
_COMMENT = "CUDA 12: clang, with ptxas, libdevice, headers and runtime of NVIDIA's wheels."
_TOOLCHAIN = f"{base.HOME}/clang-cuda.cmake"


def _stages() -> tuple[Stage, ...]:
    programs = pip_steps.resolve(_PROGRAMS, (literal(BINARIES),), options=("--only-binary=:all:", "--no-deps"))
    requirements = base.requirements_stage(
        _NAME, (base.resolve_tree(_NAME, "nvcc", "cudart", "cccl", "curand"), programs), comment=_COMMENT
    )
    compiler = Run((base.command(NET, "clang-for-cuda", base.HOME, CLANG),), CERTIFICATES, Role.CUDA)
    install = Run(
        (
            *base.install_tree(_NAME, without=("libcurand*",)),
            pip_steps.unpack(_PROGRAMS, _BINARIES),
            base.command(program_mounts.path("clang-tools"), base.HOME, _BINARIES),
            base.command("rm", "-r", _BINARIES),
            base.run_python("libcuda_stub.py", base.HOME, f"{base.HOME}/bin/clang++"),
            base.LOADER,
        ),
        (*pip_steps.resolved(requirements.name, _NAME, _PROGRAMS), *NETWORK),
        Role.CUDA,
    )
    steps = (
        compiler,
        Arg(base.VERSION.name),
        install,
        Env((*base.environment("clang++"), ("CMAKE_TOOLCHAIN_FILE", literal(_TOOLCHAIN)))),
    )
    return (requirements, base.cuda_stage(_NAME, "base", steps))


PROVIDER = base.Toolkit(
    name="clang",
    description="CUDA 12: clang, with ptxas, libdevice and headers of NVIDIA's wheels in the package index",
    majors=(MAJOR,),
    preferred=(MAJOR,),
    nvcc=False,
    index_name=components.METAPACKAGE,
    stages=_stages,
)
