#include "kernels.hpp"

#include <stdexcept>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

NB_MODULE(_core, m) {
    m.doc() = "The compiled part of bakery_example_cuda.";
    m.def("device_count", &device_count, "How many GPUs can be used; 0 without a driver.");
    m.def("runtime_version", &runtime_version, "The version of the CUDA runtime library, as 12080 for 12.8.");
    m.def(
        "saxpy",
        [](float a, const std::vector<float> &x, const std::vector<float> &y) {
            if (x.size() != y.size()) {
                throw std::invalid_argument("x and y differ in length");
            }
            std::vector<float> result(x.size());
            saxpy(a, x.data(), y.data(), result.data(), x.size());
            return result;
        },
        nb::arg("a"), nb::arg("x"), nb::arg("y"), "Return a * x + y, computed on the GPU.");
    m.def(
        "sum", [](const std::vector<float> &values) { return sum(values.data(), values.size()); },
        nb::arg("values"), "Return the sum of the values, added up on the GPU.");
}
