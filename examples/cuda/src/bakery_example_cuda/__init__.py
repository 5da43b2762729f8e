"""A CUDA kernel as a Python module: importable anywhere, useful where a GPU is."""

from bakery_example_cuda import _runtime

_runtime.preload()

from bakery_example_cuda._core import device_count, runtime_version, saxpy, sum  # noqa: E402

__all__ = ["device_count", "runtime_version", "saxpy", "sum"]
