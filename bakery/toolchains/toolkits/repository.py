"""Toolkit ``repository``: CUDA from NVIDIA's packages for the distribution of the base.

The recipe has the URL of the repository: NVIDIA's or a mirror.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

from bakery.core.errors import PlanError
from bakery.plan.dockerfile import Arg, Role, Run, Script, Stage, Step
from bakery.plan.values import Value
from bakery.toolchains import facts, program_mounts
from bakery.toolchains.pip_steps import CERTIFICATES, NET
from bakery.toolchains.toolkits import base
from bakery.toolchains.toolkits.image import LAST, own_cuda

PACKAGES = ("cuda-nvcc", "cuda-cudart-devel", "cuda-cccl")
"""The packages that compile and link CUDA; nvcc depends on the front end and nvvm. These are names in NVIDIA's RPM
repositories, without the release; ``cuda_repository.py`` converts them for the package manager of the base."""

COMPONENTS = {
    "cublas": "libcublas-devel",
    "cufft": "libcufft-devel",
    "cufile": "libcufile-devel",
    "cupti": "cuda-cupti",
    "curand": "libcurand-devel",
    "cusolver": "libcusolver-devel",
    "cusparse": "libcusparse-devel",
    "npp": "libnpp-devel",
    "nvfatbin": "libnvfatbin-devel",
    "nvjitlink": "libnvjitlink-devel",
    "nvjpeg": "libnvjpeg-devel",
    "nvml": "cuda-nvml-devel",
    "nvrtc": "cuda-nvrtc-devel",
    "nvtx": "cuda-nvtx",
    "profiler": "cuda-profiler-api",
}
"""Component → its package, as in `PACKAGES` (NVIDIA's repositories for rhel8 and debian12, CUDA 12 and 13)."""


@dataclass(frozen=True, slots=True)
class Repository(base.Toolkit):
    """A toolkit with a package repository.

    Attributes:
        address: the URL of the repository for the distribution and architecture of the base.
        declared: the build arguments in the URL.
        key: the fingerprint of the key that signs it; empty for the keys that NVIDIA published.
    """

    address: Value = ()
    declared: tuple[Arg, ...] = ()
    key: str = ""

    def stage(self, components_of: Mapping[str, Sequence[str]] = MappingProxyType({})) -> tuple[Stage, ...]:
        """Return the stage that builders start from; PlanError if the package of a component is unknown."""
        component_names = tuple(chain.from_iterable(components_of.values()))
        unknown = [item for item in component_names if item not in COMPONENTS]
        if unknown:
            raise PlanError(
                f"toolkit {self.name!r} has no component {', '.join(unknown)}",
                hint=f"it has {', '.join(COMPONENTS)}; other packages of the base: builder.system-packages",
            )
        packages = (*PACKAGES, *(COMPONENTS[name] for name in component_names))
        program = program_mounts.path("cuda_repository.py")
        keys = self.key or ",".join(row.fingerprint for row in facts.repository_keys())
        install = Script(
            f'{NET} "$({program_mounts.path("find-python")})" {program} "$CUDA_REPOSITORY" "$CUDA_VERSION" {keys} {" ".join(packages)}'
        )
        steps: tuple[Step, ...] = (
            *dict.fromkeys((*self.declared, Arg(base.VERSION.name))),
            Arg("CUDA_REPOSITORY", self.address),
            Run((install, *own_cuda()), CERTIFICATES, Role.CUDA),
            base.host_compiler(),
            base.nvcc_environment(),
        )
        return (base.cuda_stage(LAST, "base", steps, "CUDA of NVIDIA's own packages."),)


PROVIDER = Repository(
    name="repository",
    description="NVIDIA's own packages for the base's distribution, from builder.cuda-repository",
)
