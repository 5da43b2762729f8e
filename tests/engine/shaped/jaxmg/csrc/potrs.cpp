// Solves A·X = B for a symmetric positive definite A.
#include "dense.hpp"

JAXMG_API int jaxmg_potrs(int n, int columns, const double* a, const double* b, double* x, char* message, int room) {
    using namespace jaxmg;
    return guarded(message, room, [&] {
        const Solver solver;
        Buffer<double> matrix(a, std::size_t(n) * n), right(b, std::size_t(n) * columns);
        factorize(solver, n, matrix.get());
        Buffer<int> info(1);
        check(cusolverDnDpotrs(solver.handle, CUBLAS_FILL_MODE_LOWER, n, columns, matrix.get(), n, right.get(), n,
                               info.get()),
              "potrs");
        check_info(info, "potrs");
        right.take(x);
    });
}
