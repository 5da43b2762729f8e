// Eigenvalues and eigenvectors on all devices.
#include "grid.hpp"

JAXMG_API int jaxmg_syevd_mg(int n, const double* a, double* values, double* vectors, char* message, int room) {
    using namespace jaxmg;
    return guarded(message, room, [&] {
        const Grid grid;
        Matrix matrix(grid, n, n, a);
        std::int64_t words = 0;
        check(cusolverMgSyevd_bufferSize(grid.handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n,
                                         matrix.get(), 1, 1, matrix.description, values, CUDA_R_64F, CUDA_R_64F,
                                         &words),
              "syevd_bufferSize");
        Memory work(grid, words);
        grid.wait();
        int info = 0;
        check(cusolverMgSyevd(grid.handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n, matrix.get(), 1, 1,
                              matrix.description, values, CUDA_R_64F, CUDA_R_64F, work.get(), words, &info),
              "syevd");
        grid.wait();
        check_info(info, "syevd");
        matrix.take(vectors);
    });
}
