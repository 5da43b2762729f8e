// Eigenvalues and eigenvectors of a symmetric matrix.
#include "dense.hpp"

JAXMG_API int jaxmg_syevd(int n, const double* a, double* values, double* vectors, char* message, int room) {
    using namespace jaxmg;
    return guarded(message, room, [&] {
        const Solver solver;
        Buffer<double> matrix(a, std::size_t(n) * n), found(n);
        int words = 0;
        check(cusolverDnDsyevd_bufferSize(solver.handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n,
                                          matrix.get(), n, found.get(), &words),
              "syevd_bufferSize");
        Buffer<double> work(words);
        Buffer<int> info(1);
        check(cusolverDnDsyevd(solver.handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n, matrix.get(), n,
                               found.get(), work.get(), words, info.get()),
              "syevd");
        check_info(info, "syevd");
        found.take(values);
        matrix.take(vectors);
    });
}
