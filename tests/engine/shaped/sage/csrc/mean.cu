// Keys without their mean: the softmax stays the same, and 8 bits hold them better.
#include "kernels.hpp"

namespace sage {
namespace {

constexpr int kThreads = 256;

__global__ void subtract_kernel(const __half* in, __half* out, float* mean, int rows, int dim) {
    __shared__ float sums[kThreads];
    const int column = blockIdx.x, head = blockIdx.y;
    const std::size_t start = std::size_t(head) * rows * dim + column;
    float sum = 0;
    for (int i = threadIdx.x; i < rows; i += kThreads) sum += __half2float(in[start + std::size_t(i) * dim]);
    sums[threadIdx.x] = sum;
    for (int half = kThreads / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    const float middle = sums[0] / rows;
    for (int i = threadIdx.x; i < rows; i += kThreads) {
        const std::size_t at = start + std::size_t(i) * dim;
        out[at] = __float2half(__half2float(in[at]) - middle);
    }
    if (threadIdx.x == 0) mean[head * dim + column] = middle;
}

}  // namespace

cudaError_t subtract_mean(const __half* in, __half* out, float* mean, int heads, int rows, int dim,
                          cudaStream_t stream) {
    subtract_kernel<<<dim3(dim, heads), kThreads, 0, stream>>>(in, out, mean, rows, dim);
    return cudaGetLastError();
}

}  // namespace sage
