"""Builds four CUDA extensions of torch.

Read from the environment: CUDA_HOME; TORCH_CUDA_ARCH_LIST, what to compile for; EXT_PARALLEL, how many extensions
are built at a time; MAX_JOBS, how many compilers each of them runs; NVCC_THREADS, the threads of each nvcc.
"""

import copy
import os

from packaging.version import parse
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension

CODES = {"8.0": "80", "8.6": "86", "8.9": "89", "9.0": "90a", "10.0": "100a", "12.0": "120a", "12.1": "121a"}
"""Architectures as torch writes them → as nvcc does."""


def architectures():
    """Return what TORCH_CUDA_ARCH_LIST asks for; GPUs of this machine are not looked at."""
    words = os.environ.get("TORCH_CUDA_ARCH_LIST", "").replace(" ", ";").split(";")
    found = [word for word in words if word]
    if not found:
        raise RuntimeError("set TORCH_CUDA_ARCH_LIST, such as '8.0;9.0'")
    unknown = [word for word in found if word.removesuffix("+PTX") not in CODES]
    if unknown:
        raise RuntimeError(f"TORCH_CUDA_ARCH_LIST: no kernels for {', '.join(unknown)}; there are {', '.join(CODES)}")
    return sorted(set(found), key=lambda word: parse(word.removesuffix("+PTX")))


def gencode(arch):
    """Return nvcc's options for an architecture."""
    code = CODES[arch.removesuffix("+PTX")]
    options = [f"-gencode=arch=compute_{code},code=sm_{code}"]
    return options + ([f"-gencode=arch=compute_{code},code=compute_{code}"] if arch.endswith("+PTX") else [])


def extension(name, sources, serves=tuple(CODES), libraries=()):
    """Return the extension ``sageattention.name`` as a list; an empty one where no architecture needs it."""
    wanted = [arch for arch in architectures() if arch.removesuffix("+PTX") in serves]
    if not wanted:
        return []
    flags = [option for arch in wanted for option in gencode(arch)]
    threads = f"--threads={os.environ.get('NVCC_THREADS', '4')}"
    return [
        CUDAExtension(
            f"sageattention.{name}",
            [f"csrc/{source}" for source in sources],
            libraries=list(libraries),
            extra_compile_args={"cxx": ["-O2", "-g"], "nvcc": ["-O3", "-lineinfo", threads, *flags]},
        )
    ]


class Build(BuildExtension):
    """Builds EXT_PARALLEL extensions at a time, each in a folder of its own: ninja's files have fixed names."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or int(os.environ.get("EXT_PARALLEL", "4"))

    def build_extension(self, ext):
        own = copy.copy(self)
        own.build_temp = f"{self.build_temp}/{ext.name}"
        super(Build, own).build_extension(ext)


if CUDA_HOME is None:
    raise RuntimeError("there is no CUDA toolkit: set CUDA_HOME")

setup(
    name="sageattention",
    version="2.2.0",
    description="Attention with 8-bit queries and keys: a small project in the shape of a large one",
    python_requires=">=3.9",
    packages=["sageattention"],
    ext_modules=[
        *extension("_qattn_sm80", ["sm80_module.cpp", "sm80.cu"]),
        *extension("_qattn_sm89", ["sm89_module.cpp", "sm89.cu"], serves=("8.9", "9.0", "10.0", "12.0", "12.1")),
        *extension("_qattn_sm90", ["sm90_module.cpp", "sm90.cu"], serves=("9.0",), libraries=("cuda",)),
        *extension("_fused", ["fused_module.cpp", "quantize.cu", "mean.cu"]),
    ],
    cmdclass={"build_ext": Build},
)
