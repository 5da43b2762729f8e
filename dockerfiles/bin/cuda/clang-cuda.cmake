# What CMake has to know about CUDA 12 compiled by clang.

# NVIDIA's wheels of CUDA 12 hold no static runtime library, which is CMake's default.
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared CACHE STRING "The CUDA runtime library to link")

# clang 19 says in every call that it does not know all features of CUDA 12.6 and newer.
set(CMAKE_CUDA_FLAGS_INIT "-Wno-unknown-cuda-version")
