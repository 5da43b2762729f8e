// What all libraries share: memory of a device, and errors that become a function's result.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#define JAXMG_API extern "C" __attribute__((visibility("default")))

namespace jaxmg {

inline void check(cudaError_t status) {
    if (status != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(status));
}

// For the libraries, whose status is 0 for success.
template <class Status>
void check(Status status, const char* what) {
    if (int(status) != 0) throw std::runtime_error(std::string(what) + ": status " + std::to_string(int(status)));
}

template <class T>
class Buffer {
public:
    explicit Buffer(std::size_t count) : count_(count) {
        check(cudaMalloc(reinterpret_cast<void**>(&data_), (count ? count : 1) * sizeof(T)));
    }
    Buffer(const T* host, std::size_t count) : Buffer(count) { put(host); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    Buffer(Buffer&& other) noexcept : data_(other.data_), count_(other.count_) { other.data_ = nullptr; }
    ~Buffer() { cudaFree(data_); }

    T* get() const { return data_; }
    void put(const T* host) { check(cudaMemcpy(data_, host, count_ * sizeof(T), cudaMemcpyHostToDevice)); }
    void take(T* host) const { check(cudaMemcpy(host, data_, count_ * sizeof(T), cudaMemcpyDeviceToHost)); }

private:
    T* data_ = nullptr;
    std::size_t count_;
};

// Runs what may throw. Returns 0, or -1 with the reason in ``message``, which has room for ``room`` bytes.
template <class Action>
int guarded(char* message, int room, Action action) {
    try {
        action();
        return 0;
    } catch (const std::exception& error) {
        std::string(error.what()).copy(message, room - 1);
        return -1;
    }
}

}  // namespace jaxmg
