"""What wheels of CUDA projects compute on a GPU, beside a CPU or torch: ``python gpu_checks.py NAME``, as their `test.command`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

CHECKS: dict[str, Callable[[], float]] = {}


def check(function: Callable[[], float]) -> Callable[[], float]:
    """Register the check of the project that a function is named after; it returns the largest difference."""
    CHECKS[function.__name__.replace("_", "-")] = function
    return function


def _worst(*pairs: tuple[Any, Any]) -> float:
    """Return the largest difference of tensors, absolute for values below 1 and relative above."""
    found = [((a.cpu() - b.cpu()).abs() / b.cpu().abs().clamp(min=1)).max().item() for a, b in pairs]
    return float(max(found))


@check
def torchsort() -> float:
    torch, ts = map(import_module, ("torch", "torchsort"))

    # In single precision, the entropic ones of CPU and GPU differ by more than 0.005.
    values, pairs = torch.randn(16, 256, dtype=torch.float64), []
    for function in (ts.soft_rank, ts.soft_sort):
        for name in ("l2", "kl"):
            tensors = [values.clone().to(where).requires_grad_() for where in ("cuda", "cpu")]
            results = [function(item, regularization=name, regularization_strength=0.5) for item in tensors]
            for result in results:
                result.square().sum().backward()
            pairs += [tuple(item.detach() for item in results), tuple(item.grad for item in tensors)]
    return _worst(*pairs)


@check
def torch_scatter() -> float:
    torch, ts = map(import_module, ("torch", "torch_scatter"))

    values, index = torch.randn(1000, 64, device="cuda"), torch.randint(0, 50, (1000,), device="cuda")
    total = torch.zeros(50, 64, device="cuda").index_add_(0, index, values)
    largest = torch.full((50, 64), -1e9, device="cuda").scatter_reduce_(
        0, index[:, None].expand(-1, 64), values, "amax"
    )
    order = torch.argsort(index)
    ends = torch.bincount(index, minlength=50).cumsum(0)
    return _worst(
        (ts.scatter(values, index, dim=0, reduce="sum"), total),
        (ts.scatter_max(values, index, dim=0)[0], largest),
        (ts.segment_csr(values[order], torch.cat([ends.new_zeros(1), ends]), reduce="sum"), total),
    )


@check
def torch_spline_conv() -> float:
    torch, spline = map(import_module, ("torch", "torch_spline_conv"))

    edges, kernel = torch.randint(0, 100, (2, 400)), torch.tensor([5, 5])
    words = (torch.rand(100, 8), edges, torch.rand(400, 2), torch.rand(25, 8, 16), kernel, kernel.new_ones(2).byte())
    return _worst((spline.spline_conv(*(word.cuda() for word in words)), spline.spline_conv(*words)))


@check
def torch_harmonics() -> float:
    torch, harmonics = map(import_module, ("torch", "torch_harmonics"))

    words: dict[str, Any] = {"in_channels": 4, "out_channels": 4, "in_shape": (32, 64), "out_shape": (32, 64)}
    words |= {"kernel_shape": (3, 3), "bias": False}
    by_torch = harmonics.DiscreteContinuousConvS2(optimized_kernel=False, **words)
    own = harmonics.DiscreteContinuousConvS2(optimized_kernel=True, **words)
    with torch.no_grad():
        own.weight.copy_(by_torch.weight)
    values = torch.randn(2, 4, 32, 64)
    return _worst((own.cuda()(values.cuda()).detach(), by_torch(values).detach()))


@check
def exllamav2() -> float:
    torch, ext = map(import_module, ("torch", "exllamav2_ext"))

    values, weight = (torch.randn(size, device="cuda", dtype=torch.half) for size in ((64, 4096), (4096,)))
    result = torch.empty_like(values)
    ext.rms_norm(values, weight, result, 1e-6)
    scale = torch.rsqrt(values.float().square().mean(-1, keepdim=True) + 1e-6)
    return _worst((result.float(), values.float() * scale * weight.float()))


@check
def pycuda() -> float:
    modules = ("numpy", "pycuda.autoinit", "pycuda.gpuarray", "pycuda.compiler", "pycuda.curandom")
    numpy, _, gpuarray, compiler, curandom = map(import_module, modules)
    values = numpy.arange(256, dtype=numpy.float32)
    array = gpuarray.to_gpu(values)
    kernel = compiler.SourceModule("__global__ void twice(float *values) { values[threadIdx.x] *= 2; }").get_function(
        "twice"
    )
    kernel(array, block=(256, 1, 1))
    mean = curandom.XORWOWRandomNumberGenerator().gen_uniform(1_000_000, numpy.float32).get().mean()
    assert 0.49 < mean < 0.51, mean
    return float(abs(array.get() - 2 * values).max())


@check
def cufinufft() -> float:
    torch, nufft = map(import_module, ("torch", "cufinufft"))

    points = (torch.rand(500, dtype=torch.float64, device="cuda") * 2 - 1) * torch.pi
    strengths = torch.randn(500, dtype=torch.complex128, device="cuda")
    waves = torch.arange(-32, 32, dtype=torch.float64, device="cuda")
    direct = torch.exp(1j * waves[:, None] * points) @ strengths
    return _worst((nufft.nufft1d1(points, strengths, (64,), eps=1e-12), direct))


if __name__ == "__main__":
    name = sys.argv[1]
    if name != "pycuda":
        torch = import_module("torch")
        torch.manual_seed(0)
        print(torch.__version__, torch.cuda.get_device_name())
    worst = CHECKS[name]()
    print(f"{name}: the largest difference is {worst:.2g}")
    assert worst < 5e-3
