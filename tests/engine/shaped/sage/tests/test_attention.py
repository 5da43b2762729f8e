"""Kernels against torch's own attention; without a GPU the modules are loaded all the same."""

import importlib

import pytest
import sageattention
import torch
from sageattention.core import KERNELS, fitting

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
MODULES = ("_qattn_sm80", "_qattn_sm89", "_qattn_sm90", "_fused")


@pytest.mark.parametrize("name", MODULES)
def test_module_is_there(name: str) -> None:
    module = importlib.import_module(f"sageattention.{name}")
    assert callable(getattr(module, "quantize_rows" if name == "_fused" else "attend"))


def test_kernel_follows_the_gpu() -> None:
    found = [fitting(item) for item in ((8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 1))]
    assert found == ["sm80", "sm80", "sm89", "sm90", "sm89", "sm89"]


def test_tensors_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(RuntimeError, match="expected a contiguous CUDA tensor"):
        sageattention.quantize_rows(torch.zeros(1, 2, 64))


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


@gpu
def test_mean_is_subtracted() -> None:
    keys = random(3, 333, 64) + 2
    centred, mean = sageattention.subtract_mean(keys)
    torch.testing.assert_close(mean, keys.float().mean(1), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(centred.float(), keys.float() - mean[:, None], atol=4e-3, rtol=1e-3)


@gpu
def test_rows_are_quantized_block_by_block() -> None:
    tensor = random(2, 100, 128)
    values, scales = sageattention.quantize_rows(tensor)
    assert values.dtype is torch.int8
    assert scales.shape == (2, 2)
    for block in range(2):
        rows = slice(64 * block, 64 * (block + 1))
        expected = tensor[:, rows].float().abs().amax((1, 2)) / 127
        torch.testing.assert_close(scales[:, block], expected)
        error = (values[:, rows].float() * scales[:, block, None, None] - tensor[:, rows].float()).abs()
        assert (error <= scales[:, block, None, None] * 0.501).all()


@gpu
def test_columns_are_quantized() -> None:
    tensor = random(2, 77, 64)
    values, scales = sageattention.quantize_columns(tensor)
    torch.testing.assert_close(scales, tensor.float().abs().amax(1) / 448)
    torch.testing.assert_close(values.float() * scales[:, None], tensor.float(), atol=1e-2, rtol=0.07)


@gpu
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "dim"), [(1, 64), (31, 128), (64, 64), (257, 64), (1000, 128)])
def test_attention(kernel: str, causal: bool, rows: int, dim: int) -> None:
    if kernel == "sm90" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("this kernel is for one architecture")
    torch.manual_seed(rows)
    query, key, value = (random(2, 3, rows, dim) for _ in range(3))
    key = key + 1.5  # what subtracting the mean is for
    found = sageattention.sageattn(query, key, value, is_causal=causal, kernel=kernel)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query.float(), key.float(), value.float(), is_causal=causal
    )
    similarity = torch.nn.functional.cosine_similarity(found.float().flatten(), expected.flatten(), dim=0).item()
    assert similarity > 0.998
    tolerance = 0.06 if kernel == "sm80" else 0.25
    assert (found.float() - expected).abs().max().item() < tolerance


@gpu
def test_queries_and_keys_of_different_length() -> None:
    query, (key, value) = random(1, 2, 50, 64), (random(1, 2, 300, 64) for _ in range(2))
    found = sageattention.sageattn(query, key, value)
    expected = torch.nn.functional.scaled_dot_product_attention(query.float(), key.float(), value.float())
    torch.testing.assert_close(found.float(), expected, atol=0.06, rtol=0.05)
