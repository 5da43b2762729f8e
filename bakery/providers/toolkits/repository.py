"""Toolkit ``repository``: CUDA of NVIDIA's own packages for the base's distribution.

The repository's address is the recipe's: NVIDIA's own, or a company's mirror.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bakery.errors import PlanError
from bakery.plan import Arg, Ref, Run, Script, Stage, Value, literal
from bakery.providers.network import NETWORK
from bakery.providers.toolkits import base
from bakery.providers.toolkits.image import LAST, own_cuda, programs

PACKAGES = ("cuda-nvcc", "cuda-cudart-devel", "cuda-cccl")
"""What compiles and links CUDA; nvcc brings the front end and nvvm with it. Names are those of NVIDIA's RPM
repositories without the release; ``cuda_repository.py`` makes them those of the base's own package manager."""

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
    """A toolkit that has to be told where its packages are.

    Attributes:
        address: the folder of the repository for the base's distribution and machine.
    """

    address: Value = ()

    def at(self, address: Value) -> Repository:
        """Return the toolkit of the repository at ``address``."""
        return replace(self, address=address)

    def stage(self, wanted: Sequence[str] = ()) -> tuple[Stage, ...]:
        """Return the stage that builders start from, with the components that the recipe names.

        Raises:
            PlanError: one has no package whose name is known here.
        """
        unknown = [item for item in wanted if item not in COMPONENTS]
        if unknown:
            raise PlanError(
                f"toolkit {self.name!r} has no component {', '.join(unknown)}",
                hint=f"it has {', '.join(COMPONENTS)}; other packages of the base: builder.system-packages",
            )
        return _stages(self.address, tuple(wanted))


def _stages(address: Value, components: tuple[str, ...]) -> tuple[Stage, ...]:
    wanted = (*PACKAGES, *(COMPONENTS[name] for name in components))
    install = Script(
        f'net "$(find-python)" {base.PROGRAMS}/cuda_repository.py "$CUDA_REPOSITORY" "$CUDA_VERSION" {" ".join(wanted)}'
    )
    declared = dict.fromkeys(part.name for part in address if isinstance(part, Ref))
    steps = (
        base.program("cuda_repository.py"),
        *programs(),
        *(Arg(name) for name in declared if name != base.VERSION.name),
        Arg(base.VERSION.name),
        Arg("CUDA_REPOSITORY", address),
        Run((install, *own_cuda()), NETWORK),
        base.host_compiler(),
        base.nvcc_environment(),
    )
    return (Stage(LAST, literal("base"), steps, "CUDA of NVIDIA's own packages."),)


PROVIDER = Repository(
    name="repository",
    description="NVIDIA's own packages for the base's distribution, from builder.cuda-repository",
    majors=(),
    index_name="",
    stages=lambda: (),
)
