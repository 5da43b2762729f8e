// Half precision → 8 bits with a scale: for blocks of rows (queries, keys) and for columns (values).
#include "kernels.hpp"

#include <cuda_fp8.h>

namespace sage {
namespace {

constexpr int kThreads = 256;
constexpr float kLargestFp8 = 448.0f;

// Returns the largest of all threads' values to each of them.
__device__ float largest(float mine) {
    __shared__ float found[kThreads / 32];
    for (int step = 16; step; step /= 2) mine = fmaxf(mine, __shfl_xor_sync(0xffffffffu, mine, step));
    if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = mine;
    __syncthreads();
    for (float other : found) mine = fmaxf(mine, other);
    return mine;
}

__global__ void rows_kernel(const __half* in, std::int8_t* out, float* scales, int rows, int dim) {
    const int first = blockIdx.x * kBlock;
    const std::size_t start = (std::size_t(blockIdx.y) * rows + first) * dim;
    const int count = min(kBlock, rows - first) * dim;
    float top = 0;
    for (int i = threadIdx.x; i < count; i += kThreads) top = fmaxf(top, fabsf(__half2float(in[start + i])));
    const float scale = fmaxf(largest(top), 1e-8f) / 127.0f;
    for (int i = threadIdx.x; i < count; i += kThreads) {
        out[start + i] = static_cast<std::int8_t>(__float2int_rn(__half2float(in[start + i]) / scale));
    }
    if (threadIdx.x == 0) scales[blockIdx.y * gridDim.x + blockIdx.x] = scale;
}

__global__ void columns_kernel(const __half* in, __nv_fp8_e4m3* out, float* scales, int rows, int dim) {
    const int column = blockIdx.x, head = blockIdx.y;
    const std::size_t start = std::size_t(head) * rows * dim + column;
    float top = 0;
    for (int i = threadIdx.x; i < rows; i += kThreads) {
        top = fmaxf(top, fabsf(__half2float(in[start + std::size_t(i) * dim])));
    }
    const float scale = fmaxf(largest(top), 1e-8f) / kLargestFp8;
    for (int i = threadIdx.x; i < rows; i += kThreads) {
        const std::size_t at = start + std::size_t(i) * dim;
        out[at] = __nv_fp8_e4m3(__half2float(in[at]) / scale);
    }
    if (threadIdx.x == 0) scales[head * dim + column] = scale;
}

}  // namespace

cudaError_t quantize_rows(const __half* in, std::int8_t* out, float* scales, int heads, int rows, int dim,
                          cudaStream_t stream) {
    rows_kernel<<<dim3((rows + kBlock - 1) / kBlock, heads), kThreads, 0, stream>>>(in, out, scales, rows, dim);
    return cudaGetLastError();
}

cudaError_t quantize_columns(const __half* in, void* out, float* scales, int heads, int rows, int dim,
                             cudaStream_t stream) {
    auto* bytes = static_cast<__nv_fp8_e4m3*>(out);
    columns_kernel<<<dim3(dim, heads), kThreads, 0, stream>>>(in, bytes, scales, rows, dim);
    return cudaGetLastError();
}

}  // namespace sage
