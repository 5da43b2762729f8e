// What the kernels offer to the modules; torch's headers stay on the modules' side.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace sage {

// Queries and keys of a block of this many rows share one scale.
constexpr int kBlock = 64;

// Tensors are contiguous: [heads][rows][dim].
struct Problem {
    int heads;  // of all batches
    int queries;
    int keys;
    int dim;      // 64 or 128
    float scale;  // of the scores
    bool causal;
};

// 8-bit queries and keys, each with one scale for a block of rows: [heads][blocks].
struct Quantized {
    const std::int8_t* values;
    const float* scales;
};

cudaError_t attention_sm80(const Problem&, Quantized query, Quantized key, const __half* value, __half* out,
                           cudaStream_t);

// value: e4m3 with one scale for each column, [heads][dim].
cudaError_t attention_sm89(const Problem&, Quantized query, Quantized key, const void* value,
                           const float* value_scales, __half* out, cudaStream_t);

// As sm89, but the copy engine fetches the keys.
cudaError_t attention_sm90(const Problem&, Quantized query, Quantized key, const void* value,
                           const float* value_scales, __half* out, cudaStream_t);

// One scale for each block of rows: [heads][ceil(rows / kBlock)].
cudaError_t quantize_rows(const __half* in, std::int8_t* out, float* scales, int heads, int rows, int dim,
                          cudaStream_t);

// One scale for each column: [heads][dim].
cudaError_t quantize_columns(const __half* in, void* out, float* scales, int heads, int rows, int dim, cudaStream_t);

// out = in - mean of the rows; mean: [heads][dim].
cudaError_t subtract_mean(const __half* in, __half* out, float* mean, int heads, int rows, int dim, cudaStream_t);

}  // namespace sage
