"""Chooses the kernel that fits the GPU."""

from __future__ import annotations

import importlib

import torch

KERNELS = ("sm80", "sm89", "sm90")


def _module(name: str):
    return importlib.import_module(f"sageattention._{name}")


def fitting(capability: tuple[int, int]) -> str:
    """Return the kernel for a GPU's compute capability."""
    if capability == (9, 0):
        return "sm90"
    return "sm89" if capability >= (8, 9) else "sm80"


def subtract_mean(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a tensor [heads, rows, dim] without the mean of its rows, and that mean."""
    return _module("fused").subtract_mean(tensor)


def quantize_rows(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 8-bit integers and the scale of each block of 64 rows."""
    return _module("fused").quantize_rows(tensor)


def quantize_columns(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 8-bit floats (e4m3) and the scale of each column."""
    return _module("fused").quantize_columns(tensor)


def sageattn(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    kernel: str | None = None,
) -> torch.Tensor:
    """Return softmax(query · keyᵀ · scale) · value for tensors [batch, heads, rows, 64 or 128] in half precision."""
    kernel = kernel or fitting(torch.cuda.get_device_capability(query.device))
    rows, keys, values = (tensor.flatten(0, 1).contiguous() for tensor in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    arguments = [*quantize_rows(rows), *quantize_rows(subtract_mean(keys)[0])]
    arguments += [values] if kernel == "sm80" else [*quantize_columns(values)]
    return _module(f"qattn_{kernel}").attend(*arguments, scale, is_causal).view(query.shape)
