// cuSOLVER on one device.
#pragma once

#include "device.hpp"

#include <cusolverDn.h>

namespace jaxmg {

struct Solver {
    cusolverDnHandle_t handle = nullptr;
    Solver() { check(cusolverDnCreate(&handle), "cusolverDnCreate"); }
    Solver(const Solver&) = delete;
    Solver& operator=(const Solver&) = delete;
    ~Solver() { cusolverDnDestroy(handle); }
};

inline void check_info(const Buffer<int>& info, const char* what) {
    int found = 0;
    info.take(&found);
    if (found != 0) throw std::runtime_error(std::string(what) + ": info " + std::to_string(found));
}

// Overwrites the lower triangle of a matrix with its Cholesky factor.
inline void factorize(const Solver& solver, int n, double* matrix) {
    int room = 0;
    check(cusolverDnDpotrf_bufferSize(solver.handle, CUBLAS_FILL_MODE_LOWER, n, matrix, n, &room), "potrf_bufferSize");
    Buffer<double> work(room);
    Buffer<int> info(1);
    check(cusolverDnDpotrf(solver.handle, CUBLAS_FILL_MODE_LOWER, n, matrix, n, work.get(), room, info.get()), "potrf");
    check_info(info, "the matrix is not positive definite");
}

}  // namespace jaxmg
