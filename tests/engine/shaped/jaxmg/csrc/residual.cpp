// The norm of A·X - B, column-major.
#include "device.hpp"

#include <cublas_v2.h>

JAXMG_API int jaxmg_residual(int n, int columns, const double* a, const double* x, const double* b, double* norm,
                             char* message, int room) {
    using namespace jaxmg;
    return guarded(message, room, [&] {
        cublasHandle_t handle = nullptr;
        check(cublasCreate(&handle), "cublasCreate");
        const Buffer<double> matrix(a, std::size_t(n) * n), solution(x, std::size_t(n) * columns);
        const Buffer<double> right(b, std::size_t(n) * columns);
        const double one = 1, minus = -1;
        check(cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, columns, n, &one, matrix.get(), n, solution.get(), n,
                          &minus, right.get(), n),
              "gemm");
        check(cublasDnrm2(handle, n * columns, right.get(), 1, norm), "nrm2");
        check(cublasDestroy(handle), "cublasDestroy");
    });
}
