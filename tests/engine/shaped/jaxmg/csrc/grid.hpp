// cuSolverMg on all visible devices: matrices lie on them in blocks of columns, dealt out in turn.
#pragma once

#include "device.hpp"

#include <cusolverMg.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace jaxmg {

constexpr int kColumns = 64;  // of a block

inline void check_info(int info, const char* what) {
    if (info != 0) throw std::runtime_error(std::string(what) + ": info " + std::to_string(info));
}

class Grid {
public:
    Grid() {
        int count = 0;
        check(cudaGetDeviceCount(&count));
        devices.resize(count);
        std::iota(devices.begin(), devices.end(), 0);
        check(cusolverMgCreate(&handle), "cusolverMgCreate");
        check(cusolverMgDeviceSelect(handle, count, devices.data()), "cusolverMgDeviceSelect");
        check(cusolverMgCreateDeviceGrid(&grid, 1, count, devices.data(), CUDALIBMG_GRID_MAPPING_COL_MAJOR),
              "cusolverMgCreateDeviceGrid");
    }
    Grid(const Grid&) = delete;
    Grid& operator=(const Grid&) = delete;
    ~Grid() {
        cusolverMgDestroyGrid(grid);
        cusolverMgDestroy(handle);
        cudaSetDevice(0);
    }

    void wait() const {
        for (int device : devices) {
            check(cudaSetDevice(device));
            check(cudaDeviceSynchronize());
        }
    }

    std::vector<int> devices;
    cusolverMgHandle_t handle = nullptr;
    cudaLibMgGrid_t grid = nullptr;
};

// Memory of the same size on every device.
class Memory {
public:
    Memory(const Grid& grid, std::size_t words) : devices_(grid.devices) {
        for (int device : devices_) {
            check(cudaSetDevice(device));
            buffers_.emplace_back(words);
            pointers_.push_back(buffers_.back().get());
        }
    }
    void** get() { return pointers_.data(); }

protected:
    std::vector<int> devices_;
    std::vector<Buffer<double>> buffers_;
    std::vector<void*> pointers_;
};

class Matrix : public Memory {
public:
    Matrix(const Grid& grid, int rows, int columns, const double* host)
        : Memory(grid, std::size_t(rows) * kColumns * share(columns, int(grid.devices.size()))),
          rows_(rows),
          columns_(columns) {
        check(cusolverMgCreateMatrixDesc(&description, rows, columns, rows, kColumns, CUDA_R_64F, grid.grid),
              "cusolverMgCreateMatrixDesc");
        copy(host, nullptr);
    }
    Matrix(const Matrix&) = delete;
    Matrix& operator=(const Matrix&) = delete;
    ~Matrix() { cusolverMgDestroyMatrixDesc(description); }

    void take(double* host) { copy(nullptr, host); }

    cudaLibMgMatrixDesc_t description = nullptr;

private:
    // The most blocks that a device has.
    static int share(int columns, int devices) {
        const int blocks = (columns + kColumns - 1) / kColumns;
        return (blocks + devices - 1) / devices;
    }

    void copy(const double* from, double* to) {
        const int count = int(devices_.size());
        for (int block = 0; block * kColumns < columns_; ++block) {
            const std::size_t words = std::size_t(rows_) * std::min(kColumns, columns_ - block * kColumns);
            const std::size_t start = std::size_t(rows_) * kColumns * block;
            check(cudaSetDevice(devices_[block % count]));
            double* place = buffers_[block % count].get() + std::size_t(rows_) * kColumns * (block / count);
            if (from) check(cudaMemcpy(place, from + start, words * sizeof(double), cudaMemcpyHostToDevice));
            if (to) check(cudaMemcpy(to + start, place, words * sizeof(double), cudaMemcpyDeviceToHost));
        }
    }

    int rows_, columns_;
};

}  // namespace jaxmg
