// cuSOLVER fills one triangle of a symmetric matrix; this fills the other.
#include <cuda_runtime.h>

namespace {

__global__ void mirror_kernel(double* matrix, int n) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < column && column < n) {
        matrix[row + std::size_t(column) * n] = matrix[column + std::size_t(row) * n];
    }
}

}  // namespace

namespace jaxmg {

cudaError_t mirror(double* matrix, int n) {
    const dim3 threads(16, 16), blocks((n + 15) / 16, (n + 15) / 16);
    mirror_kernel<<<blocks, threads>>>(matrix, n);
    return cudaGetLastError();
}

}  // namespace jaxmg
