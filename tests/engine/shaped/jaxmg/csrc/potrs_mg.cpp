// Solves A·X = B on all devices.
#include "grid.hpp"

JAXMG_API int jaxmg_potrs_mg(int n, int columns, const double* a, const double* b, double* x, char* message,
                             int room) {
    using namespace jaxmg;
    return guarded(message, room, [&] {
        const Grid grid;
        Matrix matrix(grid, n, n, a), right(grid, n, columns, b);
        const auto lower = CUBLAS_FILL_MODE_LOWER;
        std::int64_t first = 0, second = 0;
        check(cusolverMgPotrf_bufferSize(grid.handle, lower, n, matrix.get(), 1, 1, matrix.description, CUDA_R_64F,
                                         &first),
              "potrf_bufferSize");
        check(cusolverMgPotrs_bufferSize(grid.handle, lower, n, columns, matrix.get(), 1, 1, matrix.description,
                                         right.get(), 1, 1, right.description, CUDA_R_64F, &second),
              "potrs_bufferSize");
        const std::int64_t words = std::max(first, second);
        Memory work(grid, words);
        grid.wait();
        int info = 0;
        check(cusolverMgPotrf(grid.handle, lower, n, matrix.get(), 1, 1, matrix.description, CUDA_R_64F, work.get(),
                              words, &info),
              "potrf");
        grid.wait();
        check_info(info, "the matrix is not positive definite");
        check(cusolverMgPotrs(grid.handle, lower, n, columns, matrix.get(), 1, 1, matrix.description, right.get(), 1,
                              1, right.description, CUDA_R_64F, work.get(), words, &info),
              "potrs");
        grid.wait();
        check_info(info, "potrs");
        right.take(x);
    });
}
