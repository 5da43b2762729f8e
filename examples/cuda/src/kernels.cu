#include "kernels.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime.h>

namespace {

constexpr int threads = 256;
constexpr int max_blocks = 1024;

void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
    }
}

// An array on the GPU, freed with its scope.
template <typename T> class DeviceArray {
  public:
    explicit DeviceArray(std::size_t count) : bytes_(count * sizeof(T)) {
        check(cudaMalloc(reinterpret_cast<void **>(&data_), bytes_), "cudaMalloc");
    }
    ~DeviceArray() { cudaFree(data_); }
    DeviceArray(const DeviceArray &) = delete;
    DeviceArray &operator=(const DeviceArray &) = delete;

    T *data() const { return data_; }
    void upload(const T *from) { check(cudaMemcpy(data_, from, bytes_, cudaMemcpyHostToDevice), "upload"); }
    void download(T *to) const { check(cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost), "download"); }

  private:
    T *data_ = nullptr;
    std::size_t bytes_;
};

int blocks_for(std::size_t count) {
    return static_cast<int>(std::min<std::size_t>((count + threads - 1) / threads, max_blocks));
}

__global__ void saxpy_kernel(float a, const float *x, const float *y, float *result, std::size_t count) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        result[i] = a * x[i] + y[i];
    }
}

// Each block adds up its share in shared memory and leaves one partial sum.
__global__ void sum_kernel(const float *values, std::size_t count, double *partial) {
    __shared__ double tile[threads];
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    double own = 0.0;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        own += values[i];
    }
    tile[threadIdx.x] = own;
    __syncthreads();
    for (int half = threads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            tile[threadIdx.x] += tile[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = tile[0];
    }
}

} // namespace

int device_count() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) {
        cudaGetLastError(); // forget it: no driver and no device are answers here, not errors
        return 0;
    }
    return count;
}

int runtime_version() {
    int version = 0;
    check(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
    return version;
}

void saxpy(float a, const float *x, const float *y, float *result, std::size_t count) {
    if (count == 0) {
        return;
    }
    DeviceArray<float> device_x(count), device_y(count), device_result(count);
    device_x.upload(x);
    device_y.upload(y);
    saxpy_kernel<<<blocks_for(count), threads>>>(a, device_x.data(), device_y.data(), device_result.data(), count);
    check(cudaGetLastError(), "saxpy");
    device_result.download(result);
}

double sum(const float *values, std::size_t count) {
    if (count == 0) {
        return 0.0;
    }
    const int blocks = blocks_for(count);
    DeviceArray<float> device_values(count);
    DeviceArray<double> device_partial(blocks);
    device_values.upload(values);
    sum_kernel<<<blocks, threads>>>(device_values.data(), count, device_partial.data());
    check(cudaGetLastError(), "sum");
    std::vector<double> partial(blocks);
    device_partial.download(partial.data());
    double total = 0.0;
    for (double part : partial) {
        total += part;
    }
    return total;
}
