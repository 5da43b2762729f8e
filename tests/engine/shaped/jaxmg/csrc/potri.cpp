// Inverts a symmetric positive definite matrix.
#include "dense.hpp"

namespace jaxmg {
cudaError_t mirror(double* matrix, int n);
}

JAXMG_API int jaxmg_potri(int n, const double* a, double* inverse, char* message, int room) {
    using namespace jaxmg;
    return guarded(message, room, [&] {
        const Solver solver;
        Buffer<double> matrix(a, std::size_t(n) * n);
        factorize(solver, n, matrix.get());
        int words = 0;
        check(cusolverDnDpotri_bufferSize(solver.handle, CUBLAS_FILL_MODE_LOWER, n, matrix.get(), n, &words),
              "potri_bufferSize");
        Buffer<double> work(words);
        Buffer<int> info(1);
        check(cusolverDnDpotri(solver.handle, CUBLAS_FILL_MODE_LOWER, n, matrix.get(), n, work.get(), words,
                               info.get()),
              "potri");
        check_info(info, "potri");
        check(mirror(matrix.get(), n));
        matrix.take(inverse);
    });
}
