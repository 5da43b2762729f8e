"""Framework ``torch``: extensions in C++ and CUDA, linked with libtorch.

libtorch's C++ ABI holds within one minor release: a module built with 2.10 does not load beside 2.11. Projects that
keep to torch's stable ABI write their own lower bound: ``wheel.requires = ["torch>=2.11"]``.
"""

from __future__ import annotations

from bakery.toolchains.frameworks import Framework

PROVIDER = Framework(
    name="torch",
    description="torch: the build sees exactly TORCH_VERSION, and the wheel requires its minor release",
    variable="TORCH_VERSION",
    build=("torch==${TORCH_VERSION}",),
    test=("torch==${TORCH_VERSION}",),
    runtime="torch==${TORCH_MINOR}.*",
    # ATen/cuda/CUDAContextLight.h of torch 2.11 includes cublas_v2.h, cublasLt.h, cusolverDn.h and cusparse.h.
    components=("cublas", "cusolver", "cusparse"),
    # torch.utils.cpp_extension (2.11) writes nvcc's own options into its ninja files.
    nvcc=True,
    # Requires-Dist of torch 2.11.0 for Linux. It pins one release of CUDA, which need not be that of nvcc.
    brings=(
        "cublas",
        "cudart",
        "cufft",
        "cufile",
        "cupti",
        "curand",
        "cusolver",
        "cusparse",
        "nvjitlink",
        "nvrtc",
        "nvtx",
        "cudnn",
        "cusparselt",
        "nccl",
        "nvshmem",
    ),
    # Gigabytes, whose versions torch's release decides.
    layer=("torch", "triton", "nvidia-*"),
)
