// What the four modules share. Only the parts of torch's headers that are needed: all of them take a minute a file.
#pragma once

#include "kernels.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/utils/pybind.h>

namespace sage {

inline void check(cudaError_t status) { TORCH_CHECK(status == cudaSuccess, "CUDA: ", cudaGetErrorString(status)); }

// Tensors are [heads][rows][dim].
inline void expect(const at::Tensor& tensor, at::ScalarType type, const char* name) {
    TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous() && tensor.dim() == 3 && tensor.scalar_type() == type &&
                    tensor.numel() > 0,
                name, ": expected a contiguous CUDA tensor of three dimensions and type ", toString(type));
}

inline __half* halves(const at::Tensor& tensor) { return static_cast<__half*>(tensor.data_ptr()); }

inline int blocks(std::int64_t rows) { return static_cast<int>((rows + kBlock - 1) / kBlock); }

inline Quantized quantized(const at::Tensor& values, const at::Tensor& scales, const char* name) {
    expect(values, at::kChar, name);
    TORCH_CHECK(scales.is_cuda() && scales.is_contiguous() && scales.scalar_type() == at::kFloat &&
                    scales.numel() == values.size(0) * blocks(values.size(1)),
                name, ": expected one scale for each block of rows");
    return {static_cast<const std::int8_t*>(values.data_ptr()), static_cast<const float*>(scales.data_ptr())};
}

inline Problem problem(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double scale,
                       bool causal) {
    TORCH_CHECK(key.sizes() == value.sizes() && query.size(0) == key.size(0) && query.size(2) == key.size(2),
                "query, key and value differ in their heads or dimensions");
    TORCH_CHECK(query.size(2) == 64 || query.size(2) == 128, "expected rows of 64 or 128, got ", query.size(2));
    return {static_cast<int>(query.size(0)),
            static_cast<int>(query.size(1)),
            static_cast<int>(key.size(1)),
            static_cast<int>(query.size(2)),
            static_cast<float>(scale),
            causal};
}

using Fp8Attention = cudaError_t (*)(const Problem&, Quantized, Quantized, const void*, const float*, __half*,
                                     cudaStream_t);

template <Fp8Attention kernel>
at::Tensor attend_fp8(const at::Tensor& query, const at::Tensor& query_scale, const at::Tensor& key,
                      const at::Tensor& key_scale, const at::Tensor& value, const at::Tensor& value_scale, double scale,
                      bool causal) {
    const Quantized queries = quantized(query, query_scale, "query"), keys = quantized(key, key_scale, "key");
    expect(value, at::kFloat8_e4m3fn, "value");
    TORCH_CHECK(value_scale.is_cuda() && value_scale.is_contiguous() && value_scale.scalar_type() == at::kFloat &&
                    value_scale.numel() == value.size(0) * value.size(2),
                "value: expected one scale for each column");
    const c10::cuda::CUDAGuard guard(query.device());
    at::Tensor out = at::empty(query.sizes(), query.options().dtype(at::kHalf));
    check(kernel(problem(query, key, value, scale, causal), queries, keys, value.data_ptr(),
                 static_cast<const float*>(value_scale.data_ptr()), halves(out), c10::cuda::getCurrentCUDAStream()));
    return out;
}

}  // namespace sage
